"""Timelines of the last passes for `chrome://tracing` and ui.perfetto.dev; parallel runs are in separate lanes."""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, count
from typing import Any, NamedTuple

from holdfast.agent.engine.model.events import PassRecord, PassStarted
from holdfast.agent.engine.model.graph import Graph
from holdfast.agent.engine.model.outcome import Outcome, result_of
from holdfast.agent.narrate import summary

PASSES = 16
"""Most passes kept."""
RUNS = 10_000
"""Most runs kept of all passes together; further runs of a longer pass are dropped."""
BRIEF = 50e-6
"""Seconds: shorter waits are not drawn."""
TICK = 0.1
"""Microseconds: the resolution of a trace."""
PASS_LANE = 0
_COLOURS = {"changed": "good", "failed": "terrible", "skipped": "grey", "would-change": "olive", "unknown": "olive"}
"""Result -> one of the colours that trace viewers know."""


class TracedRun(NamedTuple):
    """One run of one resource; times are in seconds."""

    identity: str
    begun: float
    """Seconds from the start of the pass."""
    duration: float
    waited: float
    """Seconds from the event that caused the run to its start."""
    cause: str
    result: str


class TracedRuns:
    """The runs of one pass, in the order in which they ended.

    There may be thousands: the columns take a quarter of the memory of as many `TracedRun`.
    """

    __slots__ = ("_texts", "_times")

    def __init__(self) -> None:
        self._texts: list[str] = []
        """Identity, cause and result of each run, one run after the other."""
        self._times = array("d")
        """Begin, duration and wait of each run, one run after the other."""

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._texts) // 3

    def __iter__(self) -> Iterator[TracedRun]:
        """Yield the runs."""
        texts, times = iter(self._texts), iter(self._times)
        for identity, cause, result in zip(texts, texts, texts, strict=True):
            yield TracedRun(identity, next(times), next(times), next(times), cause, result)

    def append(self, run: TracedRun) -> None:
        """Add a run."""
        self._texts += (run.identity, run.cause, run.result)
        self._times.extend((run.begun, run.duration, run.waited))


@dataclass(slots=True)
class TracedPass:
    """One pass, complete or running."""

    number: int
    cause: str
    started: float
    """Unix time."""
    began: float
    """The clock of the runs at the start."""
    duration: float | None = None
    """Seconds; None while the pass runs."""
    converged: bool = False
    said: str = ""
    """The result as a sentence."""
    runs: TracedRuns = field(default_factory=TracedRuns)
    dropped: int = 0
    """Runs that were not kept for lack of room."""


