"""Distinguishes a repair that something else has undone before the run ended from a repair that has no effect.

In both cases the resource differs at the end of the run, and its watch may report what the run itself has done. So one
more attempt decides. It is made if the watch has reported an event since the run began, and only after the first
failure in a row: a repair that has no effect is not made twice each time. A kind that notices the other change before
its repair is complete raises `ChangedMeanwhile`, for which the same holds.
"""

from __future__ import annotations

import asyncio

from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.model.waits import RetryWait

MOMENT = 0.1
"""Seconds in which a watch reports what was changed before the check: watches collect events before they report them.
Only a run that is about to fail waits for it."""


async def perhaps_undone(vertex: Vertex, outcome: Outcome) -> bool:
    """Return whether something else may have undone what the attempt has repaired."""
    before = vertex.run.before
    if not outcome.differs or vertex.last.failures or (before and before.undone):
        return False
    if vertex.queue.pending_cause is None:
        await asyncio.sleep(MOMENT)
    return vertex.queue.pending_cause == "drift"


def with_undone(outcome: Outcome, before: RetryWait | None) -> Outcome:
    """Return the outcome of a successful attempt with what the attempt before it has repaired in vain."""
    if before is None or before.undone is None or not outcome.result or not outcome.ran:
        return outcome
    return outcome._replace(
        comment=f"{outcome.comment}; it had drifted again before the end of its repair",
        changes={**before.undone.changes, **outcome.changes} or outcome.changes,
        diff=outcome.diff or before.undone.diff,
        effect=outcome.effect or before.undone.effect,
    )
