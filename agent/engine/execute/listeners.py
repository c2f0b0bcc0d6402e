"""The end of a pass: when no run is in progress, listeners run, one after the other, and then deferred deletions."""

from __future__ import annotations

import asyncio

from holdfast.agent.engine.deliver.deliveries import Deliveries
from holdfast.agent.engine.execute.deletions import Deletions
from holdfast.agent.engine.execute.outcomes import Outcomes
from holdfast.agent.engine.execute.rechecks import Rechecks
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule.definition_order import TIMEOUT
from holdfast.agent.engine.schedule.passes import Passes
from holdfast.agent.engine.schedule.scheduler import Scheduler


class Listeners:
    """The listeners of one engine, and the end of its passes."""

    def __init__(
        self,
        policy: Policy,
        scheduler: Scheduler,
        *,
        passes: Passes,
        deliveries: Deliveries,
        deletions: Deletions,
        outcomes: Outcomes,
        rechecks: Rechecks,
    ) -> None:
        self._policy = policy
        self._scheduler = scheduler
        self._passes = passes
        self._deliveries = deliveries
        self._deletions = deletions
        self._outcomes = outcomes
        self._rechecks = rechecks

    def run_due(self) -> None:
        """Run the listeners that are due, then the deletions, or end the pass. Call this when no run is in progress.

        In the daemon, vertices that wait or hang delay these by at most `TIMEOUT` seconds. The pass ends when no
        vertex waits any more.
        """
        if not self._passes.running:
            return
        waits = bool(self._scheduler.unsettled) or self._rechecks.under_way
        late = self._passes.began + TIMEOUT
        if waits and (self._policy.stopped or not self._policy.daemon):
            return
        if waits and asyncio.get_running_loop().time() < late:
            self._scheduler.pump_at(late)
            return
        due = self._deliveries.due_listeners()
        if due and not self._policy.stopped:
            self._deliveries.listened.update(due)
            for vertex in due:
                self._scheduler.listen(vertex)
            self._scheduler.pump()
        elif self._deletions.begin_due():
            self._scheduler.pump()
        elif not waits:
            self._passes.end(len(self._outcomes.failing), len(self._outcomes.differing))
