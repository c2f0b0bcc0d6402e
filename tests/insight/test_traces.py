"""A trace of a pass has lanes, waits and arrows that a viewer can draw; a limited number of passes is kept."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from typing import Any

import pytest

from engine_bench import state
from holdfast import Permanent
from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import PassRecord, PassStarted
from holdfast.agent.engine.model.graph import Graph
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.insight import traces
from holdfast.agent.insight.traces import Traces, chrome
from watched_bench import Watched


def trace(bench: Watched, engine: Engine, number: int | None = None) -> dict[str, Any]:
    """Return the trace that `holdfast trace` writes."""
    return json.loads(json.dumps(bench.insight.trace(number, engine.view), default=list))


def runs(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a trace in the order in which they ended."""
    return [event for event in found["traceEvents"] if event["ph"] == "X" and event["cat"] != "pass"]


async def test_overlapping_runs_have_lanes_of_their_own(bench: Watched) -> None:
    """Runs of one lane never overlap; a free lane is used again."""
    async with bench.running(*(state(name) for name in "abcd"), workers=3) as engine:
        for name in "abcd":
            bench.machine.hold(name)
            bench.machine.drift(name)
        for name in "abcd":
            await bench.elapse(1)
            bench.machine.free(name)
        await engine.settle()
        found = runs(trace(bench, engine))
        lanes = defaultdict(list)
        for event in found:
            lanes[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))

        assert len(found) == 4
        assert sorted(lanes) == [1, 2, 3]
        for spans in lanes.values():
            assert all(end <= begin for (_, end), (begin, _) in zip(sorted(spans), sorted(spans)[1:], strict=False))


async def test_a_run_has_cause_result_and_wait(bench: Watched) -> None:
    """The wait is an event of its own, and an arrow leads from the run that it waited for."""
    async with bench.running(state("a"), state("b", require=["a"])) as engine:
        bench.machine.broken["b"] = Permanent("no")
        bench.machine.hold("a")
        for name in "ab":
            bench.machine.drift(name)
        await bench.elapse(2)
        bench.machine.free()
        await engine.settle()
        found = trace(bench, engine)
        first, second = runs(found)
        phases = {
            event["ph"]: event
            for event in found["traceEvents"]
            if event["name"] == second["name"] or event.get("cat") == "requisite"
        }

        assert first["args"] == {"cause": "drift", "result": "changed", "waited_ms": 0.0}
        assert (second["name"], second["args"]["result"]) == ("zsetting.present[b]", "failed")
        assert second["args"]["waited_ms"] == pytest.approx(2000)
        assert phases["b"]["ts"] == pytest.approx(0)
        assert phases["e"]["ts"] == second["ts"]
        assert phases["s"]["ts"] == pytest.approx(first["ts"] + first["dur"])
        assert (phases["f"]["tid"], phases["f"]["ts"]) == (second["tid"], second["ts"])


async def test_passes_are_found_by_number(bench: Watched) -> None:
    """Without a number, the last pass is returned; the error for an unknown number lists the available ones."""
    async with bench.running(state("a")) as engine:
        bench.machine.drift("a")
        await bench.elapse(1)

        assert trace(bench, engine)["otherData"]["cause"] == "drift"
        assert trace(bench, engine, 1)["otherData"]["cause"] == "start"
        with pytest.raises(ControlError, match=r"pass 9 is not kept; available: 1, 2"):
            trace(bench, engine, 9)


def ran(kept: Traces, number: int, count: int) -> None:
    """Record a whole pass with this many runs."""
    kept.begin(PassStarted(number, "drift"))
    for place in range(count):
        kept.add(Outcome(f"a.b[{place}]", place, result=True), 0.0, 0.0, 0.0)
    kept.end(PassRecord(number, "drift", 0.0))


async def test_rounded_times_still_nest(bench: Watched) -> None:
    """Viewers drop a run that begins before the previous one ends, and an arrow that begins outside its run."""
    names = [f"n{place}" for place in range(40)]
    async with bench.running(
        *(state(name, require=names[place - 1 : place]) for place, name in enumerate(names))
    ) as engine:
        kept = Traces(lambda: 1 / 3)
        kept.begin(PassStarted(2, "drift"))
        at = 1 / 3
        for place, vertex in enumerate(engine.view.graph):
            took = (place % 7) / 9e6
            kept.add(Outcome(vertex.identity, place, result=True), at, 0.0, at + took)
            at += took
        found = kept.find()
        assert found is not None
        events = [*chrome(found, engine.view.graph)["traceEvents"]]
        spans = [
            (event["ts"], round(event["ts"] + event["dur"], 1))
            for event in events
            if event["ph"] == "X" and event["cat"] != "pass"
        ]
        arrows = [event["ts"] for event in events if event["ph"] == "s"]

        assert len(arrows) == len(spans) - 1
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
        assert all(
            begin <= arrow < end or begin == arrow == end for arrow, (begin, end) in zip(arrows, spans, strict=False)
        )


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old passes are dropped; a pass that is too long is truncated and marked as such."""
    monkeypatch.setattr(traces, "RUNS", 10)
    kept = Traces(lambda: 0.0)
    for number in range(100):
        ran(kept, number, 1)
    assert kept.numbers == list(range(90, 100))
    ran(kept, 100, 25)

    assert kept.numbers == [100]
    found = kept.find()
    assert found is not None
    assert (len(found.runs), found.dropped) == (10, 15)
    assert [*chrome(found, Graph())["traceEvents"]]


async def test_without_a_pass_there_is_no_trace(bench: Watched) -> None:
    """The error is a sentence."""
    with pytest.raises(ControlError, match="there was no pass yet"):
        bench.insight.trace(None, bench.engine().view)
