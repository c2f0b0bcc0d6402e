"""Outcomes: how a run of a resource ended, why it ran or did not run, and the part of an outcome that is kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from holdfast.agent.engine.model.failure import Failure
from holdfast.agent.phrases import as_declared
from holdfast.resources.author import Author
from holdfast.resources.effects import Effect
from holdfast.resources.replaced import ReplacedFile

if TYPE_CHECKING:
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
    """The effect of the run in verbs (in noop, the expected one); None if there was none, or if the kind reports
    none."""
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
    """The part of the last outcome with changes that is kept. There may be one for each resource, so it is small."""

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
