"""The agent probes the target of a prereq, runs the prereq, then changes the target."""

from __future__ import annotations

import sys

from engine_bench import Bench, compilation, state
from holdfast import Permanent, Temporary


async def test_an_old_probe_of_the_target_is_not_used(bench: Bench) -> None:
    """The target was as declared when its prereq probed it; then it drifts."""
    machine = bench.machine
    machine.settings.update(owner="right", target="right")
    async with bench.running(state("owner", prereq=["target"]), state("target"), workers=2):
        machine.touch("owner")
        await bench.elapse(1)
        bench.forget()
        machine.settings["owner"] = "wrong"
        machine.drift("target")
        await bench.elapse(1)

        assert machine.settings == {"owner": "right", "target": "right"}
        assert [line for line in machine.log if line.startswith("apply")] == ["apply owner", "apply target"]


async def test_a_target_runs_when_the_prereq_that_blocked_it_leaves(bench: Bench) -> None:
    """Its own declaration has not changed, and nothing else would wake it."""
    machine = bench.machine
    machine.broken["owner"] = Permanent("no")
    async with bench.starting(state("owner", prereq=["target"]), state("target")) as engine:
        await bench.elapse(1)
        assert "target" not in machine.settings

        await engine.swap(compilation(state("target")))
        await engine.settle()
        assert machine.settings == {"target": "right"}
        assert engine.converged


async def test_drift_during_a_probe_is_noticed(bench: Bench) -> None:
    """The engine repeats the probe before it skips the prereq."""
    machine = bench.machine
    machine.settings.update(target="right")
    async with bench.running(state("owner", "zaction.run", prereq=["target"]), state("target"), workers=2):
        bench.forget()
        machine.hold("target")
        machine.touch("target")
        await bench.elapse(1)
        machine.drift("target")
        await bench.elapse(1)
        machine.free()
        await bench.elapse(10)

        assert machine.settings["target"] == "right"
        assert machine.log.count("run owner") == 1
        assert machine.log.index("run owner") < machine.log.index("apply target")
        assert machine.overlaps == []


async def test_drift_that_only_a_probe_has_found_is_repaired(bench: Bench) -> None:
    """The watch of the target reported nothing. The prereq was triggered, and ran because the target would change."""
    machine = bench.machine
    machine.settings.update(target="right")
    async with bench.running(state("owner", "zaction.run", prereq=["target"]), state("target"), workers=2) as engine:
        bench.forget()
        machine.settings["target"] = "drifted"
        engine.trigger("zaction.run[owner]")
        await bench.elapse(10)

        assert machine.settings["target"] == "right"
        assert machine.log.count("run owner") == 1


async def test_events_of_a_target_during_its_run_do_not_run_the_prereq_again(bench: Bench) -> None:
    """The run itself causes them, or the target is checked after its run."""
    machine = bench.machine
    machine.settings.update(target="right")
    async with bench.running(state("owner", "zaction.run", prereq=["target"]), state("target"), workers=2):
        bench.forget()
        machine.hold("apply target")
        machine.drift("target")
        await bench.elapse(1)
        machine.touch("target")
        await bench.elapse(1)
        machine.free()
        await bench.elapse(10)

        assert machine.log.count("run owner") == 1


async def test_a_probe_waits_for_the_upstreams_of_the_target(bench: Bench) -> None:
    """Upstreams are repaired first, also on a recheck, so the probe sees the pending refresh."""
    machine = bench.machine
    machine.settings.update(target="right", conf="right")
    states = (state("conf"), state("owner", "zaction.run", prereq=["target"]), state("target", watch=["conf"]))
    async with bench.running(*states, workers=2) as engine:
        bench.forget()
        machine.hold("conf")
        machine.settings["conf"] = "drifted"
        engine.recheck()
        await bench.elapse(1)
        machine.free()
        await bench.elapse(10)

        assert machine.log.count("run owner") == 1
        assert machine.log.index("apply conf") < machine.log.index("run owner") < machine.log.index("refresh target")


async def test_a_prereq_that_recovers_runs_exactly_once_more(bench: Bench) -> None:
    """It failed temporarily and blocked the target. The retry succeeds, and the target runs."""
    machine = bench.machine
    machine.settings.update(target="right")
    async with bench.running(state("owner", "zaction.run", prereq=["target"]), state("target"), workers=2):
        bench.forget()
        machine.broken["owner"] = Temporary("busy")
        machine.drift("target")
        await bench.elapse(0.5)
        assert machine.settings["target"] == "drifted"
        machine.broken.clear()
        await bench.elapse(100)

        assert machine.log.count("run owner") == 2
        assert machine.settings["target"] == "right"


