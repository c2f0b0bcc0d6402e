"""The policy: which vertices may run and which may change the machine, by options, pauses and requests of operators.

All parts of an engine share one object.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.pause import EVERYTHING, Paused, covers
from holdfast.agent.engine.model.vertex import Vertex


class Policy:
    """The policy of one engine.

    `daemon`: watches and timers maintain the resources after the first pass. False: a one-shot run.
    """

    def __init__(self, options: EngineOptions, *, daemon: bool) -> None:
        self.options = options
        self.daemon = daemon
        self.only: Collection[str] | None = None
        """Identities of the resources that may run; None: all may."""
        self.pauses: dict[str, Paused] = {}
        """Pattern -> pause that an operator has begun, in the order in which they began."""
        self.stopped = False
        """The engine stops: it marks no vertex any more."""
        self.gave_up = False
        """A failure has ended a one-shot run (`failhard`): it marks no vertex any more."""

    def take(self, options: EngineOptions) -> bool:
        """Use these options. Returns whether they change what a check does, so that all resources are checked again."""
        before, self.options = self.options, options
        return (options.noop, options.disabled) != (before.noop, before.disabled)

    def marks(self, vertex: Vertex) -> bool:
        """Return whether events may make a vertex dirty."""
        selected = self.only is None or vertex.identity in self.only
        return selected and not (self.stopped or self.gave_up or vertex.queue.removed)

    def selects(self, vertex: Vertex) -> bool:
        """Return whether a vertex may run at all."""
        return self.only is None or vertex.identity in self.only

    def applies(self, vertex: Vertex) -> bool:
        """Return whether a vertex may change the machine: not in noop, nor while a pause with a pattern covers it."""
        noop = vertex.call.meta.noop
        return not (self.options.noop if noop is None else noop) and not self.pause_by_pattern(vertex)

    def disabled(self, vertex: Vertex) -> str:
        """Return the pattern of the option `disabled` that covers a vertex; empty if none does."""
        patterns = self.options.disabled
        return next((each for each in patterns if covers(each, vertex)), "") if patterns else ""

    def fails_hard(self, vertex: Vertex) -> bool:
        """Return whether a failure of a vertex ends the run: only a one-shot run that repairs."""
        failhard = vertex.call.meta.failhard
        failhard = self.options.failhard if failhard is None else failhard
        return failhard and not self.daemon and not self.options.noop

    def pause_of(self, vertex: Vertex) -> Paused | None:
        """Return the pause that applies to a vertex; a pause of everything takes precedence."""
        return (self.pauses.get(EVERYTHING) or self.pause_by_pattern(vertex)) if self.pauses else None

    def pause_by_pattern(self, vertex: Vertex) -> Paused | None:
        """Return the first pause whose pattern covers a vertex."""
        if not self.pauses:
            return None
        return next((each for each in self.pauses.values() if each.pattern and covers(each.pattern, vertex)), None)

    def known_paused(self, vertex: Vertex) -> bool:
        """Return whether a pause is known to apply to a vertex, without a comparison of patterns."""
        return vertex.paused or EVERYTHING in self.pauses
