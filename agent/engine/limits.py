"""How often one resource may run: a rate limit that builds up no debt, and restraint while somebody fights us."""

from __future__ import annotations

from holdfast.agent.engine.graph import Vertex
from holdfast.agent.engine.options import EngineOptions


def take(vertex: Vertex, options: EngineOptions, now: float) -> float:
    """Take one token for an event; seconds to wait until the vertex may run.

    A flood costs nothing beyond its first token: events are coalesced while the vertex is dirty.
    """
    rate = vertex.call.meta.limit or options.limit
    if rate is None:
        return 0.0
    burst = float(vertex.call.meta.burst or options.burst)
    if vertex.tokens < 0:
        vertex.tokens = burst
    else:
        vertex.tokens = min(burst, vertex.tokens + (now - vertex.refilled) * rate)
    vertex.refilled = now
    if vertex.tokens >= 1:
        vertex.tokens -= 1
        return 0.0
    wait = (1 - vertex.tokens) / rate
    vertex.tokens = 0.0
    vertex.refilled = now + wait
    return wait


def repaired(vertex: Vertex, options: EngineOptions, now: float) -> bool:
    """Count a repair of drift; True when with this one the vertex begins to flap.

    While it flaps, the time between repairs doubles, from 1 s to `flap_window`; two windows without a repair end it.
    """
    vertex.repairs = vertex.repairs[-options.flap_limit :]
    calm = not vertex.repairs or now - vertex.repairs[-1] > _memory(vertex, options)
    full = len(vertex.repairs) == options.flap_limit and now - vertex.repairs[0] <= options.flap_window
    vertex.repairs = (*vertex.repairs, now)[-options.flap_limit :]
    if vertex.flapping and not calm:
        vertex.flapping = min(options.flap_window, vertex.flapping * 2)
        return False
    vertex.flapping = 1.0 if full else 0.0
    return full


def flaps(vertex: Vertex, options: EngineOptions, now: float) -> bool:
    """Whether it flaps still: it was repaired not long ago, and too often."""
    return vertex.flapping > 0 and now - vertex.repairs[-1] <= _memory(vertex, options)


def _memory(vertex: Vertex, options: EngineOptions) -> float:
    """Seconds without a repair after which all is forgiven."""
    return 2 * max(options.flap_window, vertex.flapping)


def hold_off(vertex: Vertex, now: float) -> float:
    """Seconds until a flapping vertex may be repaired again."""
    return max(0.0, vertex.repairs[-1] + vertex.flapping - now) if vertex.flapping and vertex.repairs else 0.0
