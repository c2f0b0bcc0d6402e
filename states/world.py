"""What templates see of the host: grains, pillar, settings; and the calls they may make, `salt['module.function']()`.

The calls themselves are in `helpers`, one table. None of them changes anything.
"""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jinja2 import StrictUndefined

from holdfast.resources.registry import nearest
from holdfast.states.grains import CALLS, Grains, unnoted
from holdfast.states.source import Tree

MISSING: Any = object()
"""Stands for "there is no such value" where None is one."""


@dataclass(slots=True)
class World:
    """One host, as templates of one tree see it."""

    grains: Mapping[str, Any] = field(default_factory=dict)
    pillar: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    minion_id: str = ""
    env: str = "base"
    tree: Tree | None = None
    """The directory that `import` and `include` begin at; None: there is none."""
    looked: bool = False
    """A template has asked for something that may change without any file changing."""
    asked: set[str] = field(default_factory=set)
    """Modules whose calls it has made, each as `CALLS` and its name."""
    _frozen: tuple[bytes, bytes] | None = None
    """The grains, and the rest."""

    def freeze(self) -> str:
        """Keep all data as they are now; returns a digest of them but for the grains, which each copy notes the reading of."""
        rest = pickle.dumps((dict(self.pillar), dict(self.options)))
        self._frozen = pickle.dumps(unnoted(self.grains)), rest
        return hashlib.sha256(rest + repr((self.minion_id, self.env)).encode()).hexdigest()

    def copy(self) -> World:
        """A copy for one template, which may change it without others seeing that."""
        if self._frozen is None:
            self.freeze()
        grains, (pillar, options) = (pickle.loads(frozen) for frozen in self._frozen or ())  # noqa: S301 - bytes that freeze() has made
        return World(Grains(grains), pillar, options, self.minion_id, self.env, self.tree)

    @property
    def read(self) -> set[str]:
        """Names of the grains that the template of this copy has read, and the modules that it has called."""
        return self.asked | self.grains.read if isinstance(self.grains, Grains) else self.asked

    def variables(self) -> dict[str, Any]:
        """The names that every template has."""
        from holdfast.states import helpers  # noqa: PLC0415 - helpers need World; templates without calls need no helpers

        return {
            "salt": Calls(self, helpers.TABLE),
            "grains": self.grains,
            "pillar": self.pillar,
            "opts": self.opts(),
            "saltenv": self.env,
            **helpers.globals_for(self),
        }

    def opts(self) -> dict[str, Any]:
        """The settings as templates see them, with those of Salt's that have a meaning here."""
        roots = {self.env: [str(self.tree.root)]} if self.tree is not None else {}
        known = {
            "id": self.minion_id,
            "saltenv": self.env,
            "pillarenv": self.env,
            "environment": self.env,
            "file_client": "local",
            "__cli": "salt-call",
        }
        return {**known, "file_roots": roots, "grains": self.grains, "pillar": self.pillar, **self.options}


class TemplateStop(Exception):
    """`raise('text')` in a template."""


class Forbidden(ValueError):
    """A template wants what templates may not; `hint` says what to do instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


Helper = Callable[..., Any]
"""A call of the table: takes the world first, then what the template gives."""


class Calls:
    """`salt` in templates: `salt['grains.get']('os')`, `salt.grains.get('os')`, `'grains.get' in salt`.

    Not a `Mapping`: its own `items` and `keys` would stand before those of modules.
    """

    def __init__(self, world: World, table: Mapping[str, Helper], prefix: str = "") -> None:
        self.world, self._table, self._prefix = world, table, prefix

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The call of that name.

        One that there is not can be asked about (`is defined`, `default`), as in Salt; whatever else is done with it raises
        `NoSuchCall`, which a template reports at its line.
        """
        full = self._prefix + name
        if full not in self._table:
            return StrictUndefined(name=full, exc=lambda _: NoSuchCall(full, self._table))  # type: ignore[arg-type] # it is called, with a text
        helper, world = self._table[full], self.world
        world.asked.add(CALLS + full.partition(".")[0])

        def call(*args: Any, **kwargs: Any) -> Any:
            return helper(world, *args, **kwargs)

        return call

    def __repr__(self) -> str:
        """The same for each rendering."""
        return f"<calls of {self._prefix.rstrip('.') or 'all modules'}>"

    def __iter__(self) -> Iterator[str]:
        """The names of all calls."""
        return iter(self._table)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a call."""
        return isinstance(name, str) and self._prefix + name in self._table

    def __getattr__(self, name: str) -> Any:
        """A module (`salt.grains`), a call of one, or `salt.get`. Raises `AttributeError` for names that cannot be any."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "get" and not self._prefix:
            return lambda call, default=None: self[call] if call in self else default  # noqa: SIM401 - this is what `get` is
        full = self._prefix + name
        if any(known.startswith(full + ".") for known in self._table):
            return Calls(self.world, self._table, full + ".")
        return self[name]


