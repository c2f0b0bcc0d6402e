"""How often one resource may run: a rate limit for events, and growing delays while something undoes each repair."""

from __future__ import annotations

from holdfast.agent.engine.model.events import Cause
from holdfast.agent.engine.model.failure import backoff
from holdfast.agent.engine.model.graph import Vertex
from holdfast.agent.engine.model.options import EngineOptions

ECHO = 2.0
"""Seconds after a failed attempt for which events count as caused by it: watches report events with a delay."""


def take(vertex: Vertex, options: EngineOptions, now: float) -> float:
    """Take one token for an event. Returns the seconds until the vertex may run.

    A flood of events costs one token: events of a vertex that is dirty, running or held back take none.
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
    """Count a repair of drift, or a failed attempt at one. Returns whether the vertex begins to flap.

    It begins to flap after more than `flap_limit` repairs within `flap_window`. Failed attempts need not lie within the
    window, since their backoff spaces them. While the vertex flaps, the time between repairs doubles, from 1 s to
    `flap_window`. Flapping ends after two windows without a repair.
    """
    calm = not vertex.repairs or now - vertex.repairs[-1] > _quiet_period(vertex, options)
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
    """Seconds to wait because an attempt has failed.

    Events that the attempt itself caused, and polls, do not wake the vertex before its backoff is over.
    """
    if vertex.erred is None or (cause != "poll" and now >= vertex.erred + ECHO):
        return 0.0
    return max(0.0, vertex.erred + backoff(vertex.call.meta, vertex.failures) - now)


def flaps(vertex: Vertex, options: EngineOptions, now: float) -> bool:
    """Whether the vertex still flaps: it was repaired too often, and the last repair is not long ago."""
    return vertex.flapping > 0 and now - vertex.repairs[-1] <= _quiet_period(vertex, options)


def _quiet_period(vertex: Vertex, options: EngineOptions) -> float:
    """Seconds without a repair after which earlier repairs no longer count."""
    return 2 * max(options.flap_window, vertex.flapping)


def hold_off(vertex: Vertex, now: float) -> float:
    """Seconds until a flapping vertex may be repaired again."""
    return max(0.0, vertex.repairs[-1] + vertex.flapping - now) if vertex.flapping and vertex.repairs else 0.0
