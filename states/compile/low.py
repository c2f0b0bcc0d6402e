"""Low data: one chunk for each single call, not ordered yet, with the positions of its arguments.

Chunks are kept between compilations, together with the results of later stages, as long as their declarations are
unchanged. Only the number of a chunk may change. The chunk then gets a copy of its low data, because published low data
is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.resources.contract import Resource, Uid
from holdfast.resources.meta import Meta, parse_receive
from holdfast.resources.traits import UsedSource
from holdfast.states.data import Call, Low
from holdfast.states.declare.high import FUNCTION, TARGETING, IdDeclaration, Item, Name, State, Target, written
from holdfast.states.declare.load import Loaded
from holdfast.states.declare.typo_hints import beside, deeper, glued
from holdfast.states.errors import Problem
from holdfast.states.parse.loader import extent
from holdfast.states.parse.marks import Document, Spot, plain
from holdfast.states.requisite_kinds import RECV, REQUISITES

VALUES = 5_000_000
"""Maximum number of values in lists and mappings of all calls. Aliases, `names` and `use` can multiply values."""
CONTROL = (
    frozenset({"state", "fun", "name", "order", "name_order", "__id__", "__sls__", "__env__", "__sls_included_from__"})
    | TARGETING
)
"""Keys of a chunk that are not arguments of its function, and `name`."""
_REQUISITES = frozenset(REQUISITES)


class Verdict(NamedTuple):
    """The result of checking a valid call."""

    resource: Resource
    meta: Meta
    warnings: tuple[Problem, ...]
    drawn: tuple[UsedSource, ...] = ()
    """Its sources, if at least one is in the states directory."""
    inline: tuple[tuple[str, str], ...] = ()
    """The templates in its arguments: (argument, text)."""

    @property
    def uids(self) -> tuple[Uid, ...]:
        """The uids of the resource. They are seldom needed, and so not kept."""
        return self.resource.uids()


@dataclass(slots=True, eq=False, repr=False)
class Chunk:
    """One call while it is ordered and checked."""

    low: Low
    state: State
    given_in: Sequence[Item]
    """The items of the chunk; of several with one key, the last is valid. Usually the list of the state itself."""
    requisites: Mapping[str, tuple[Target, ...]]
    several: bool
    """It is one of several calls that `names` makes."""
    name_index: int = 0
    """Its position in `names`, from 1; 0 without `names`."""
    identity: str = field(init=False)
    """`kind[id]`, or `kind[id:name]`."""
    given: Any = field(init=False)
    """Its `order` as written, else its position in definition order."""
    order: float | None = None
    """Its final number, once all numbers are known; also in `low`."""
    checked: Verdict | None = None
    call: Call | None = None
    """The call that was last made from it."""

    def __post_init__(self) -> None:
        """Compute the identity."""
        low = self.low
        inner = f"{low['__id__']}:{low['name']}" if self.several else low["__id__"]
        self.identity = f"{low['state']}.{low['fun']}[{inner}]"
        self.given = low.get("order")
        if self.name_index and self.given is None:
            low["name_order"] = self.name_index  # as in Salt, where only a number includes it

    @property
    def spot(self) -> Spot:
        """The position of the state."""
        return self.state.spot

    @property
    def items(self) -> dict[str, Item]:
        """Key -> the item that declares it. Built on request, because it takes memory and only problems need it."""
        return {item.key: item for item in self.given_in if item.key != FUNCTION}

    @property
    def declared(self) -> str:
        """`kind[id]`, also of a chunk that is one of several `names`."""
        return f"{self.low['state']}.{self.low['fun']}[{self.low['__id__']}]"

    def item(self, key: str) -> Item | None:
        """Return the item that declares an argument."""
        return next((item for item in reversed(self.given_in) if item.key == key), None)

    def renumber(self, given: Any) -> None:
        """Set its position in definition order, unless it has an `order` of its own."""
        if given != self.given and self.item("order") is None:
            self.given = given
            self.at(None)

    def at(self, order: float | None) -> None:
        """Set its number; None: not known yet. Copies low data that was published before."""
        if self.order is not None:
            self.low, self.call = {**self.low}, None
            if self.checked and _takes_order(type(self.checked.resource)):
                self.checked = None
        self.order = order
        if order is not None:
            self.low["order"] = order


@cache
def _takes_order(kind: type[Resource]) -> bool:
    """Return whether `order` is an argument of the kind itself."""
    return any("order" in (name, info.alias) for name, info in kind.model_fields.items())


class Room:
    """The number of values of lists and mappings that may still be added."""

    def __init__(self) -> None:
        self.left = VALUES
        self._memo: dict[int, tuple[int, int]] = {}

    def take(self, value: Any) -> None:
        """Count one argument."""
        self.left -= extent(value, self._memo)[0]


class Made(NamedTuple):
    """The chunks of a declaration, and the input from which they were made."""

    declaration: IdDeclaration
    numbered: bool
    chain: list[str]
    """The chain of files that include its file."""
    size: int
    """Number of values in the chunks."""
    chunks: tuple[Chunk, ...]

    def suits(self, declaration: IdDeclaration, numbered: bool, chain: list[str]) -> bool:
        """Return whether the chunks would be made from the same input now, except for their numbers."""
        return self.declaration is declaration and self.numbered is numbered and self.chain == chain


def compile_high(loaded: Loaded, kept: Mapping[str, Made]) -> tuple[dict[str, Made], list[Problem]]:
    """Return the chunks of each ID, one for each call, in the order of high data; and the problems of functions.

    `kept` is the result of the last compilation; unchanged entries are reused.
    """
    made: dict[str, Made] = {}
    problems: list[Problem] = []
    files = {sls: (loaded.first.get(sls), loaded.chain(sls)) for sls in loaded.included}
    room = Room()
    for id_, declaration in loaded.declarations.items():
        first, chain = files[declaration.sls]
        known, left = kept.get(id_), room.left
        numbered = first is not None
        if known is not None and known.suits(declaration, numbered, chain) and known.size <= left:
            if first is not None:
                for chunk in known.chunks:
                    chunk.renumber(first + (chunk.state.offset or 0))
            made[id_] = known
            room.left -= known.size
            continue
        chunks = tuple(_declared(loaded, declaration, chain, room, problems))
        made[id_] = Made(declaration, numbered, chain, left - room.left, chunks)
        if room.left < 0:
            break
    return made, problems


def _declared(
    loaded: Loaded, declaration: IdDeclaration, chain: list[str], room: Room, problems: list[Problem]
) -> Iterator[Chunk]:
    """Yield the chunks of a declaration; problems are added to `problems`."""
    base: dict[str, Any] = {"__sls__": declaration.sls, "__env__": declaration.env, "__id__": declaration.id}
    if chain:
        base["__sls_included_from__"] = list(chain)
    for state in declaration.states.values():
        problem = function_problem(declaration, state)
        if problem is not None:
            if not state.slipped:
                problems.append(problem)
            continue
        yield from _chunks(declaration, state, base, loaded.number(declaration, state), room)
        if room.left < 0:
            message = f"the arguments of all states down to here have more than {VALUES} values"
            problems.append(state.spot.problem("data-size", message, "look for an alias in it, or many names"))
            return


def function_problem(declaration: IdDeclaration, state: State) -> Problem | None:
    """Return the problem of a state that does not have exactly one function; None if it has."""
    functions = [item for item in state.items if item.key == FUNCTION]
    what = f"{state.type}[{declaration.id}]"
    if not functions:
        return state.spot.problem(
            "function-missing",
            f"{what} has no function",
            f"write '{state.type}.function:', or the function as an item of the list",
        )
    if slip := glued(functions):
        item, name = slip
        message = f"{what} has an argument {name!r} without a space after its colon"
        return item.spot.problem("argument-shape", message, f"write '- {name}: ...'")._replace(
            text=""
        )  # it may be a password
    for item in functions:
        if not item.value or any(char.isspace() for char in item.value):
            return item.spot.problem(
                "function-shape",
                f"{what} has a function {item.value!r}, which has a space",
                "an argument is written '- name: value', with a colon",
            )
    if len(functions) > 1:
        names = " and ".join(repr(item.value) for item in functions)
        above = beside(state.items)
        hint = deeper(above, functions[0].value) if above else "give each an ID of its own"
        if state.type == "module" and "." in functions[0].value:
            hint = f"a call without arguments is written '- {functions[0].value}: []'"
        return functions[0].spot.problem("function-several", f"{what} has more than one function: {names}", hint)
    return None


def _chunks(
    declaration: IdDeclaration, state: State, base: dict[str, Any], number: int | None, room: Room
) -> Iterable[Chunk]:
    """Return the chunks of one state: one, or one for each of its names."""
    low: Low = {"state": state.type, "name": declaration.id, **base}
    requisites: dict[str, tuple[Target, ...]] = {}
    if number is not None:
        low["order"] = number
    left = room.left
    _lay(state.items, low, requisites, room)
    whole = Chunk(low, state, state.items, _with_senders(requisites, state.items), several=False)
    given = whole.item("names")
    names = given.value if given else ()
    room.left -= (left - room.left) * len(names)
    if not names or room.left < 0:
        return (whole,)
    document = state.spot.document if given is None else given.document
    return [_named(whole, entry, document, index, room, several=len(names) > 1) for index, entry in enumerate(names, 1)]


def _named(base: Chunk, entry: Name, document: Document, index: int, room: Room, *, several: bool) -> Chunk:
    """Return the chunk of one of the names of `base`, with its own arguments."""
    low = {**plain(base.low), "name": entry.name}
    items = (*base.given_in, Item("name", entry.name, document, entry.mark), *entry.items)
    requisites = dict(base.requisites)
    _lay(entry.items, low, requisites, room)
    return Chunk(low, base.state, items, _with_senders(requisites, items), several, index)


def _lay(own: Iterable[Item], low: Low, requisites: dict[str, tuple[Target, ...]], room: Room) -> None:
    """Add items to a chunk."""
    for item in own:
        key, value = item.key, item.value
        if key in TARGETING:
            if key in _REQUISITES:
                requisites[key] = value
            shown = written(value)
            if shown or not value:  # otherwise all targets are written at their other end
                low[key] = shown
        elif key == FUNCTION:
            low["fun"] = value
        elif key == "name":
            if isinstance(value, str):
                low["name"] = value
        elif key != "names":
            if value.__class__ not in _ATOMS:
                room.take(value)
                value = plain(value) if room.left >= 0 else None
            low[key] = value


def _with_senders(requisites: dict[str, tuple[Target, ...]], items: Sequence[Item]) -> Mapping[str, tuple[Target, ...]]:
    """Return the requisites, with the senders of a `recv` added in order.

    An invalid `recv` adds none, and is reported when the call is checked.
    """
    for item in items:
        if item.key == RECV:
            with suppress(ValueError):
                if wanted := parse_receive(plain(item.value)):
                    requisites[RECV] = tuple(Target(each.type, each.sender, None, item.spot) for each in wanted)
    return requisites or _NONE


_NONE: Mapping[str, tuple[Target, ...]] = MappingProxyType({})
"""Shared by all calls without requisites, which are most."""
_ATOMS = frozenset({str, int, bool, float, type(None)})


def high_data(loaded: Loaded) -> dict[str, Any]:
    """Return high data as Salt prints it."""
    return {declaration.id: _written(declaration, loaded) for declaration in loaded.declarations.values()}


def _written(declaration: IdDeclaration, loaded: Loaded) -> dict[str, Any]:
    body: dict[str, Any] = {"__sls__": declaration.sls, "__env__": declaration.env}
    chain = loaded.chain(declaration.sls)
    if chain:
        body["__sls_included_from__"] = chain
    for state in declaration.states.values():
        body[state.type] = [item.written() for item in state.items]
        number = loaded.number(declaration, state)
        if number is not None:
            body[state.type].append({"order": number})
    return body
