"""What the compiler hands on: calls in order of execution, each with its checked resource and its requisites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.resources.contract import Resource
from holdfast.resources.meta import Meta
from holdfast.states.errors import Place, Problem
from holdfast.states.marks import Spot
from holdfast.states.source import Source

Low = dict[str, Any]
"""One low-data chunk, with Salt's keys: state, fun, name, __id__, __sls__, __env__, order, arguments, requisites."""

RECV = "recv"
"""The argument that names senders, and so requires them."""
REQUISITES = (
    "require",
    "require_any",
    "watch",
    "watch_any",
    "prereq",
    "onfail",
    "onfail_any",
    "onfail_all",
    "onchanges",
    "onchanges_any",
    "listen",
)
"""Every kind of requisite a compiled call can have; `_in` forms, `use` and `extend` are gone by then."""

RELATIONS = (*REQUISITES, RECV)
"""And what relates a call to others without being written as a requisite."""


class Superseded(NamedTuple):
    """A call that is followed by others which say something else of the same thing (only in lenient state files)."""

    by: tuple[int, ...]
    """Positions of those calls, in order; the last of them ends the sequence."""
    version: str
    """Changes when the declaration of any call of the sequence changes, those between included."""


@dataclass(frozen=True, slots=True)
class Call:
    """One single state call: checked, with its place in the order of execution."""

    position: int
    """Index in `Compilation.calls`, which is the order of execution."""
    identity: str
    """`kind[id]`; `kind[id:name]` where `names` makes several calls of one ID. Unique in a compilation."""
    low: Low
    spot: Spot = field(compare=False)
    """Where the state stands; two that were made of the same text are not one object."""
    resource: Resource
    meta: Meta
    requisites: Mapping[str, tuple[int, ...]]
    """Kind of requisite -> positions of its targets, as listed, each once. Every target but that of `prereq` and `listen`
    stands earlier in the order; that of `prereq` stands later."""
    moved: str = ""
    """Why it stands elsewhere in the order than its number says: "pulled forward by service.running[apache] (watch)"."""
    part: bool = False
    """It is a part of a composite: no state file says it, so it is not among the low data."""
    superseded: Superseded | None = None
    """Later calls say something else of the same thing: this one acts once for each version of the sequence, and the last of them is kept."""

    @property
    def kind(self) -> str:
        """`family.function`."""
        return f"{self.low['state']}.{self.low['fun']}"

    @property
    def place(self) -> Place:
        """Where the state stands in its file."""
        return self.spot.place

    @property
    def reason(self) -> str:
        """Why it stands here in the order: its number, "order 10003", or what has moved it."""
        return self.moved or f"order {self.low.get('order', 0):.10g}"


@dataclass(frozen=True, slots=True)
class Compilation:
    """A whole tree, compiled for one host."""

    calls: tuple[Call, ...]
    make_high: Callable[[], Mapping[str, Any]] = field(default=dict, compare=False, repr=False)
    top: Mapping[str, list[str]] = field(default_factory=dict)
    """Environment -> names of the SLS that apply."""
    sources: tuple[Source, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def high(self) -> Mapping[str, Any]:
        """High data as Salt prints it; made when they are asked for."""
        return self.make_high()


class Request(NamedTuple):
    """What to compile, and for which host."""

    states: Path
    """The states directory."""
    sls: tuple[str, ...] = ()
    """Names asked for by the caller; empty: the top file, or without one every file."""
    grains: Mapping[str, Any] = {}
    pillar: Mapping[str, Any] = {}
    minion_id: str = ""
    """The host's name, what top files match and `grains.id` says."""
    env: str = "base"
    options: Mapping[str, Any] = {}
    """Settings that the language knows (`state_auto_order`, ...), also what templates see as `opts`."""
    trusted_uids: frozenset[int] = frozenset({0})
    """Owners whose files are read; a file that anyone else could write is refused."""
    lenient: tuple[str, ...] = ()
    """Globs of SLS: what is wrong in them, and accepted by Salt, is a warning."""
