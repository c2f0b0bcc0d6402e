"""Events that the engine reports: outcomes of runs, passes, and notices for the log.

The engine uses no log and no terminal: it passes these values to one `emit` function.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from holdfast.agent.engine.model.failure import Failure
from holdfast.agent.phrases import as_declared
from holdfast.resources.author import Author
from holdfast.resources.effects import Effect
from holdfast.resources.replaced import ReplacedFile

if TYPE_CHECKING:
    import asyncio

    from holdfast.states.errors import Location

Cause = Literal[
    "start", "states changed", "grains changed", "drift", "poll", "retry", "refresh", "recheck", "command", "recovery"
]
"""Why a pass began, or why one resource ran in it."""

WATCHED = ("drift", "poll")
"""Causes that the watch of a resource reports."""
ROUTINE = ("poll", "recheck")
"""Causes that do not mean that anything has happened."""

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
    "absent",
]
"""Why a resource did not run."""
GUARDS: frozenset[Reason] = frozenset({"onlyif", "unless", "creates"})
"""Reasons given by a guard, whose answer may change later."""


NO_CHANGES: Mapping[str, Any] = {}
"""Shared by all outcomes without changes; the changes of an outcome are never modified."""


class Ordered(Protocol):
    """A resource with its place in the order of execution: a vertex or a call."""

    @property
    def identity(self) -> str:
        """`kind[id]`."""

    @property
    def position(self) -> int:
        """Place in the order of execution."""

    @property
    def location(self) -> Location:
        """The location of the state in its file."""


def line_of(state: Ordered) -> str:
    """Return the file and the line of a state."""
    file, line, _ = state.location
    return f"{file}:{line}" if line else file


class Outcome(NamedTuple):
    """How one run of one resource ended, or why the resource did not run."""

    identity: str
    position: int
    """Place in the order of execution."""
    result: bool | None
    """True: as declared, or repaired. False: failed. None: noop, and a repair is needed, or `undecided`."""
    changes: Mapping[str, Any] = NO_CHANGES
    comment: str = ""
    diff: str = ""
    effect: Effect | None = None
    """What was done or, in noop, would be, in verbs; None if nothing was, or if the kind does not say."""
    duration: float = 0.0
    """Seconds."""
    ran: bool = True
    reason: Reason = ""
    because: tuple[str, ...] = ()
    """Identities of the resources that kept this one from running."""
    cause: Cause = "start"
    attempts: int = 1
    refreshed: bool = False
    """The changes are those of the refresh action."""
    touched: bool = False
    """The run failed after its repair had begun, so the resource may have changed."""
    listener: bool = False
    """The run of a listener, which is a second row for its resource."""
    undone: str = ""
    """The resource that has undone what this run repaired: `undone by kind[id]`, or `perhaps undone by kind[id]`."""
    by: Author | None = None
    """The process that has caused the drift; None: not known, or no drift."""
    ended: str = ""
    """How the service had ended that the run found dead: `web.service was killed by signal 9 (SIGKILL)`."""
    undecided: bool = False
    """Noop: whether a repair is needed is unknown until another resource has changed."""
    started: float = 0.0
    """Unix time."""
    public: bool = False
    """Every user of this host could read the changes, the diff and the comment, so viewers may see them."""
    failure: Failure | None = None
    """Set if the attempt failed: whether and when another one may succeed."""
    at: str = ""
    """Of a failure: file and line of the state, `/etc/holdfast/states/web.sls:12`; empty if the comment names them."""
    replaced: tuple[ReplacedFile, ...] = ()
    """Files that were replaced, removed or changed in place."""
    before: Mapping[str, Any] = NO_CHANGES
    """Values before the change, of properties that differed."""
    deletes_later: bool = False
    """A deletion is still to be made, once the resources that use what is to be deleted have run.

    Without it the resource is usable, so a failure of it blocks no other resource.
    """
    known: tuple[str, ...] = ()
    """Noop: keys of the values that the resource sends although it would change: they would stay as they are."""

    @classmethod
    def skipped(
        cls, of: Ordered, reason: Reason, comment: str, cause: Cause, *, because: tuple[str, ...] = ()
    ) -> Outcome:
        """Return the outcome of a resource that does not run. It fails if a required resource has failed."""
        blocked = reason == "requisite_failed"
        return cls(
            of.identity,
            of.position,
            result=not blocked,
            at=line_of(of) if blocked else "",
            comment=comment,
            ran=False,
            reason=reason,
            because=because,
            cause=cause,
            started=time.time(),
        )

    @classmethod
    def failed(
        cls, of: Ordered, comment: str, cause: Cause = "start", *, ran: bool = False, failure: Failure | None = None
    ) -> Outcome:
        """Return the outcome of a resource that failed outside of an attempt; `ran`: an attempt may have begun."""
        return cls(
            of.identity,
            of.position,
            result=False,
            comment=comment,
            ran=ran,
            cause=cause,
            started=time.time(),
            failure=failure,
            at=line_of(of),
        )

    @classmethod
    def unknown(cls, of: Ordered, comment: str, cause: Cause) -> Outcome:
        """Return the outcome of a resource that cannot be checked before another one has run."""
        return cls(
            of.identity, of.position, None, comment=comment, ran=False, cause=cause, undecided=True, started=time.time()
        )

    @property
    def changed(self) -> bool:
        """Whether the run changed something, or would in noop.

        Under noop some kinds of Salt report no `changes`, so the result None counts as well.
        """
        return bool(self.changes) or (self.result is None and not self.undecided)

    @property
    def repaired(self) -> bool:
        """Whether the run has changed something, and succeeded."""
        return self.result is True and bool(self.changes)

    @property
    def differs(self) -> bool:
        """Whether the repair has raised no error, but the resource differed at its end."""
        return self.failure is not None and self.failure.differs

    @property
    def news(self) -> bool:
        """Whether the run has found or done anything: otherwise the resource was as declared."""
        return self.result is not True or bool(self.changes) or self.refreshed

    def outline(self) -> Outcome:
        """Return what is kept of the outcome: of changes only the names, because values and diff may be megabytes.

        The usual comment of a resource that is as declared is not kept either, because there may be one for each.
        """
        if self.changes or self.diff:
            return self._replace(changes=_names(*self.changes), diff="")
        usual = self.ran and not self.news and self.comment == as_declared(_id_of(self.identity))
        return self._replace(comment="") if usual else self

    @property
    def said(self) -> str:
        """The comment, also of an outline."""
        silent = self.ran and not self.news and not self.comment
        return as_declared(_id_of(self.identity)) if silent else self.comment

    @property
    def blocks(self) -> bool:
        """Whether resources that require this one cannot run."""
        return self.result is False and not self.deletes_later

    @property
    def blocked(self) -> bool:
        """Whether the resource did not run because one that it requires failed or was blocked."""
        return self.reason == "requisite_failed"


@lru_cache(maxsize=16)
def _names(*names: str) -> Mapping[str, Any]:
    """Return changes without their values. Many resources change in the same way, and share one mapping."""
    return dict.fromkeys(names, True)


ID = "\0"
"""Stands for the ID of the resource in a stored comment. A comment with this character loses it."""


class LastChange(NamedTuple):
    """What is kept of the last outcome with changes. There may be one for each resource, so it is small."""

    pattern: str
    """The comment, with `ID` in place of the ID. Comments of many resources differ only in it, so they share a text."""
    cause: Cause
    started: float
    """Unix time."""
    duration: float
    """Seconds."""
    public: bool = False
    """As in the outcome."""
    by: Author | None = None
    """As in the outcome, like the following field."""
    ended: str = ""

    @classmethod
    def of(cls, outcome: Outcome) -> LastChange:
        """Return what is kept of an outcome."""
        comment = outcome.comment.replace(ID, "").replace(_id_of(outcome.identity), ID)
        text = sys.intern(comment)
        return cls(
            text, outcome.cause, outcome.started, outcome.duration, outcome.public, by=outcome.by, ended=outcome.ended
        )

    def comment(self, identity: str) -> str:
        """Return the comment of the outcome, without NUL characters."""
        return self.pattern.replace(ID, _id_of(identity))


def _id_of(identity: str) -> str:
    return identity[identity.index("[") + 1 : -1]


Result = Literal["ok", "changed", "would-change", "unknown", "failed", "skipped"]


def result_of(outcome: Outcome) -> Result:
    """Return the result of an outcome as one word, for programs."""
    if outcome.undecided:
        return "unknown"
    if not outcome.ran:
        return "failed" if outcome.result is False and not outcome.blocked else "skipped"
    if outcome.result is False:
        return "failed"
    if outcome.changed:
        return "would-change" if outcome.result is None else "changed"
    return "ok"


class Tally:
    """Counts the outcomes of many resources.

    A resource counts once, by its last outcome. It is in `changed` if any of its outcomes changed it.
    """

    __slots__ = ("_keys", "_last", "any_changed", "any_failed", "changed", "results")

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.results: Counter[tuple[Result, bool, bool]] = Counter()
        """(result, ran, blocked) -> number of resources."""
        self.changed: set[str] = set()
        """Identities of changed resources."""
        self.any_failed = self.any_changed = False
        self._last: dict[str, tuple[Result, bool, bool]] = {}
        self._keys: dict[tuple[Result, bool, bool], tuple[Result, bool, bool]] = {}
        """Each key of `results` once, so that the entries of `_last` share it: there is one for each resource."""
        for outcome in outcomes:
            self.add(outcome)

    def add(self, outcome: Outcome) -> None:
        """Count an outcome; it replaces an earlier one of the same resource."""
        identity, key = outcome.identity, (result_of(outcome), outcome.ran, outcome.blocked)
        before = self._last.get(identity)
        if before is not None:
            self.results[before] -= 1
        self._last[identity] = self._keys.setdefault(key, key)
        self.results[key] += 1
        if key[0] == "changed":
            self.changed.add(identity)
        self.any_failed = self.any_failed or outcome.result is False
        self.any_changed = self.any_changed or outcome.changed

    def close(self) -> None:
        """Free the memory that only `add` needs; call this after the last outcome."""
        self._last.clear()

    def count(self, result: Result) -> int:
        """Return the number of resources with this result."""
        return sum(number for (each, _, _), number in self.results.items() if each == result)

    @property
    def total(self) -> int:
        """Number of resources with an outcome."""
        return sum(self.results.values())

    @property
    def ran(self) -> int:
        """Number of resources that have run."""
        return sum(number for (_, ran, _), number in self.results.items() if ran)

    @property
    def blocked(self) -> int:
        """Number of resources that did not run because of another one."""
        return sum(number for (_, _, blocked), number in self.results.items() if blocked)


Pause = Literal["operator", "going-down", "stopped"]
"""Why no run starts: an operator paused the agent, the system is shutting down, or the engine was stopped."""


class Rest(NamedTuple):
    """The wait of a resource for its next attempt."""

    attempt: int
    """Number of the attempt that failed; the first is 1."""
    attempts: int
    """Greatest number of attempts."""
    comment: str
    """Comment of the failed attempt."""
    began: float
    """Loop time of the first attempt."""
    started: float
    """Unix time of the first attempt."""
    undone: Outcome | None = None
    """The outcome of the attempt, if the resource had perhaps drifted again by its end: the next one starts at once."""


class Obstacle(NamedTuple):
    """Why a resource must not be repaired now, although the repair itself would work."""

    text: str
    """For people: what prevents the repair."""
    until: float | None
    """Loop time at which the obstacle ends at the latest; None: unknown."""
    over: asyncio.Event
    """Set when the obstacle ends. Resources that wait for the same thing share one event."""


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
    """In the order in which they ended.

    Of equal results of one resource only the last is kept; an agent keeps the last `KEPT` of `passes.py`.
    """
    converged: bool = False
    """The pass was not interrupted, and at its end no resource of the graph was failing or differing."""
    failing: int = 0
    """Number of failing resources in the whole graph."""
    differing: int = 0
    """Number of resources in the whole graph that noop kept from being repaired."""
    asked: bool = False
    """An operator asked for a part of the pass, whatever its cause."""
    broken_off: bool = False
    """The pass was interrupted because the engine stopped."""
    counted: Tally | None = field(default=None, compare=False, repr=False)
    """The tally, if the outcomes were counted as they arrived."""

    @property
    def tally(self) -> Tally:
        """The outcomes of the pass, counted."""
        return self.counted or Tally(self.outcomes)


class PassStarted(NamedTuple):
    """A pass begins."""

    number: int
    cause: Cause


class Started(NamedTuple):
    """A resource starts to run; the run may find that nothing is to be done."""

    identity: str
    waited: float
    """Seconds since the first event that this run handles."""


class Ran(NamedTuple):
    """A resource has an outcome, after a run or without one."""

    number: int
    """Number of the pass."""
    outcome: Outcome


class Interrupted(NamedTuple):
    """A run was cancelled after it had begun to change its resource; the outcome says what it had done by then."""

    outcome: Outcome


class PassEnded(NamedTuple):
    """A pass has ended."""

    record: PassRecord


class Notice(NamedTuple):
    """A message to operators about a resource or, with an empty identity, about the engine."""

    level: Literal["debug", "info", "warning", "error"]
    code: str
    """`watch-failed`, `flapping`, `attempt-failed`, `graph-swapped`, `paused`, ..."""
    identity: str
    text: str
    error: BaseException | None = None
    named: bool = False
    """Whether the text names the resource already."""


Event = PassStarted | Started | Ran | Interrupted | PassEnded | Notice
