"""What templates see of the host: grains, pillar, settings; and the calls they may make, `salt['module.function']()`.

The calls themselves are in `helpers`, one table. None of them changes anything.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.resources.registry import nearest

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
    root: Path | None = None
    """The directory that `import` and `include` begin at; None: there is none."""
    looked: bool = False
    """A template has asked for something that may change without any file changing."""
    _frozen: bytes = b""

    def freeze(self) -> str:
        """Keep all data as they are now; returns a digest of them."""
        self._frozen = pickle.dumps((dict(self.grains), dict(self.pillar), dict(self.options)))
        return hashlib.sha256(self._frozen + repr((self.minion_id, self.env)).encode()).hexdigest()

    def copy(self) -> World:
        """A copy for one template, which may change it without others seeing that."""
        if not self._frozen:
            self.freeze()
        grains, pillar, options = pickle.loads(self._frozen)  # noqa: S301 - bytes that freeze() has made
        return World(grains, pillar, options, self.minion_id, self.env, self.root)

    def variables(self) -> dict[str, Any]:
        """The names that every template has."""
        from holdfast.states import helpers  # noqa: PLC0415 - helpers need World; templates without calls need no helpers

        opts = {"id": self.minion_id, "saltenv": self.env, "grains": self.grains, "pillar": self.pillar, **self.options}
        return {
            "salt": Calls(self, helpers.TABLE),
            "grains": self.grains,
            "pillar": self.pillar,
            "opts": opts,
            "saltenv": self.env,
            **helpers.globals_for(self),
        }


class TemplateStop(Exception):
    """`raise('text')` in a template."""


Helper = Callable[..., Any]
"""A call of the table: takes the world first, then what the template gives."""


class Calls:
    """`salt` in templates: `salt['grains.get']('os')`, `salt.grains.get('os')`, `'grains.get' in salt`.

    Not a `Mapping`: its own `get`, `items` and `keys` would stand before those of modules.
    """

    def __init__(self, world: World, table: Mapping[str, Helper], prefix: str = "") -> None:
        self._world, self._table, self._prefix = world, table, prefix

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The call of that name. Raises `KeyError`, which a template reports at its line."""
        full = self._prefix + name
        if full not in self._table:
            raise NoSuchCall(full, self._table)
        helper, world = self._table[full], self._world

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
        """A module (`salt.grains`), or a call of one. Raises `AttributeError` for names that are neither."""
        if name.startswith("_"):
            raise AttributeError(name)
        full = self._prefix + name
        if any(known.startswith(full + ".") for known in self._table):
            return Calls(self._world, self._table, full + ".")
        return self[name]


class NoSuchCall(KeyError):
    """A template wants a call that does not exist, or that templates may not make."""

    def __init__(self, name: str, table: Mapping[str, Helper]) -> None:
        super().__init__(name)
        near = nearest(name, table)
        modules = ", ".join(sorted({known.partition(".")[0] for known in table}))
        self.hint = f"did you mean {near}?" if near else f"there are calls of {modules}; what a host is and has, its grains tell"

    def __str__(self) -> str:
        """A sentence, where a KeyError has only the key."""
        return f"templates cannot call {self.args[0]}"


def traverse(data: Any, key: Any, default: Any = "", delimiter: str = ":") -> Any:
    """A value deep in nested data, its keys joined by `delimiter`; `default` when there is none."""
    if isinstance(data, Mapping) and key in data:
        return data[key]
    for part in str(key).split(delimiter):
        if isinstance(data, Mapping):
            data = data[part] if part in data else data.get(int(part), MISSING) if part.isdecimal() else MISSING
        elif isinstance(data, (list, tuple)) and part.lstrip("-").isdecimal() and -len(data) <= int(part) < len(data):
            data = data[int(part)]
        else:
            return default
        if data is MISSING:
            return default
    return data


def merge(base: Any, over: Any, *, lists: bool = False) -> Any:
    """`over` laid upon `base`, mapping by mapping; lists replace each other, or with `lists` are joined."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        result = dict(base)
        for key, value in over.items():
            result[key] = merge(result[key], value, lists=lists) if key in result else value
        return result
    if lists and isinstance(base, list) and isinstance(over, list):
        return [*base, *(item for item in over if item not in base)]
    return over
