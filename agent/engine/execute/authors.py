"""Adds to the outcome of a drift the process that has caused it."""

from __future__ import annotations

import asyncio

from holdfast.agent.engine.model.outcome import WATCHED, Outcome
from holdfast.agent.engine.model.vertex import Vertex


async def attributed(vertex: Vertex, outcome: Outcome, noticed_at: float | None) -> Outcome:
    """Return the outcome with the process that has changed the resource, as far as its watch knows.

    `noticed_at`: loop time of the first event that led to this run. A check that found nothing to change is not
    attributed.
    """
    watcher = vertex.watching.watcher
    if noticed_at is None or watcher is None or isinstance(watcher, asyncio.Task) or not _is_drift(outcome):
        return outcome
    author = await watcher.changed_by(noticed_at)
    if author is None or (outcome.undone and not author.name):  # a process that has ended may be one of the agent
        return outcome
    author = author.masked(vertex.ctx.redacted)
    return outcome._replace(by=author.without_arguments() if vertex.call.meta.no_log else author)


def _is_drift(outcome: Outcome) -> bool:
    """Return whether a run that followed an event found something to change."""
    return outcome.cause in WATCHED and (outcome.changed or outcome.result is False)