REASONS = {
    "mine": "there is no master that keeps other hosts' data: put them into the pillar",
    "publish": "there is no master to ask: put other hosts' data into the pillar",
    "saltutil": "templates change nothing, and there is nothing to synchronise",
    "state": "templates only declare states: use include",
    "sdb": "there is no sdb: put the value into the pillar",
    "vault": "there is no vault: put the value into the pillar",
    "http": "templates do not use the network: put the data into the pillar",
}
"""Module of calls that there is not -> why, and what to do instead."""


class NoSuchCall(KeyError):
    """A template wants a call that does not exist, or that templates may not make."""

    def __init__(self, name: str, table: Mapping[str, Helper]) -> None:
        super().__init__(name)
        module = name.partition(".")[0]
        near = nearest(name, [known for known in table if known.partition(".")[0] == module] or table)
        modules = ", ".join(sorted({known.partition(".")[0] for known in table}))
        self.hint = REASONS.get(module) or (
            f"did you mean {near}?" if near else f"there are calls of {modules}; what a host is and has, its grains tell"
        )

    def __str__(self) -> str:
        """A sentence, where a KeyError has only the key."""
        return f"templates cannot call {self.args[0]}"


def traverse(data: Any, key: Any, default: Any = "", delimiter: str = ":") -> Any:
    """A value deep in nested data, its keys joined by `delimiter` (or a list of them); `default` when there is none.

    In a list a number is a position, and a word is looked for in the mappings of that list.
    """
    for part in key.split(delimiter) if isinstance(key, str) else [key] if isinstance(key, int) else key:
        data = _step(data, part)
        if data is MISSING:
            return default
    return data


def _step(data: Any, part: Any) -> Any:
    """One level down; MISSING when there is nothing."""
    number = int(part) if isinstance(part, int) or (isinstance(part, str) and part.lstrip("-").isdecimal()) else None
    if isinstance(data, Mapping):
        return data[part] if part in data else MISSING if number is None else data.get(number, MISSING)
    if not isinstance(data, (list, tuple)):
        return MISSING
    word = part if number is None else number
    inner = next((item[word] for item in data if isinstance(item, Mapping) and word in item), MISSING)
    if inner is MISSING and number is not None and -len(data) <= number < len(data):
        return data[number]
    return inner


STRATEGIES = ("smart", "recurse", "aggregate", "overwrite", "list", "none")
"""Ways to lay one mapping upon another, as Salt names them."""


def merge(base: Any, over: Any, *, lists: bool = False, strategy: str = "smart") -> Any:
    """`over` laid upon `base`, mapping by mapping; lists replace each other, or with `lists` are joined.

    `strategy`: `list` makes a list of two values of one key; `overwrite` takes whole what stands at the first level; the
    others are `recurse`, for values without YAML tags `aggregate` too takes the later one.
    """
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return (
            [*base, *(item for item in over if item not in base)] if lists and isinstance(base, list) and isinstance(over, list) else over
        )
    result = copy.copy(base) if isinstance(base, dict) else dict(base)
    if strategy == "list":
        return {key: [value, over[key]] if key in over else value for key, value in base.items()}
    for key, value in over.items():
        whole = key not in result or strategy in {"overwrite", "aggregate"}
        result[key] = value if whole else merge(result[key], value, lists=lists)
    return result
