"""Events that the engine reports: passes, runs with their outcomes, and notices for the log.

The engine uses no log and no terminal: it passes these values to one `emit` function.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from holdfast.agent.engine.model.outcome import Cause, Outcome
from holdfast.agent.engine.model.tally import Tally


class PassRecord(NamedTuple):
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
    """An operator requested a part of the pass, whatever its cause."""
    broken_off: bool = False
    """The pass was interrupted because the engine stopped."""
    counted: Tally | None = None
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
