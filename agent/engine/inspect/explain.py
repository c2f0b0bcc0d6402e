"""Explains one resource to an operator: why it ran, why it waits, what delays it, what happens next.

The answers are computed on request by walking the graph from the resource; no data is kept for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.agent.engine import kinds
from holdfast.agent.engine.decide.done import is_action
from holdfast.agent.engine.deliver.deliveries import incoming
from holdfast.agent.engine.inspect.status import View, describe, state_of
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.model.waits import Pause
from holdfast.agent.engine.schedule.definition_order import holds_back
from holdfast.agent.engine.schedule.semaphores import places
from holdfast.states.requisite_kinds import CARRIES, LISTENING

PAUSES: Mapping[Pause, str] = {
    "operator": "an operator has paused the agent; `holdfast resume` ends the pause",
    "going-down": "the system is shutting down, so nothing is repaired",
}
"""Pause -> why it keeps a resource from running."""
NAMED = 10
"""Most resources that one answer names."""


class WaitReason(NamedTuple):
    """One reason why a resource does not run now."""

    code: str
    """Code of the thing for which the resource waits:

    `obstacle`, `retry`, `rate-limit`, `flapping`, `watch`, `paused`, `apply`, `call`, `place`, `requisites`, `order`,
    `sequence`, `semaphore` or `workers`.
    """
    text: str
    who: tuple[Vertex, ...] = ()
    """Vertices that the resource waits for; for `requisites`, first the ones that wait for no other."""


def explain(vertex: Vertex, view: View) -> dict[str, Any]:
    """Return everything known about a vertex, ready for JSON. Times are in seconds, `at` is Unix time."""
    now = asyncio.get_running_loop().time()
    location = vertex.call.location
    return {
        **describe(vertex, view),
        "file": location.file,
        "line": location.line,
        "position": vertex.position,
        "reason_for_place": vertex.call.reason,
        "last": _last(vertex),
        "waits": [_wait_row(wait, view, now) for wait in waits(vertex, view, now)],
        "blocked_by": [_named(each, view, now, comment=True) for each in culprits(vertex, view)],
        "next": list(_next(vertex, view, now)),
        "needs": [
            {"requisite": kind, **_named(target, view, now), "pending": _pending(vertex, kind, target, view)}
            for kind, target in requisites(vertex)
        ],
        "needed_by": [{"requisite": kind, **_named(each, view, now)} for kind, each in dependents(vertex)],
    }


def waits(vertex: Vertex, view: View, now: float) -> Iterator[WaitReason]:
    """Return all reasons why a vertex does not run now: first its own, then other vertices."""
    yield from _held(vertex, now)
    if vertex in view.unwatched:
        yield WaitReason(
            "watch",
            f"the watch has failed ({view.unwatched[vertex]}) and is restarted; no drift is noticed until it is armed",
        )
    yield from _pauses(vertex, view)
    if not vertex.queue.dirty:
        return
    if view.scheduler.reservations.reserved(vertex):
        yield WaitReason("apply", "`holdfast apply` is running this resource, or one that it watches")
    if view.scheduler.reservations.claimed(vertex):
        yield WaitReason("call", "`holdfast call` is changing what this resource manages")
    if vertex.watching.predecessors:
        yield WaitReason(
            "place", "a resource that it replaces, or that is earlier in its sequence, has left but still runs"
        )
    elif not vertex.watching.armed and vertex not in view.unwatched:
        yield WaitReason("watch", "the watch is not armed yet; a resource runs only while it is watched")
    yield from _others(vertex, view)


def _held(vertex: Vertex, now: float) -> Iterator[WaitReason]:
    """Return the reason why a vertex must not start before some time."""
    if vertex.run.obstacle:
        until = vertex.run.obstacle.until
        most = "" if until is None else f", at most {until - now:.0f} s more"
        yield WaitReason("obstacle", f"{vertex.run.obstacle.text}; the resource waits until this ends{most}")
    elif vertex.run.retry_wait:
        attempt, attempts, comment, *_ = vertex.run.retry_wait
        left = vertex.not_before - now
        when = f"the next one in {left:.1f} s" if left > 0 else "the next one is due"
        yield WaitReason("retry", f"attempt {attempt} of {attempts} failed: {comment}; {when}")
    elif vertex.not_before > now:
        left = vertex.not_before - now
        if vertex.rate.flapping:
            why = "it flaps: its repairs were undone too often, so they are spaced"
            yield WaitReason("flapping", f"{why}; {left:.1f} s more")
        else:
            yield WaitReason("rate-limit", f"the rate limit is reached; {left:.1f} s more")


def _pauses(vertex: Vertex, view: View) -> Iterator[WaitReason]:
    """Return the pauses that keep a vertex from being repaired: of an operator, or because of a shutdown."""
    if named := view.policy.pause_by_pattern(vertex):
        yield WaitReason("paused", f"{named.said}, by {named.pattern!r}: the resource is checked but not changed")
    for pause in sorted(view.scheduler.paused & PAUSES.keys()) if vertex.queue.dirty else ():
        said = view.policy.pause_of(vertex) if pause == "operator" else None
        yield WaitReason("paused", f"{PAUSES[pause]}{f': {said.said}' if said else ''}")


def _others(vertex: Vertex, view: View) -> Iterator[WaitReason]:
    """Return which other vertices, semaphores or workers the vertex waits for."""
    above = _roots_first(_unsettled_above(vertex))
    if above:
        yield WaitReason("requisites", "a resource that it depends on is not settled", above)
    earlier = _earlier(vertex, view) if vertex.queue.new else ()
    if earlier and not above:
        yield WaitReason(
            "order", "it is new, and runs when all resources before it in definition order are settled", earlier
        )
    holder = view.scheduler.sequences.blocker(vertex, view.scheduler.unsettled)
    if holder:
        yield WaitReason("sequence", "states of one thing, and all states between them, run in order", (holder,))
    if not (above or earlier or holder):
        yield from _full(vertex, view)


def _full(vertex: Vertex, view: View) -> Iterator[WaitReason]:
    """Return the semaphore and the workers that are all taken, if so."""
    name = view.scheduler.semaphores.full(vertex)
    if name:
        inside = tuple(each for each in _running(view) if name in each.call.meta.sema)
        yield WaitReason("semaphore", f"all {places(name)} places of the semaphore {name!r} are taken", inside)
    if view.scheduler.workers.busy:
        yield WaitReason("workers", f"all {view.scheduler.workers.limit} workers are busy", _running(view))


def culprits(vertex: Vertex, view: View) -> tuple[Vertex, ...]:
    """Return the vertices whose own failure kept this one from running, directly or through other vertices."""
    found: dict[Vertex, None] = {}
    seen, stack = {vertex}, _because(vertex, view)
    while stack:
        up = stack.pop()
        if up in seen:
            continue
        seen.add(up)
        if up.failed and up.last.outcome and up.last.outcome.blocked:
            stack.extend(_because(up, view))
        elif up.failed:
            found[up] = None
    return tuple(sorted(found, key=lambda each: each.position))


def requisites(vertex: Vertex) -> Iterator[tuple[str, Vertex]]:
    """Return (requisite, target) of a vertex; `auto` stands for an automatic edge."""
    for kind, targets in vertex.links.requisites.items():
        for target in targets:
            yield kind, target
    for target in vertex.links.auto:
        yield "auto", target


def dependents(vertex: Vertex) -> Iterator[tuple[str, Vertex]]:
    """Return (requisite, vertex that names this one), in order of execution."""
    listeners = [each for each, kind in vertex.links.subscribers if kind in LISTENING]
    for below in sorted(
        {*vertex.links.downstream, *listeners, *vertex.links.prereq_owners}, key=lambda each: each.position
    ):
        yield from ((kind, below) for kind, target in requisites(below) if target is vertex)


def _because(vertex: Vertex, view: View) -> list[Vertex]:
    outcome = vertex.last.outcome
    if not outcome or not (outcome.blocked or outcome.reason == "prereq"):
        return []
    return [view.graph.by_identity[each] for each in outcome.because if each in view.graph.by_identity]


def _unsettled_above(vertex: Vertex) -> set[Vertex]:
    seen: set[Vertex] = set()
    stack = list(vertex.links.upstream)
    while stack:
        up = stack.pop()
        if up not in seen:
            seen.add(up)
            stack.extend(up.links.upstream)
    return {up for up in seen if not up.settled}


def _roots_first(unsettled: set[Vertex]) -> tuple[Vertex, ...]:
    return tuple(sorted(unsettled, key=lambda each: (not unsettled.isdisjoint(each.links.upstream), each.position)))


def _earlier(vertex: Vertex, view: View) -> tuple[Vertex, ...]:
    """Return the unsettled vertices for which this one waits by definition order."""
    earlier = (each for each in view.scheduler.unsettled if each.position < vertex.position and holds_back(each))
    return tuple(sorted(earlier, key=lambda each: each.position))


def _running(view: View) -> tuple[Vertex, ...]:
    return tuple(
        sorted((each for each in view.scheduler.unsettled if each.queue.running), key=lambda each: each.position)
    )


def _pending(vertex: Vertex, kind: str, target: Vertex, view: View) -> int:
    return view.deliveries.behind((target.key, vertex.key, CARRIES[kind])) if kind in CARRIES else 0


def _last(vertex: Vertex) -> dict[str, Any] | None:
    """Return how the last run ended, and which vertex caused it."""
    outcome = vertex.last.outcome
    if outcome is None:
        return None
    return {
        "at": outcome.started,
        "cause": outcome.cause,
        "by": [up.identity for up in _changed_before(vertex, outcome)]
        if outcome.cause in ("refresh", "recovery")
        else [],
        "result": outcome.result,
        "ran": outcome.ran,
        "reason": outcome.reason,
        "comment": outcome.said,
        "public": outcome.public,
        "because": list(outcome.because),
        "undone": outcome.undone,
        "changed_by": outcome.by and outcome.by.fields(),
        "ended": outcome.ended,
        "duration": round(outcome.duration, 6),
        "attempts": outcome.attempts,
    }


def _changed_before(vertex: Vertex, outcome: Outcome) -> Iterable[Vertex]:
    """Return the upstream vertex that ended last before this run: it caused the run."""
    ended = [
        (last.started + last.duration, up)
        for _, up in incoming(vertex)
        if (last := up.last.change or up.last.outcome) and last.started <= outcome.started
    ] or [
        (up.last.outcome.started, up)
        for up in vertex.links.upstream
        if up.last.outcome and up.last.outcome.started <= outcome.started
    ]
    return [max(ended, key=lambda each: each[0])[1]] if ended else []


def _next(vertex: Vertex, view: View, now: float) -> Iterator[dict[str, Any]]:
    """Return what happens to the vertex next. `in` is the time in seconds; None: it depends on an event."""
    yield from _next_run(vertex)
    if vertex.timer is not None:
        yield {"what": _timed(vertex, now), "in": _in(vertex.timer, now)}
    yield from _next_event(vertex)
    remembered = "superseded" if vertex.links.successors else "action" if is_action(vertex) else ""
    if remembered:
        yield {"what": remembered, "in": None}
    if view.recheck is not None and (vertex.failed or not remembered):
        yield {"what": "recheck", "in": _in(view.recheck, now)}


def _next_event(vertex: Vertex) -> Iterator[dict[str, Any]]:
    """Return what the watch of a vertex reports: polls, or events."""
    period = kinds.period(vertex.resource, vertex.call.meta)
    if period > 0:
        yield {"what": "poll", "in": None, "every": period}
    elif vertex.watching.watcher is not None:
        yield {"what": "event", "in": None}


def _next_run(vertex: Vertex) -> Iterator[dict[str, Any]]:
    """Return the end of the current run, or the run that is due."""
    queue = vertex.queue
    if queue.running:
        yield {"what": "again" if queue.pending_cause else "end", "in": None, "cause": queue.pending_cause}
    elif queue.dirty and (vertex.run.retry_wait is None or vertex.timer is None):
        yield {"what": "run", "in": None, "cause": queue.cause}


def _timed(vertex: Vertex, now: float) -> str:
    """Return what the timer of a vertex starts, or for what reason it holds the vertex back."""
    held = vertex.not_before > now
    if vertex.run.obstacle:
        return "obstacle" if held else "rerun"
    if vertex.run.retry_wait or (vertex.failed and not held):
        return "retry"
    if not held:
        return "rerun"
    return "flapping" if vertex.rate.flapping else "rate-limit"


def _in(timer: asyncio.TimerHandle, now: float) -> float:
    return round(max(0.0, timer.when() - now), 1)


def _wait_row(wait: WaitReason, view: View, now: float) -> dict[str, Any]:
    who = [_named(each, view, now) for each in wait.who[:NAMED]]
    return {"code": wait.code, "text": wait.text, "who": who, "more": max(0, len(wait.who) - NAMED)}


def _named(vertex: Vertex, view: View, now: float, *, comment: bool = False) -> dict[str, Any]:
    row: dict[str, Any] = {"identity": vertex.identity, "state": state_of(vertex, view, now)}
    if comment:
        outcome = vertex.last.outcome
        row |= {"comment": outcome.said, "public": outcome.public} if outcome else {"comment": "", "public": True}
    return row
