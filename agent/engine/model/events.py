"""What the engine tells: outcomes of runs, passes, and everything else worth a line in the log.

The engine knows no log and no terminal: it hands these values to one `emit` function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import asyncio

Cause = Literal[
    "start", "states changed", "grains changed", "drift", "poll", "retry", "refresh", "recheck", "command", "recovery"
]
"""Why a pass began, or why one resource ran in it."""

WATCHED = ("drift", "poll")
"""Causes that the watch of a resource tells of."""
ROUTINE = ("poll", "recheck")
"""Causes that do not say that anything has happened."""

Reason = Literal[
    "",
    "requisite_failed",
    "onfail",
    "onchanges",
    "prereq",
    "onlyif",
    "unless",
    "creates",
    "disabled",
    "action",
    "superseded",
]
"""Why a resource did not run."""
GUARDS: frozenset[Reason] = frozenset({"onlyif", "unless", "creates"})
"""Those of them that are a guard's answer: it may be another one later."""


NO_CHANGES: Mapping[str, Any] = {}
"""One for all outcomes without any: nobody changes what an outcome holds."""


class Outcome(NamedTuple):
    """How one run of one resource ended, or why it was not run."""

    identity: str
    position: int
    """Place in the order of execution."""
    result: bool | None
    """True: right, or put right. False: failed. None: a change would be made (noop)."""
    changes: Mapping[str, Any] = NO_CHANGES
    comment: str = ""
    diff: str = ""
    duration: float = 0.0
    """Seconds."""
    ran: bool = True
    reason: Reason = ""
    because: tuple[str, ...] = ()
    """Identities of the resources that kept it from running."""
    cause: Cause = "start"
    attempts: int = 1
    refreshed: bool = False
    """The changes are those of its refresh action."""
    touched: bool = False
    """Changing had begun when it failed: it may have changed."""
    listener: bool = False
    """It is the turn of a listener, a second row for its resource."""
    undone: str = ""
    """Who seems to have undone what this run has repaired: `undone by kind[id]`, or `perhaps undone by kind[id]` where that is not certain."""
    unknown: bool = False
    """Whether it would change something cannot be said before something else is changed (noop)."""
    started: float = 0.0
    """Unix time."""

    @property
    def changed(self) -> bool:
        """It changed something, or would have: even where no `changes` say so, as Salt has it of some kinds in noop."""
        return bool(self.changes) or (self.result is None and not self.unknown)

    def outline(self) -> Outcome:
        """What there is to be remembered of it: that something was changed, not from what to what, which may be megabytes."""
        return self._replace(changes=dict.fromkeys(self.changes, True), diff="") if self.changes or self.diff else self

    @property
    def blocked(self) -> bool:
        """It did not run, for what it requires has failed or was blocked itself: not its own fault."""
        return self.reason == "requisite_failed"


Result = Literal["ok", "changed", "would-change", "unknown", "failed", "skipped"]


def result_of(outcome: Outcome) -> Result:
    """The outcome in one word, for programs."""
    if not outcome.ran:
        return "failed" if outcome.result is False and not outcome.blocked else "skipped"
    if outcome.result is False:
        return "failed"
    if outcome.changed:
        return "would-change" if outcome.result is None else "changed"
    return "unknown" if outcome.unknown else "ok"