class Traces:
    """The last passes of one agent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._passes: deque[TracedPass] = deque(maxlen=PASSES)
        self._kept = 0

    @property
    def numbers(self) -> list[int]:
        """Numbers of the kept passes, oldest first."""
        return [each.number for each in self._passes]

    @property
    def current(self) -> TracedPass | None:
        """The running pass."""
        last = self._passes[-1] if self._passes else None
        return last if last and last.duration is None else None

    def find(self, number: int | None = None) -> TracedPass | None:
        """Return the pass with this number.

        Without a number the last complete one, or the running one if there is no other.
        """
        if number is not None:
            return next((each for each in self._passes if each.number == number), None)
        over = [each for each in self._passes if each.duration is not None]
        return over[-1] if over else self.current

    def lasts(self, traced: TracedPass) -> float:
        """Return the duration of a pass in seconds; of a running pass until now."""
        return self._clock() - traced.began if traced.duration is None else traced.duration

    def begin(self, event: PassStarted) -> None:
        """Record the start of a pass."""
        if len(self._passes) == self._passes.maxlen:
            self._kept -= len(self._passes[0].runs)
        self._passes.append(TracedPass(event.number, event.cause, time.time(), self._clock()))

    def add(self, outcome: Outcome, begun: float, waited: float, now: float) -> None:
        """Record the end of a run; all times are by one clock. Older passes are dropped to make room."""
        current = self.current
        if current is None:
            return
        while self._kept >= RUNS and len(self._passes) > 1:
            self._kept -= len(self._passes.popleft().runs)
        if self._kept >= RUNS:
            current.dropped += 1
            return
        run = TracedRun(outcome.identity, begun - current.began, now - begun, waited, outcome.cause, result_of(outcome))
        current.runs.append(run)
        self._kept += 1

    def end(self, record: PassRecord) -> None:
        """Record the end of the pass."""
        current = self.current
        if current is not None:
            current.duration, current.converged = record.duration, record.converged
            current.said = summary(record.tally, record.duration)


def chrome(traced: TracedPass, graph: Graph) -> dict[str, Any]:
    """Return a pass in Chrome's trace format: runs in lanes, arrows from dependencies, and waits as separate events.

    The events are an iterator, which may be taken slowly.
    """
    runs = list(traced.runs)
    lanes = list(_lanes(runs))
    title = f"pass {traced.number} ({traced.cause})"
    events = [
        _meta("process_name", PASS_LANE, "holdfast"),
        _meta("thread_name", PASS_LANE, title),
        *(_meta("thread_name", lane, f"lane {lane}") for lane in sorted(set(lanes))),
    ]
    length = (
        traced.duration if traced.duration is not None else max((run.begun + run.duration for run in runs), default=0.0)
    )
    args = {"cause": traced.cause, "converged": traced.converged, "runs": len(runs), "dropped": traced.dropped}
    events.append(
        {
            "ph": "X",
            "name": title,
            "cat": "pass",
            "pid": 1,
            "tid": PASS_LANE,
            "ts": 0.0,
            "dur": _us(length),
            "args": args,
        }
    )
    other = {"pass": traced.number, "cause": traced.cause, "started": traced.started}
    shown = (event for run, lane in zip(runs, lanes, strict=True) for event in _run(run, lane))
    return {
        "traceEvents": chain(events, shown, _arrows(runs, lanes, graph)),
        "displayTimeUnit": "ms",
        "otherData": other,
    }


def _lanes(runs: list[TracedRun]) -> Iterator[int]:
    """Return the lane of each run: the lowest that is free at its start, so there are as many as parallel runs."""
    lanes: dict[int, int] = {}
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    fresh = count(PASS_LANE + 1)
    for place in sorted(range(len(runs)), key=lambda place: runs[place].begun):
        run = runs[place]
        while busy and busy[0][0] <= run.begun:
            heappush(free, heappop(busy)[1])
        lanes[place] = heappop(free) if free else next(fresh)
        heappush(busy, (run.begun + run.duration, lanes[place]))
    return (lanes[place] for place in range(len(runs)))


def _run(run: TracedRun, lane: int) -> Iterator[dict[str, Any]]:
    common = {"pid": 1, "tid": lane, "name": run.identity}
    # The ends are rounded, not the lengths: neighbours must not overlap.
    begin, end = _us(run.begun), _us(run.begun + run.duration)
    args = {"cause": run.cause, "result": run.result, "waited_ms": round(run.waited * 1000, 3)}
    event = {"ph": "X", "cat": run.result, "ts": begin, "dur": round(end - begin, 1), "args": args}
    yield {**common, **event, **({"cname": _COLOURS[run.result]} if run.result in _COLOURS else {})}
    if run.waited >= BRIEF:
        wait = {**common, "cat": "wait", "id": f"{run.identity} {begin}"}
        yield {**wait, "ph": "b", "ts": _us(max(0.0, run.begun - run.waited)), "args": {"waited_ms": args["waited_ms"]}}
        yield {**wait, "ph": "e", "ts": begin}


def _arrows(runs: list[TracedRun], lanes: list[int], graph: Graph) -> Iterator[dict[str, Any]]:
    """Yield arrows to each run from the last of its dependencies to end.

    They start within that run, as the format requires.
    """
    ended: dict[str, tuple[float, float, int]] = {}
    number = count(1)
    for run, lane in zip(runs, lanes, strict=True):  # in the order in which they ended
        vertex = graph.by_identity.get(run.identity)
        above = [ended[up.identity] for up in vertex.links.upstream if up.identity in ended] if vertex else []
        before = [each for each in above if each[0] <= run.begun]
        if before:
            end, begun, where = max(before)
            arrow = {"pid": 1, "cat": "requisite", "name": "then", "id": next(number)}
            yield {**arrow, "ph": "s", "tid": where, "ts": max(_us(begun), round(_us(end) - TICK, 1))}
            yield {**arrow, "ph": "f", "bp": "e", "tid": lane, "ts": _us(run.begun)}
        ended[run.identity] = (run.begun + run.duration, run.begun, lane)


def _meta(what: str, lane: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": lane, "args": {"name": name}}


def _us(seconds: float) -> float:
    """Return the seconds as microseconds, rounded to the resolution of a trace."""
    return round(seconds * 1e6, 1)
