"""What one resource says of itself to an operator: the JSON-ready rows of `holdfast status`."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.agent.engine import limits
from holdfast.agent.engine.courier import Courier
from holdfast.agent.engine.graph import Vertex
from holdfast.agent.engine.options import EngineOptions


def describe(vertex: Vertex, courier: Courier, options: EngineOptions, recheck: asyncio.TimerHandle | None) -> dict[str, Any]:
    """The row of one resource. `next`: seconds until one that is not right is looked at again without an event; else None."""
    now = asyncio.get_running_loop().time()
    timers = [timer.when() for timer in (vertex.timer, recheck if vertex.failed else None) if timer is not None]
    outcome, change, low = vertex.outcome, vertex.last_change, vertex.call.low
    return {
        "identity": vertex.identity,
        "kind": vertex.call.kind,
        "id": low["__id__"],
        "name": low["name"],
        "sls": low["__sls__"],
        "result": outcome.result if outcome else None,
        "reason": outcome.reason if outcome else "",
        "comment": outcome.comment if outcome else "not looked at yet",
        "dirty": vertex.dirty,
        "running": vertex.running,
        "waiting": vertex.timer is not None,
        "failed": vertex.failed,
        "flapping": limits.flaps(vertex, options, now),
        "next": round(max(0.0, min(timers) - now), 1) if timers else None,
        "last_change": change and {"at": change.started, "comment": change.comment, "cause": change.cause},
        "pending_refresh": courier.pending(vertex),
    }
