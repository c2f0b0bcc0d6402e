"""The size of a frame of the live view is limited, however large the graph is."""

from __future__ import annotations

import json
from collections import Counter

from engine_bench import state
from holdfast import Permanent
from holdfast.agent.insight.frames import REPAIRS, ROWS
from watched_bench import Watched

NONE = {"unwatched": 0, "drifted": 0, "would": 0, "flapping": 0}
"""Counts of the states that no resource is in."""


async def test_a_frame_has_counts_pass_and_repairs(bench: Watched) -> None:
    """The frame is correct during a run and after it."""
    bench.machine.broken["bad"] = Permanent("no")
    async with bench.running(
        state("a"), state("b", require=["a"]), state("bad"), state("c", require=["bad"])
    ) as engine:
        bench.machine.hold("a")
        for name in "ab":
            bench.machine.drift(name)
        await bench.elapse(3)
        busy = bench.insight.frame(engine.view)
        bench.machine.free()
        await engine.settle()
        after = bench.insight.frame(engine.view)

        assert busy["counts"] == {
            "resources": 4,
            "failed": 1,
            "blocked": 1,
            **dict.fromkeys(("running", "waiting"), 1),
            **NONE,
        }
        assert busy["pass"] | {"at": 0} == {
            "number": 2,
            "cause": "drift",
            "at": 0,
            "running": True,
            "for": 3.0,
            "done": 0,
        }
        assert busy["rows"][0] == {"identity": "zsetting.present[a]", "state": "running", "for": 3.0}
        assert "2 changed" in after["pass"]["text"]
        assert [(entry["identity"][17:-1], entry["what"]) for entry in after["recent"][-2:]] == [
            ("a", "repaired"),
            ("b", "repaired"),
        ]
        assert json.loads(json.dumps(after)) == after


async def test_each_resource_counts_once_in_the_state_of_its_row(bench: Watched) -> None:
    """A resource that has failed or is blocked counts once, also if it is dirty, running or waiting."""
    bench.machine.broken |= {name: Permanent("no") for name in ("bad", "held")}
    often = state("often", meta={"rerun": 60.0}, kind="zaction.run")
    async with bench.running(state("a"), state("bad"), state("c", require=["bad"]), state("held"), often) as engine:
        bench.machine.hold("held")
        bench.machine.drift("held")
        await bench.elapse(1.5)  # an event just after a failure is handled after 0.8 to 1.2 s
        engine.pause()
        for name in ("a", "bad", "c"):
            bench.machine.drift(name)
        await bench.elapse(1)
        frame = bench.insight.frame(engine.view)
        words = Counter(row["state"] for row in frame["rows"])

        assert words == {"waiting": 2, "failed": 1, "blocked": 1, "running": 1}
        assert frame["counts"] == {"resources": 5, **NONE, **words}
        bench.machine.free()
        engine.resume()
        await engine.settle()


async def test_a_frame_of_a_large_graph_is_limited(bench: Watched) -> None:
    """The frame contains the running and the failed resources, in order of execution."""
    names = [f"s{number}" for number in range(ROWS * 3)]
    bench.machine.broken[names[-1]] = Permanent("no")
    async with bench.running(*(state(name) for name in names)) as engine:
        bench.machine.hold(names[-2])
        bench.machine.drift(names[-2])
        await bench.elapse(1)
        frame = bench.insight.frame(engine.view)

        assert frame["counts"]["resources"] == len(names)
        assert len(frame["rows"]) == ROWS
        assert [row["state"] for row in frame["rows"][-2:]] == ["running", "failed"]
        assert len(frame["recent"]) == REPAIRS
        assert len(json.dumps(frame)) < 50_000
        bench.machine.free()
        await engine.settle()