class Tally:
    """How a run of many resources went, counted as they end. A resource counts once, by its last outcome, and as changed if one changed it."""

    __slots__ = ("_last", "_sorts", "any_changed", "any_failed", "changed", "results")

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.results: Counter[tuple[Result, bool, bool]] = Counter()
        """(result, it ran, it was blocked) -> how many."""
        self.changed: set[str] = set()
        """Identities of what was changed."""
        self.any_failed = self.any_changed = False
        self._last: dict[str, tuple[Result, bool, bool]] = {}
        self._sorts: dict[tuple[Result, bool, bool], tuple[Result, bool, bool]] = {}
        """Equal ones are one object: there are as many as resources."""
        for outcome in outcomes:
            self.add(outcome)

    def add(self, outcome: Outcome) -> None:
        """One more has ended, or one again."""
        identity, key = outcome.identity, (result_of(outcome), outcome.ran, outcome.blocked)
        before = self._last.get(identity)
        if before is not None:
            self.results[before] -= 1
        self._last[identity] = self._sorts.setdefault(key, key)
        self.results[key] += 1
        if key[0] == "changed":
            self.changed.add(identity)
        self.any_failed = self.any_failed or outcome.result is False
        self.any_changed = self.any_changed or outcome.changed

    def close(self) -> None:
        """No more will be added: forget what that needs, which is much where there are many resources."""
        self._last.clear()

    def count(self, result: Result) -> int:
        """Resources of this result."""
        return sum(number for (each, _, _), number in self.results.items() if each == result)

    @property
    def total(self) -> int:
        """Resources of which something came."""
        return sum(self.results.values())

    @property
    def ran(self) -> int:
        """Resources that have run."""
        return sum(number for (_, ran, _), number in self.results.items() if ran)

    @property
    def blocked(self) -> int:
        """Resources that were not run because of another."""
        return sum(number for (_, _, blocked), number in self.results.items() if blocked)


Pause = Literal["operator", "going-down", "stopped"]
"""Why nothing is started: an operator has paused the agent, the system goes down, or the engine has been stopped."""


class Rest(NamedTuple):
    """A resource waits for its next attempt."""

    attempt: int
    """The one that has failed; the first is 1."""
    attempts: int
    """How many there may be."""
    comment: str
    """What came of it."""
    began: float
    """Loop time of the first attempt."""
    started: float
    """The same as Unix time."""


class Obstacle(NamedTuple):
    """Why a resource must not be put right now, though nothing is wrong with it or with the agent."""

    text: str
    """For people: who or what is in the way."""
    until: float | None
    """Loop time at which it is out of the way at the latest; None: nobody knows."""
    over: asyncio.Event
    """Set when it is; the same for all that wait for one thing."""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One pass: from the first dirty resource until nothing is dirty or running."""

    number: int
    cause: Cause
    started: float
    """Unix time."""
    duration: float = 0.0
    """Seconds; 0 while it runs."""
    outcomes: tuple[Outcome, ...] = ()
    """In the order in which they ended; of those of one resource that came out alike only the last, and of many those that ended last."""
    converged: bool = False
    """Nothing in the whole graph was failing, or different under noop, when it ended."""
    failing: int = 0
    """Resources of the whole graph that were failing."""
    differing: int = 0
    """Resources of the whole graph that noop kept from being changed."""
    asked: bool = False
    """An operator has asked for some of it, whatever it began with."""
    broken_off: bool = False
    """It has not come to its end: the engine was stopped."""
    counted: Tally | None = field(default=None, compare=False, repr=False)
    """`tally`, where it was counted as the outcomes came."""

    @property
    def tally(self) -> Tally:
        """How it went."""
        return self.counted or Tally(self.outcomes)


class PassStarted(NamedTuple):
    """A pass begins."""

    number: int
    cause: Cause


class Started(NamedTuple):
    """A resource begins to run, or to find out that it does not have to."""

    identity: str
    waited: float
    """Seconds since the first event that this run answers."""


class Ran(NamedTuple):
    """A resource has run, or was found not to have to."""

    number: int
    """Of the pass."""
    outcome: Outcome


class PassEnded(NamedTuple):
    """A pass is over."""

    record: PassRecord


class Notice(NamedTuple):
    """Something else an operator should know of a resource (or, with an empty identity, of the engine)."""

    level: Literal["debug", "info", "warning", "error"]
    code: str
    """`watch-failed`, `flapping`, `attempt-failed`, `graph-swapped`, `paused`, ..."""
    identity: str
    text: str
    error: BaseException | None = None


Event = PassStarted | Started | Ran | PassEnded | Notice
