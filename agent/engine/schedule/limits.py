"""How often one resource may run: a rate limit that builds up no debt, and restraint while somebody fights us."""

from __future__ import annotations

from holdfast.agent.engine.model.events import Cause
from holdfast.agent.engine.model.failure import backoff
from holdfast.agent.engine.model.graph import Vertex
from holdfast.agent.engine.model.options import EngineOptions

ECHO = 2.0
"""Seconds after a failed attempt for which events count as its own doing: watches collect events before they tell of them."""


def take(vertex: Vertex, options: EngineOptions, now: float) -> float:
    """Take one token for an event; seconds to wait until the vertex may run.

    A flood costs one token: nothing is asked for a vertex that is dirty, runs, or is held back already.
    """
    rate = vertex.call.meta.limit or options.limit
    if rate is None:
        return 0.0
    burst = float(vertex.call.meta.burst or options.burst)
    if vertex.tokens < 0:
        vertex.tokens = burst
    else:
        vertex.tokens = min(burst, vertex.tokens + max(0.0, now - vertex.refilled) * rate)
    vertex.refilled = now
    if vertex.tokens >= 1:
        vertex.tokens -= 1
        return 0.0
    wait = (1 - vertex.tokens) / rate
    vertex.tokens = 0.0
    vertex.refilled = now + wait
    return wait


def repaired(vertex: Vertex, options: EngineOptions, now: float) -> bool:
    """Count a repair of drift, or an attempt at it that has failed; True when with this one the vertex begins to flap.

    It does after too many within `flap_window`; those that fail need not be within that, for they are spaced already. While it flaps, the time
    between repairs doubles, from 1 s to `flap_window`; two windows without a repair end it.
    """
    calm = not vertex.repairs or now - vertex.repairs[-1] > _memory(vertex, options)
    earlier = () if calm else vertex.repairs[-options.flap_limit :]
    full = len(earlier) == options.flap_limit and (
        now - earlier[0] <= options.flap_window or vertex.failures > options.flap_limit
    )
    vertex.repairs = (*earlier, now)[-options.flap_limit :]
    if vertex.flapping and not calm:
        vertex.flapping = min(options.flap_window, vertex.flapping * 2)
        return False
    vertex.flapping = 1.0 if full else 0.0
    return full


def own_doing(vertex: Vertex, cause: Cause, now: float) -> float:
    """Seconds to wait on account of an attempt that has failed: its own events, and polls, do not wake it before the growing backoff is over."""
    if vertex.erred is None or (cause != "poll" and now >= vertex.erred + ECHO):
        return 0.0
    return max(0.0, vertex.erred + backoff(vertex.call.meta, vertex.failures) - now)


def flaps(vertex: Vertex, options: EngineOptions, now: float) -> bool:
    """Whether it flaps still: it was repaired not long ago, and too often."""
    return vertex.flapping > 0 and now - vertex.repairs[-1] <= _memory(vertex, options)


def _memory(vertex: Vertex, options: EngineOptions) -> float:
    """Seconds without a repair after which all is forgiven."""
    return 2 * max(options.flap_window, vertex.flapping)


def hold_off(vertex: Vertex, now: float) -> float:
    """Seconds until a flapping vertex may be repaired again."""
    return max(0.0, vertex.repairs[-1] + vertex.flapping - now) if vertex.flapping and vertex.repairs else 0.0
