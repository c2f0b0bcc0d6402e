"""How often one resource may run: a rate limit for events, and growing delays while something undoes each repair."""

from __future__ import annotations

from holdfast.agent.engine.model.failure import backoff
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.model.vertex import Rate, Vertex

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
    before = vertex.rate
    tokens = burst if before.tokens < 0 else min(burst, before.tokens + max(0.0, now - before.refilled) * rate)
    wait = 0.0 if tokens >= 1 else (1 - tokens) / rate
    vertex.rate = before._replace(tokens=max(0.0, tokens - 1), refilled=now + wait)
    return wait


def repaired(vertex: Vertex, options: EngineOptions, now: float) -> bool:
    """Count a repair of drift, or a failed attempt at one. Returns whether the vertex begins to flap.

    It begins to flap after more than `flap_limit` repairs within `flap_window`. Failed attempts need not lie within the
    window, since their backoff spaces them. While the vertex flaps, the time between repairs doubles, from 1 s to
    `flap_window`. Flapping ends after two windows without a repair.
    """
    rate = vertex.rate
    calm = not rate.repairs or now - rate.repairs[-1] > _quiet_period(rate, options)
    earlier = () if calm else rate.repairs[-options.flap_limit :]
    full = len(earlier) == options.flap_limit and (
        now - earlier[0] <= options.flap_window or vertex.last.failures > options.flap_limit
    )
    flaps_on = rate.flapping > 0 and not calm
    flapping = min(options.flap_window, rate.flapping * 2) if flaps_on else 1.0 if full else 0.0
    vertex.rate = rate._replace(repairs=(*earlier, now)[-options.flap_limit :], flapping=flapping)
    return full and not flaps_on


def failed(vertex: Vertex, now: float) -> None:
    """Note that an attempt has failed: events just after it are probably caused by the attempt itself."""
    vertex.rate = vertex.rate._replace(failed_at=now)


def forget_failure(vertex: Vertex) -> None:
    """Note that a new attempt begins, or that the events caused by the last one are over."""
    vertex.rate = vertex.rate._replace(failed_at=None)


def self_caused_delay(vertex: Vertex, cause: Cause, now: float) -> float:
    """Return the seconds to wait because an attempt has failed.

    Events that the attempt itself caused, and polls, do not wake the vertex before its backoff is over.
    """
    failed_at = vertex.rate.failed_at
    if failed_at is None or (cause != "poll" and now >= failed_at + ECHO):
        return 0.0
    return max(0.0, failed_at + backoff(vertex.call.meta, vertex.last.failures) - now)


def flaps(vertex: Vertex, options: EngineOptions, now: float) -> bool:
    """Return whether the vertex still flaps: it was repaired too often, and the last repair is not long ago."""
    rate = vertex.rate
    return rate.flapping > 0 and now - rate.repairs[-1] <= _quiet_period(rate, options)


def _quiet_period(rate: Rate, options: EngineOptions) -> float:
    """Return the seconds without a repair after which earlier repairs no longer count."""
    return 2 * max(options.flap_window, rate.flapping)


def hold_off(vertex: Vertex, now: float) -> float:
    """Return the seconds until a flapping vertex may be repaired again."""
    rate = vertex.rate
    return max(0.0, rate.repairs[-1] + rate.flapping - now) if rate.flapping and rate.repairs else 0.0
