"""Random trees of state files for hypothesis, with orders, arguments, names and requisites.

All trees are valid: their requisites name existing states and form no cycle. A tree has the file and line of each part
that it writes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Compilation, CompilerInputs

FORWARD = (
    "require",
    "watch",
    "onchanges",
    "onfail",
    "require_any",
    "watch_any",
    "onchanges_any",
    "onfail_any",
    "onfail_all",
)
"""Requisites whose targets run first."""
TURNABLE = ("require", "watch", "onchanges", "onfail")
"""Requisites that can be written at their target."""
FUNCTIONS = {"lamp": ("lit", "dark"), "bell": ("rung", "mute")}
FILES = ("a", "b.c", "d")


class Link(NamedTuple):
    """One item of a requisite: the state `id` has the requisite `kind`, whose target is `target`."""

    id: str
    kind: str
    target: str


@dataclass(frozen=True)
class Declared:
    """One state."""

    id: str
    file: str
    type: str
    function: str
    order: int | str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Forest:
    """All states in the order of writing, and all links; `turned` links are written at their target, as `_in`."""

    states: tuple[Declared, ...]
    links: tuple[Link, ...] = ()
    turned: frozenset[Link] = frozenset()

    def state(self, id_: str) -> Declared:
        """Return the state with an ID."""
        return next(state for state in self.states if state.id == id_)

    def shuffled(self, states: Sequence[Declared]) -> Forest:
        """Return the same states, written in another order."""
        return replace(self, states=tuple(states))


@dataclass(frozen=True)
class Written:
    """A forest as text: file name -> text; and the locations of its parts."""

    files: Mapping[str, str]
    places: Mapping[Any, tuple[str, int]]
    """A `Link`, or the ID of a state -> file name and line."""


def write(forest: Forest) -> Written:
    """Write a forest as state files."""
    lines: dict[str, list[str]] = {state.file: [] for state in forest.states}
    places: dict[Any, tuple[str, int]] = {}

    def put(file: str, line: str, *what: Any) -> None:
        lines[file].append(line)
        for each in what:
            places[each] = (file_of(file), len(lines[file]))

    for state in forest.states:
        put(state.file, f"{state.id}:", state.id)
        arguments = [*state.arguments.items(), *([("order", state.order)] if state.order is not None else [])]
        own = _links_at(forest, state.id)
        put(state.file, f"  {state.type}.{state.function}:" + ("" if arguments or own or state.names else " []"))
        for key, value in arguments:
            put(state.file, f"    - {key}: {value}")
        for key, links in own.items():
            put(state.file, f"    - {key}:")
            for link, other in links:
                put(state.file, f"      - {forest.state(other).type}: {other}", link)
        if state.names:
            put(state.file, f"    - names: [{', '.join(state.names)}]")
    return Written({file_of(name): "\n".join(text) + "\n" for name, text in lines.items()}, places)


def _links_at(forest: Forest, id_: str) -> dict[str, list[tuple[Link, str]]]:
    """Return the links that are written at a state: requisite -> IDs at the other end."""
    found: dict[str, list[tuple[Link, str]]] = {}
    for link in forest.links:
        if link in forest.turned and link.target == id_:
            found.setdefault(f"{link.kind}_in", []).append((link, link.id))
        elif link not in forest.turned and link.id == id_:
            found.setdefault(link.kind, []).append((link, link.target))
    return found


def file_of(name: str) -> str:
    """Return the file name of an SLS name."""
    return name.replace(".", "/") + ".sls"


ORDERS = st.none() | st.integers(-20, 20) | st.sampled_from(["first", "last"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["color", "size", "tags"]), st.sampled_from(["red", 5, "[a, b]", "{x: 1}", "'5'", "~", "0644"])
)


@st.composite
def forests(
    draw: st.DrawFn,
    *,
    size: int = 8,
    kinds: Sequence[str] = FORWARD,
    orders: st.SearchStrategy[Any] = ORDERS,
    names: bool = False,
) -> Forest:
    """Return valid trees. With `names`, some states have several names."""
    ids = draw(st.permutations([f"s{number}" for number in range(draw(st.integers(2, size)))]))
    states, links = [], []
    for index, id_ in enumerate(ids):
        type_ = draw(st.sampled_from(sorted(FUNCTIONS)))
        function = draw(st.sampled_from(FUNCTIONS[type_]))
        own = tuple(f"{id_}-{letter}" for letter in draw(st.sampled_from(["", "", "xy"]))) if names else ()
        states.append(Declared(id_, draw(st.sampled_from(FILES)), type_, function, draw(orders), draw(ARGUMENTS), own))
        for kind in draw(st.lists(st.sampled_from(kinds), unique=True, max_size=2)) if index else ():
            links += [
                Link(id_, kind, target)
                for target in draw(st.lists(st.sampled_from(ids[:index]), min_size=1, max_size=2, unique=True))
            ]
    return Forest(tuple(draw(st.permutations(states))), tuple(links))


@contextmanager
def on_disk(files: Mapping[str, str]) -> Iterator[Path]:
    """Write these files to a directory, in this order."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            path.write_text(text)
            path.chmod(0o644)
        yield root


def compiled(files: Mapping[str, str], *sls: str, **more: Any) -> Compilation:
    """Compile files. Raises `CompileError`."""
    with on_disk(files) as root:
        return Compiler().compile(CompilerInputs(root, sls, trusted_uids=frozenset({root.stat().st_uid}), **more))


def essence(compilation: Compilation, *, numbers: bool = True) -> list[Any]:
    """Return the parts of a compilation that do not depend on its directory; without `numbers`, only their order."""
    low = [{key: value for key, value in call.low.items() if numbers or key != "order"} for call in compilation.calls]
    return [
        (call.identity, chunk, dict(call.requisites), call.reason if numbers else "")
        for call, chunk in zip(compilation.calls, low, strict=True)
    ]
