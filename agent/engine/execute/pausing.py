"""Pauses of an engine: by an operator, of everything or by a pattern, and while the system is shutting down."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.agent.engine.decide.marker import Marker
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.execute.outcomes import Outcomes
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.model.pause import Paused, covers
from holdfast.agent.engine.model.vertex import Observer, Vertex
from holdfast.agent.engine.model.waits import Pause
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule.pauses import Pauses
from holdfast.agent.engine.schedule.rounds import Rounds
from holdfast.agent.engine.schedule.scheduler import Scheduler

PAUSED: Mapping[Pause, str] = {
    "operator": "paused: drift is noticed, nothing is repaired",
    "going-down": "the system is shutting down: nothing is repaired",
}
"""Pause -> text of the notice when it begins."""
RESUMED: Mapping[Pause, str] = {
    "operator": "resumed",
    "going-down": "the system no longer shuts down: repairs continue",
}
"""Pause -> text of the notice when it ends."""


class Pausing:
    """Begins and ends pauses of one engine, and checks the resources that a pause has kept from being repaired."""

    def __init__(
        self,
        policy: Policy,
        journal: Journal,
        emit: Callable[[Notice], None],
        *,
        scheduler: Scheduler,
        marker: Marker,
        outcomes: Outcomes,
        observer: Observer,
    ) -> None:
        self._policy = policy
        self._emit = emit
        self._scheduler = scheduler
        self._marker = marker
        self._outcomes = outcomes
        self._observer = observer
        self.pauses = Pauses(policy, journal, emit, self._began, self._ended)
        """Pauses that operators have begun; used by an engine that watches."""
        self._rounds = Rounds(self._update, self._updated)
        """Updates vertices after a pause has begun or ended."""
        self._resumed: list[str] = []
        """Patterns of ended pauses whose vertices are not all marked yet."""

    def pause(self, why: Pause, said: str = "") -> None:
        """Start no run until `resume`; current runs may end.

        `said` gives the end and the reason of the pause. With it, a pause that is already in force is reported again.
        """
        if why in self._scheduler.paused and not said:
            return
        self._scheduler.pause(why)
        self._emit(Notice("info", "paused", "", f"{said}: {PAUSED[why].partition(': ')[2]}" if said else PAUSED[why]))

    def resume(self, why: Pause) -> None:
        """End a pause; runs start again if no other pause is left."""
        if why not in self._scheduler.paused:
            return
        self._emit(Notice("info", "resumed", "", RESUMED[why]))
        self._scheduler.resume(why)

    def swapped(self) -> None:
        """Update the vertices of a new graph."""
        if self.pauses.any or self._rounds.under_way:
            self._rounds.begin(self._scheduler.vertices, "command")

    def stop(self) -> None:
        """Stop the timers: no pause ends by itself any more."""
        self.pauses.close()
        self._rounds.stop()

    def _began(self, paused: Paused) -> None:
        if paused.pattern:
            self._emit(Notice("info", "paused", "", f"{paused.whole}: drift is noticed, and not repaired"))
        else:
            self.pause("operator", paused.said)
        self._begin_updates(paused)

    def _ended(self, paused: Paused) -> None:
        if paused.pattern:
            self._emit(Notice("info", "resumed", "", f"{paused.pattern} is resumed"))
            self._resumed.append(paused.pattern)
        else:
            self.resume("operator")
        self._begin_updates(paused)

    def _begin_updates(self, changed: Paused) -> None:
        """Update the vertices for which a pause has begun or ended.

        A pause of everything concerns only vertices that are not as declared or not settled.
        """
        if changed.pattern or self._rounds.under_way:
            self._rounds.begin(self._scheduler.vertices, "command")
        else:
            self._rounds.begin([*self._scheduler.unsettled, *self._outcomes.differing], "command")

    def _update(self, vertex: Vertex, cause: Cause) -> None:
        """Count a vertex as paused or not, and check it again if a pause of it has ended.

        Whether it may be changed is decided when it runs.
        """
        vertex.paused = self._policy.pause_by_pattern(vertex) is not None
        self._observer.note(vertex)
        if any(covers(pattern, vertex) for pattern in self._resumed):
            self._marker.mark(vertex, cause)

    def _updated(self) -> None:
        """Continue after a slice of vertices has been updated."""
        if not self._rounds.under_way:
            self._resumed.clear()
        self._scheduler.pump()
