"""Low data: one chunk for each single call, still unordered, with the places of its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.states.data import REQUISITES, Low
from holdfast.states.errors import Problem
from holdfast.states.high import FUNCTION, TARGETING, Declaration, Item, Name, State, Target
from holdfast.states.load import Loaded
from holdfast.states.marks import Spot, plain
from holdfast.states.parse import extent

VALUES = 5_000_000
"""Values within the lists and mappings that all calls may have as arguments together: aliases, `names` and `use` multiply them."""
CONTROL = frozenset({"state", "fun", "name", "order", "__id__", "__sls__", "__env__", "__sls_included_from__"}) | TARGETING
"""Keys of a chunk that are not arguments of its function, but for `name`."""
_REQUISITES = frozenset(REQUISITES)


@dataclass(slots=True)
class Chunk:
    """One call on its way to being ordered and checked."""

    low: Low
    state: State
    items: dict[str, Item]
    """Key -> where it was given."""
    requisites: dict[str, tuple[Target, ...]]
    several: bool
    """One of several calls that `names` makes."""
    name_index: int = 0
    """Its place in `names`, from 1; 0 without."""
    order: float = 0
    """Number in definition order."""
    identity: str = field(init=False)

    def __post_init__(self) -> None:
        """Give it the one spelling of its identity."""
        low = self.low
        inner = f"{low['__id__']}:{low['name']}" if self.several else low["__id__"]
        self.identity = f"{low['state']}.{low['fun']}[{inner}]"

    @property
    def spot(self) -> Spot:
        """Where the state stands."""
        return self.state.spot


class Room:
    """How many values of lists and mappings there is still room for."""

    def __init__(self) -> None:
        self.left = VALUES
        self._memo: dict[int, tuple[int, int]] = {}

    def take(self, value: Any) -> None:
        """Count one argument."""
        self.left -= extent(value, self._memo)[0]


def compile_high(loaded: Loaded) -> tuple[list[Chunk], list[Problem]]:
    """A chunk for each call, in the order of high data; and what is wrong with the functions."""
    chunks: list[Chunk] = []
    problems: list[Problem] = []
    chains: dict[str, list[str]] = {}
    room = Room()
    for declaration in loaded.declarations.values():
        base: dict[str, Any] = {"__sls__": declaration.sls, "__env__": declaration.env, "__id__": declaration.id}
        chain = chains.setdefault(declaration.sls, loaded.chain(declaration.sls))
        if chain:
            base["__sls_included_from__"] = list(chain)
        for state in declaration.states.values():
            problem = function_problem(declaration, state)
            if problem is not None:
                problems.append(problem)
            else:
                chunks += _chunks(declaration, state, base, room)
            if room.left < 0:
                message = f"the arguments of all states down to here have more than {VALUES} values"
                return chunks, [*problems, state.spot.problem("data-size", message, "look for an alias in it, or many names")]
    return chunks, problems


def function_problem(declaration: Declaration, state: State) -> Problem | None:
    """What is wrong with a state that does not have just one function."""
    functions = [item for item in state.items if item.key == FUNCTION]
    what = f"{state.type}[{declaration.id}]"
    if not functions:
        return state.spot.problem(
            "function-missing", f"{what} has no function", f"write '{state.type}.function:', or the function as an item of the list"
        )
    for item in functions:
        if not item.value or any(char.isspace() for char in item.value):
            return item.spot.problem(
                "function-shape",
                f"{what} has a function {item.value!r}, which has a space",
                "an argument is written '- name: value', with a colon",
            )
    if len(functions) > 1:
        names = " and ".join(repr(item.value) for item in functions)
        return functions[0].spot.problem("function-several", f"{what} has more than one function: {names}", "give each an ID of its own")
    return None


def _chunks(declaration: Declaration, state: State, base: dict[str, Any], room: Room) -> Iterable[Chunk]:
    """The chunks of one state: one, or one for each of its names."""
    low: Low = {"state": state.type, "name": declaration.id, **base}
    items: dict[str, Item] = {}
    requisites: dict[str, tuple[Target, ...]] = {}
    if state.number is not None:
        low["order"] = state.number
    left = room.left
    _lay(state.items, low, items, requisites, room)
    whole = Chunk(low, state, items, requisites, several=False)
    names = items["names"].value if "names" in items else ()
    room.left -= (left - room.left) * len(names)
    if not names or room.left < 0:
        return (whole,)
    return [_named(whole, entry, index, room, several=len(names) > 1) for index, entry in enumerate(names, 1)]


def _named(base: Chunk, entry: Name, index: int, room: Room, *, several: bool) -> Chunk:
    """The chunk of one of the names of `base`, with the arguments of its own."""
    low = {**plain(base.low), "name": entry.name}
    items = {**base.items, "name": Item("name", entry.name, base.items["names"].document, entry.mark)}
    requisites = dict(base.requisites)
    _lay(entry.items, low, items, requisites, room)
    return Chunk(low, base.state, items, requisites, several, index)


def _lay(own: Iterable[Item], low: Low, items: dict[str, Item], requisites: dict[str, tuple[Target, ...]], room: Room) -> None:
    """Lay items upon a chunk."""
    for item in own:
        key, value = item.key, item.value
        if key in TARGETING:
            low[key] = [plain(target.raw) for target in value]
            if key in _REQUISITES:
                requisites[key] = value
        elif key == FUNCTION:
            low["fun"] = value
            continue
        elif key == "name":
            if isinstance(value, str):
                low["name"] = value
        elif key != "names":
            if value.__class__ not in _ATOMS:
                room.take(value)
                value = plain(value) if room.left >= 0 else None
            low[key] = value
        items[key] = item


_ATOMS = frozenset({str, int, bool, float, type(None)})


def high_data(loaded: Loaded) -> dict[str, Any]:
    """High data as Salt prints it."""
    return {declaration.id: _written(declaration, loaded) for declaration in loaded.declarations.values()}


def _written(declaration: Declaration, loaded: Loaded) -> dict[str, Any]:
    body: dict[str, Any] = {"__sls__": declaration.sls, "__env__": declaration.env}
    chain = loaded.chain(declaration.sls)
    if chain:
        body["__sls_included_from__"] = chain
    for state in declaration.states.values():
        body[state.type] = [item.written() for item in state.items]
        if state.number is not None:
            body[state.type].append({"order": state.number})
    return body
