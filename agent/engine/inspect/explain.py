"""What an operator asks of one resource: why it ran, why it waits, who holds it up, what happens next.

Answers are found when somebody asks, by walking from the resource; nothing is kept for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.agent.engine.decide.decisions import Decisions
from holdfast.agent.engine.deliver.deliveries import incoming
from holdfast.agent.engine.inspect.status import View, describe, state_of
from holdfast.agent.engine.model.events import Outcome, Pause
from holdfast.agent.engine.model.graph import CARRIES, Vertex
from holdfast.agent.engine.schedule.definition_order import holds_back
from holdfast.agent.engine.schedule.semaphores import places

PAUSES: Mapping[Pause, str] = {
    "operator": "an operator has paused the agent; `holdfast resume` lets it go on",
    "going-down": "the system goes down, so nothing is repaired",
}
"""Pause -> why it keeps a resource from running."""
NAMED = 10
"""Resources that are named where many stand in the way."""


class Wait(NamedTuple):
    """One thing that keeps a resource from running now."""

    code: str
    """`paused`, `obstacle`, `place`, `watch`, `rate-limit`, `flapping`, `requisites`, `order`, `sequence`, `semaphore`, `workers`."""
    text: str
    who: tuple[Vertex, ...] = ()
    """Those that it waits for, those first that themselves wait for nobody."""


def explain(vertex: Vertex, view: View) -> dict[str, Any]:
    """All there is to know of it, ready for JSON. Times are in seconds, `at` is Unix time."""
    now = asyncio.get_running_loop().time()
    place = vertex.call.place
    return {
        **describe(vertex, view),
        "file": place.file,
        "line": place.line,
        "position": vertex.position,
        "reason_for_place": vertex.call.reason,
        "last": _last(vertex),
        "waits": [_told(wait, view, now) for wait in waits(vertex, view, now)],
        "blocked_by": [_named(each, view, now, comment=True) for each in culprits(vertex, view)],
        "next": list(_next(vertex, view, now)),
        "needs": [
            {"requisite": kind, **_named(target, view, now), "pending": _pending(vertex, kind, target, view)}
            for kind, target in requisites(vertex)
        ],
        "needed_by": [{"requisite": kind, **_named(each, view, now)} for kind, each in dependents(vertex)],
    }


def waits(vertex: Vertex, view: View, now: float) -> Iterator[Wait]:
    """All that keeps it from running now, though it is to be looked at: first what is its own matter, then whom it waits for."""
    if vertex.obstacle:
        until = vertex.obstacle.until
        most = "" if until is None else f", {until - now:.0f} s more at most"
        yield Wait("obstacle", f"{vertex.obstacle.text}; it is left alone until that is over{most}")
    elif vertex.rest:
        attempt, attempts, comment, *_ = vertex.rest
        left = vertex.not_before - now
        when = f"the next one in {left:.1f} s" if left > 0 else "the next one waits for its turn"
        yield Wait("retry", f"attempt {attempt} of {attempts} failed: {comment}; {when}")
    elif vertex.not_before > now:
        code = "flapping" if vertex.flapping else "rate-limit"
        why = (
            "it flaps: it was repaired in vain too often, so repairs are spaced"
            if vertex.flapping
            else "it ran as often as its limit allows"
        )
        yield Wait(code, f"{why}; {vertex.not_before - now:.1f} s more")
    if vertex in view.unwatched:
        yield Wait(
            "watch",
            f"its watch has failed ({view.unwatched[vertex]}) and is started again; until it is armed no drift is noticed",
        )
    yield from _pauses(vertex, view)
    if not vertex.dirty:
        return
    if vertex.key in view.scheduler.lent:
        yield Wait("apply", "`holdfast apply` is at work on it, or on what it watches")
    if vertex.predecessors:
        yield Wait("place", "what had its place before, or stood before it in a sequence, has left and still runs")
    elif not vertex.armed and vertex not in view.unwatched:
        yield Wait("watch", "its watch is not armed: nothing runs unwatched")
    yield from _others(vertex, view)


def _pauses(vertex: Vertex, view: View) -> Iterator[Wait]:
    """What an operator, or a shutdown, keeps from being repaired."""
    if named := view.pauses.named(vertex):
        yield Wait("paused", f"it is {named.said}, by {named.pattern!r}: it is looked at, and not changed")
    for pause in sorted(view.scheduler.paused & PAUSES.keys()) if vertex.dirty else ():
        said = view.pauses.of(vertex) if pause == "operator" else None
        yield Wait("paused", f"{PAUSES[pause]}{f': {said.said}' if said else ''}")


def _others(vertex: Vertex, view: View) -> Iterator[Wait]:
    """Those that have to come first."""
    above = _roots_first(_unsettled_above(vertex))
    if above:
        yield Wait("requisites", "something above it in its requisites is not settled", above)
    earlier = _earlier(vertex, view) if vertex.new else ()
    if earlier and not above:
        yield Wait("order", "it is new, and runs when all before it in definition order are settled", earlier)
    holder = view.scheduler.sequences.blocker(vertex, view.scheduler.unsettled)
    if holder:
        yield Wait("sequence", "states of one thing, and what stands between, run in order", (holder,))
    if above or earlier or holder:
        return
    name = view.scheduler.semaphores.full(vertex)
    if name:
        inside = tuple(each for each in _running(view) if name in each.call.meta.sema)
        yield Wait("semaphore", f"all {places(name)} places of the semaphore {name!r} are taken", inside)
    if view.scheduler.workers.busy:
        yield Wait("workers", f"all {view.scheduler.workers.limit} workers are busy", _running(view))


def culprits(vertex: Vertex, view: View) -> tuple[Vertex, ...]:
    """Those whose own failure is why it was not run, however far above they stand."""
    found: dict[Vertex, None] = {}
    seen, stack = {vertex}, _because(vertex, view)
    while stack:
        up = stack.pop()
        if up in seen:
            continue
        seen.add(up)
        if up.failed and up.outcome and up.outcome.blocked:
            stack.extend(_because(up, view))
        elif up.failed:
            found[up] = None
    return tuple(sorted(found, key=lambda each: each.position))


def requisites(vertex: Vertex) -> Iterator[tuple[str, Vertex]]:
    """(requisite, whom it names), with those that nobody wrote as `auto`."""
    for kind, targets in vertex.requisites.items():
        for target in targets:
            yield kind, target
    for target in vertex.auto:
        yield "auto", target


def dependents(vertex: Vertex) -> Iterator[tuple[str, Vertex]]:
    """(requisite, who names it), in order of execution."""
    listeners = [who for who, kind in vertex.subscribers if kind == "listen"]
    for below in sorted({*vertex.downstream, *listeners, *vertex.prereq_owners}, key=lambda each: each.position):
        yield from ((kind, below) for kind, target in requisites(below) if target is vertex)


def _because(vertex: Vertex, view: View) -> list[Vertex]:
    outcome = vertex.outcome
    if not outcome or not (outcome.blocked or outcome.reason == "prereq"):
        return []
    return [view.graph.by_identity[each] for each in outcome.because if each in view.graph.by_identity]


def _unsettled_above(vertex: Vertex) -> set[Vertex]:
    seen: set[Vertex] = set()
    stack = list(vertex.upstream)
    while stack:
        up = stack.pop()
        if up not in seen:
            seen.add(up)
            stack.extend(up.upstream)
    return {up for up in seen if not up.settled}


def _roots_first(unsettled: set[Vertex]) -> tuple[Vertex, ...]:
    return tuple(sorted(unsettled, key=lambda each: (not unsettled.isdisjoint(each.upstream), each.position)))


def _earlier(vertex: Vertex, view: View) -> tuple[Vertex, ...]:
    """Those that definition order puts before it and that are not settled."""
    earlier = (each for each in view.scheduler.unsettled if each.position < vertex.position and holds_back(each))
    return tuple(sorted(earlier, key=lambda each: each.position))


def _running(view: View) -> tuple[Vertex, ...]:
    return tuple(sorted((each for each in view.scheduler.unsettled if each.running), key=lambda each: each.position))


def _pending(vertex: Vertex, kind: str, target: Vertex, view: View) -> int:
    return view.deliveries.behind((target.key, vertex.key, CARRIES[kind])) if kind in CARRIES else 0


def _last(vertex: Vertex) -> dict[str, Any] | None:
    """How its last run ended, and on whose account it was."""
    outcome = vertex.outcome
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
        "comment": outcome.comment,
        "because": list(outcome.because),
        "undone": outcome.undone,
        "duration": round(outcome.duration, 6),
        "attempts": outcome.attempts,
    }


def _changed_before(vertex: Vertex, outcome: Outcome) -> Iterable[Vertex]:
    """The upstream whose end came last before this run: it is why it ran."""
    ended = [
        (last.started + last.duration, up)
        for _, up in incoming(vertex)
        if (last := up.last_change or up.outcome) and last.started <= outcome.started
    ] or [(up.outcome.started, up) for up in vertex.upstream if up.outcome and up.outcome.started <= outcome.started]
    return [max(ended, key=lambda each: each[0])[1]] if ended else []


def _next(vertex: Vertex, view: View, now: float) -> Iterator[dict[str, Any]]:
    """What happens to it, in the order in which it can be foreseen; `in` is None for what needs an event."""
    meta = vertex.call.meta
    if vertex.running:
        yield {"what": "again" if vertex.pending_cause else "end", "in": None, "cause": vertex.pending_cause}
    elif vertex.dirty and (vertex.rest is None or vertex.timer is None):
        yield {"what": "run", "in": None, "cause": vertex.cause}
    if vertex.timer is not None:
        held = vertex.not_before > now
        retry = vertex.rest or (vertex.failed and not held)
        why = "obstacle" if vertex.obstacle else "flapping" if vertex.flapping else "rate-limit"
        what = "retry" if retry and not vertex.obstacle else why if held else "rerun"
        yield {"what": what, "in": _in(vertex.timer, now)}
    if meta.poll is not None and meta.poll > 0:
        yield {"what": "poll", "in": None, "every": meta.poll}
    elif vertex.watcher is not None:
        yield {"what": "event", "in": None}
    remembered = "superseded" if vertex.successors else "action" if Decisions.is_action(vertex) else ""
    if remembered:
        yield {"what": remembered, "in": None}
    if view.recheck is not None and (vertex.failed or not remembered):
        yield {"what": "recheck", "in": _in(view.recheck, now)}


def _in(timer: asyncio.TimerHandle, now: float) -> float:
    return round(max(0.0, timer.when() - now), 1)


def _told(wait: Wait, view: View, now: float) -> dict[str, Any]:
    who = [_named(each, view, now) for each in wait.who[:NAMED]]
    return {"code": wait.code, "text": wait.text, "who": who, "more": max(0, len(wait.who) - NAMED)}


def _named(vertex: Vertex, view: View, now: float, *, comment: bool = False) -> dict[str, Any]:
    row: dict[str, Any] = {"identity": vertex.identity, "state": state_of(vertex, view, now)}
    if comment:
        row["comment"] = vertex.outcome.comment if vertex.outcome else ""
    return row