async def test_a_target_is_repaired_when_a_swap_fixes_its_prereq(bench: Bench) -> None:
    """The old prereq has failed; the new one succeeds."""
    machine = bench.machine
    machine.settings.update(target="wrong", owner="wrong")
    machine.broken["owner"] = Permanent("no")
    async with bench.running(state("owner", prereq=["target"]), state("target"), workers=2) as engine:
        machine.broken.clear()
        await engine.swap(compilation(state("owner", prereq=["target"], value="new"), state("target")))
        await engine.settle()
        await bench.elapse(1)

        assert machine.settings == {"target": "right", "owner": "new"}
        assert engine.converged


async def test_a_temporarily_failed_probe_is_tried_again(bench: Bench) -> None:
    """Neither state has run, the prereq because of the probe and the target because of its prereq.

    Both run in the end.
    """
    machine = bench.machine
    machine.settings.update(target="right")
    async with bench.running(state("owner", "zaction.run", prereq=["target"]), state("target"), workers=2):
        bench.forget()
        machine.broken["look target"] = Temporary("busy")
        machine.drift("target")
        await bench.elapse(0.1)
        assert "apply target" not in machine.log
        assert "run owner" not in machine.log
        machine.broken.clear()
        await bench.elapse(100)

        assert machine.log.count("run owner") == 1
        assert machine.settings["target"] == "right"


async def test_an_old_failure_does_not_block_a_prereq_and_its_target_for_ever(bench: Bench) -> None:
    """Each failed because of the other. That ends when the cause does."""
    machine = bench.machine
    machine.settings.update(target="right", base="right")
    states = (
        state("base"),
        state("owner", "zaction.run", prereq=["target"]),
        state("target", require=["owner", "base"]),
    )
    async with bench.running(*states, workers=2) as engine:
        machine.broken["base"] = Permanent("no")
        machine.drift("base")
        machine.drift("target")
        await bench.elapse(10)
        assert machine.settings["target"] == "drifted"
        machine.broken.clear()
        machine.touch("base")
        await bench.elapse(10)

        assert machine.settings == {"target": "right", "base": "right"}
        assert engine.converged


async def test_two_prereqs_share_a_probe_and_do_not_disturb_the_target(bench: Bench) -> None:
    """One is triggered while the target runs, and waits for that."""
    machine = bench.machine
    machine.settings.update(target="right")
    states = (
        state("one", "zaction.run", prereq=["target"]),
        state("two", "zaction.run", prereq=["target"]),
        state("target"),
    )
    async with bench.running(*states, workers=4) as engine:
        bench.forget()
        machine.hold("apply target")
        machine.drift("target")
        await bench.elapse(1)
        engine.trigger("zaction.run[two]")
        await bench.elapse(1)
        machine.free()
        await bench.elapse(10)

        assert machine.log.count("run one") == machine.log.count("run two") == 1
        assert machine.overlaps == []


async def test_prereqs_of_prereqs_to_any_depth(bench: Bench) -> None:
    """The chain is longer than the recursion limit of the interpreter."""
    machine, size = bench.machine, sys.getrecursionlimit() + 200
    chain = [state(f"n{i}", **({"prereq": [f"n{i + 1}"]} if i < size - 1 else {})) for i in range(size)]
    async with bench.running(*chain, workers=2) as engine:
        bench.forget()
        machine.drift(f"n{size - 1}")
        await bench.elapse(10)

        assert machine.settings[f"n{size - 1}"] == "right"
        assert engine.converged


async def test_a_different_target_in_noop_does_not_wake_its_prereq_repeatedly(bench: Bench) -> None:
    """Its expected change wakes another target of the same prereq. The prereq probes again, and finds nothing new."""
    states = (
        state("a", prereq=["d"]),
        state("action", "zaction.run"),
        state("b", prereq=["c", "d"]),
        state("c"),
        state("d", prereq=["e"]),
        state("e", onfail=["action"], watch=["c"]),
    )
    async with bench.starting(*states, noop=True):
        await bench.elapse()

        assert bench.passes()
        assert len(bench.machine.log) < 40


async def test_an_action_runs_once_as_prereq_of_a_target_that_has_not_started(bench: Bench) -> None:
    """The action is probed for another prereq, which its own change wakes; that is no reason to run again."""
    states = (
        state("first", prereq=["stop", "before"]),
        state("other"),
        state("stop", "zaction.run", prereq=["work"]),
        state("work", "zaction.run"),
        state("before", "zaction.run", prereq=["last"]),
        state("last", onfail=["other"], watch=["stop"]),
    )
    async with bench.starting() as engine:
        await engine.swap(compilation(*states))
        await bench.elapse()

        assert bench.machine.log.count("run stop") == bench.machine.log.count("run work") == 1
        engine.trigger("zaction.run[work]")
        await engine.settle()
        assert bench.machine.log.count("run work") == 2
        assert engine.converged
