"""What has a prereq is looked at first, its prereq runs, then it is changed: whatever happens meanwhile."""

from __future__ import annotations

import sys

from engine_bench import Bench, compilation, state
from holdfast import Permanent, Temporary


async def test_an_old_look_at_the_target_is_not_trusted(bench: Bench) -> None:
    """Its prereq looked at it alone, and all was well; then it drifts."""
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


async def test_what_did_not_run_because_of_a_prereq_that_leaves_runs_then(bench: Bench) -> None:
    """The target itself is declared as before; nobody is left who could let it go."""
    machine = bench.machine
    machine.broken["owner"] = Permanent("no")
    async with bench.starting(state("owner", prereq=["target"]), state("target")) as engine:
        await bench.elapse(1)
        assert "target" not in machine.settings

        await engine.swap(compilation(state("target")))
        await engine.settle()
        assert machine.settings == {"target": "right"}
        assert engine.converged


async def test_a_drift_during_the_look_is_seen(bench: Bench) -> None:
    """A look that was overtaken by an event is done again before its prereq is spared."""
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


async def test_a_drift_that_only_the_look_has_found_is_repaired(bench: Bench) -> None:
    """The target's own watch said nothing; its prereq was triggered, and ran because the target would change."""
    machine = bench.machine
    machine.settings.update(target="right")
    async with bench.running(state("owner", "zaction.run", prereq=["target"]), state("target"), workers=2) as engine:
        bench.forget()
        machine.settings["target"] = "drifted"
        engine.trigger("zaction.run[owner]")
        await bench.elapse(10)

        assert machine.settings["target"] == "right"
        assert machine.log.count("run owner") == 1


async def test_events_of_the_target_while_it_is_changed_do_not_run_its_prereq_again(bench: Bench) -> None:
    """They are its own doing, or looked at when its run has ended."""
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


async def test_the_look_waits_for_what_the_target_waits_for(bench: Bench) -> None:
    """On a recheck too: what the target watches is put right first, so the look sees the refresh to come."""
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


async def test_a_prereq_that_recovers_runs_once_more_and_no_more(bench: Bench) -> None:
    """It failed for now, the target was withheld; the retry succeeds, and the target follows."""
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


async def test_a_target_whose_prereq_is_mended_by_new_states_is_put_right(bench: Bench) -> None:
    """The new prereq works, which the old one did not."""
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


async def test_a_look_that_failed_for_now_is_tried_again(bench: Bench) -> None:
    """Neither ran: the prereq because of the look, the target because of its prereq; both do in the end."""
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


async def test_a_target_that_needs_its_prereq_is_not_spared_because_of_an_old_failure(bench: Bench) -> None:
    """The one failed because of the other and the other because of the one: a chain of blame that must end when its cause does."""
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


async def test_two_prereqs_of_one_target_share_a_look_and_never_disturb_its_run(bench: Bench) -> None:
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
    """A chain longer than the interpreter's stack is deep."""
    machine, size = bench.machine, sys.getrecursionlimit() + 200
    chain = [state(f"n{i}", **({"prereq": [f"n{i + 1}"]} if i < size - 1 else {})) for i in range(size)]
    async with bench.running(*chain, workers=2) as engine:
        bench.forget()
        machine.drift(f"n{size - 1}")
        await bench.elapse(10)

        assert machine.settings[f"n{size - 1}"] == "right"
        assert engine.converged


async def test_a_target_that_noop_leaves_wrong_is_not_found_again_and_again(bench: Bench) -> None:
    """What it would change wakes another target of the same prereq: so the prereq looks again, and finds nothing new."""
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


async def test_an_action_runs_once_as_the_prereq_of_one_whose_turn_has_not_come(bench: Bench) -> None:
    """It is itself looked at for the sake of another, which its own change wakes: that is no reason to run again."""
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
