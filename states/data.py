"""The input and the output of the compiler: requests, and calls in order of execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.resources.contract import Resource
from holdfast.resources.meta import Meta
from holdfast.states.errors import Location, Problem
from holdfast.states.parse.marks import Spot
from holdfast.states.source.files import ReadFile

Low = dict[str, Any]
"""One low-data chunk, with Salt's keys: state, fun, name, __id__, __sls__, __env__, order, arguments, requisites."""


class Superseded(NamedTuple):
    """A call with later calls that declare the same thing differently (only in lenient state files)."""

    by: tuple[int, ...]
    """Positions of the later calls, in order; the last of them ends the sequence."""
    version: str
    """Changes when the declaration of any call of the sequence changes, including calls in between."""


@dataclass(frozen=True, slots=True)
class Call:
    """One single checked state, with its position in the order of execution."""

    position: int
    """Index in `Compilation.calls`."""
    identity: str
    """`kind[id]`; `kind[id:name]` if `names` makes several calls of one ID. Unique in a compilation."""
    low: Low
    spot: Spot = field(compare=False)
    """The position of the state in its file. Not compared, because equal texts have different spots."""
    resource: Resource
    meta: Meta
    requisites: Mapping[str, tuple[int, ...]]
    """Kind of requisite -> positions of its targets, as listed, each once.

    All targets come earlier in the order, except those of `prereq` (later) and `listen` (either).
    """
    moved: str = ""
    """Reason for a position other than its number gives: "pulled forward by service.running[apache] (watch)"."""
    part: bool = False
    """It is a part of a composite: no state file declares it, so low data does not show it."""
    superseded: Superseded | None = None
    """Set if later calls declare the same thing differently.

    This call then acts once for each version of the sequence, and the last call is maintained.
    """
    unmet: str = ""
    """Why the call fails without being run: it has a requisite that matches nothing (only in lenient state files)."""
    handed: Mapping[str, Any] | None = None
    """Arguments of the resource that other states determine (`compile/hand_on.py`); low data do not have them."""
    place: Callable[[tuple[str | int, ...]], Spot] | None = field(default=None, compare=False, repr=False)
    """Returns the position of an argument, or of a value in it, for kinds whose provider may refuse arguments later."""

    @property
    def kind(self) -> str:
        """`family.function`."""
        return f"{self.low['state']}.{self.low['fun']}"

    @property
    def location(self) -> Location:
        """The location of the state in its file."""
        return self.spot.location

    @property
    def reason(self) -> str:
        """Reason for its position: its number, "order 10003", or the reason in `moved`."""
        return self.moved or f"order {self.low.get('order', 0):.10g}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compilation:
    """All states of a host, compiled."""

    calls: tuple[Call, ...]
    make_high: Callable[[], Mapping[str, Any]] = dict
    top: Mapping[str, list[str]] = field(default_factory=dict)
    """Environment -> SLS names that apply."""
    sources: tuple[ReadFile, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def high(self) -> Mapping[str, Any]:
        """High data as Salt prints it; computed on request."""
        return self.make_high()


class CompilerInputs(NamedTuple):
    """What the compiler needs: the states to compile, and the data of the host."""

    states: Path
    """The states directory."""
    sls: tuple[str, ...] = ()
    """SLS names that the caller asks for; empty: the top file, or without one every file."""
    grains: Mapping[str, Any] = {}
    pillar: Mapping[str, Any] = {}
    minion_id: str = ""
    """The name of the host, which top files match and which is `grains.id`."""
    env: str = "base"
    options: Mapping[str, Any] = {}
    """Settings of the language (`state_auto_order`, ...), which templates also see as `opts`."""
    trusted_uids: frozenset[int] = frozenset({0})
    """Trusted users: files that any other user can write are refused."""
    lenient: tuple[str, ...] = ()
    """Globs of SLS names: mistakes in these files that Salt accepts are warnings."""
