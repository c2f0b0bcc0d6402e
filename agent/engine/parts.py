"""The parts of an engine, and their connections: each part receives the parts that it uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.agent.engine.decide.decisions import Decisions
from holdfast.agent.engine.decide.done import Done
from holdfast.agent.engine.decide.marker import Marker
from holdfast.agent.engine.deliver.deliveries import Deliveries
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.obstacles import Ask
from holdfast.agent.engine.deliver.transfer import Transfers
from holdfast.agent.engine.execute.deletions import Deletions
from holdfast.agent.engine.execute.event_handler import EventHandler
from holdfast.agent.engine.execute.listeners import Listeners
from holdfast.agent.engine.execute.outcomes import Outcomes
from holdfast.agent.engine.execute.pausing import Pausing
from holdfast.agent.engine.execute.rechecks import Rechecks
from holdfast.agent.engine.execute.reversals import Reversals
from holdfast.agent.engine.execute.runner import Runner
from holdfast.agent.engine.execute.undoers import Undoers
from holdfast.agent.engine.execute.watch_handler import WatchHandler
from holdfast.agent.engine.inspect.census import Census
from holdfast.agent.engine.model.autoedges import AutoEdges
from holdfast.agent.engine.model.events import Event
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule.passes import KEPT, Passes
from holdfast.agent.engine.schedule.scheduler import Scheduler
from holdfast.agent.engine.schedule.timers import Timers
from holdfast.agent.engine.watch.backgrounds import BackgroundTasks
from holdfast.agent.engine.watch.watches import Watches
from holdfast.resources.context import Context


class EngineHost(Protocol):
    """The part of `agent/host` that the engine needs."""

    def context(self, identity: str) -> Context:
        """Return the context that the resource of this identity uses to access the machine."""
        ...


class Parts:
    """The parts of one engine, each of which writes its own state only."""

    def __init__(
        self, host: EngineHost, policy: Policy, journal: Journal, emit: Callable[[Event], None], obstacle: Ask
    ) -> None:
        self.policy, self.journal, self.emit, self.context = policy, journal, emit, host.context
        self.census = Census(policy)
        self.passes = Passes(emit, KEPT if policy.daemon else None)
        self.deliveries = Deliveries(journal, policy)
        self.reversals = Reversals(journal, emit)
        self.autoedges = AutoEdges(host.context, emit)
        self.backgrounds = BackgroundTasks(host.context, emit)
        self.transfers, self.undoers = Transfers(journal), Undoers()
        self.done = Done(journal, self.transfers, policy)
        self.scheduler = Scheduler(policy, self.census)
        self.timers = Timers(self.census)
        self.marker = Marker(
            policy,
            self.scheduler,
            timers=self.timers,
            passes=self.passes,
            deliveries=self.deliveries,
            done=self.done,
        )
        self.decisions = Decisions(policy, journal, self.transfers, emit, done=self.done, marker=self.marker)
        self.events = self.timers.events = EventHandler(
            policy,
            emit,
            scheduler=self.scheduler,
            timers=self.timers,
            marker=self.marker,
            deliveries=self.deliveries,
        )
        self.rechecks = Rechecks(policy, emit, self.scheduler, self.marker)
        self.outcomes = Outcomes(
            policy,
            emit,
            scheduler=self.scheduler,
            timers=self.timers,
            marker=self.marker,
            passes=self.passes,
            deliveries=self.deliveries,
            transfers=self.transfers,
            reversals=self.reversals,
            undoers=self.undoers,
            done=self.done,
        )
        self.listeners = Listeners(
            policy,
            self.scheduler,
            passes=self.passes,
            deliveries=self.deliveries,
            deletions=Deletions(policy, self.marker, self.outcomes),
            outcomes=self.outcomes,
            rechecks=self.rechecks,
        )
        self.pausing = Pausing(
            policy,
            journal,
            emit,
            scheduler=self.scheduler,
            marker=self.marker,
            outcomes=self.outcomes,
            observer=self.census,
        )
        unwatched: dict[Vertex, str] = {}
        self.runner = self.scheduler.runner = Runner(
            policy,
            journal,
            emit,
            obstacle,
            unwatched,
            scheduler=self.scheduler,
            timers=self.timers,
            passes=self.passes,
            deliveries=self.deliveries,
            transfers=self.transfers,
            reversals=self.reversals,
            undoers=self.undoers,
            done=self.done,
            decisions=self.decisions,
            outcomes=self.outcomes,
            events=self.events,
            listeners=self.listeners,
        )
        handler = WatchHandler(
            self.census,
            scheduler=self.scheduler,
            marker=self.marker,
            deliveries=self.deliveries,
            events=self.events,
            runner=self.runner,
        )
        self.watches = Watches(policy, self.backgrounds, emit, handler, unwatched)
