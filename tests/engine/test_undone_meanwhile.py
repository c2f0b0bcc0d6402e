"""A resource that drifts again before the end of its repair is repaired at once; a repair without effect has failed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine_bench import Bench, compilation, ended, state
from fake_machine import Machine, Setting
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.model.events import Ran
from holdfast.resources.errors import ChangedMeanwhile


class Useless(Setting, kind="zsetting.useless"):
    """A setting whose repair touches what it watches, and has no effect."""

    async def apply(self, ctx: Any, delta: Any) -> None:
        """Change nothing relevant."""
        self.machine.log.append(f"apply {self.name}")
        self.machine.touch(self.name)
        await asyncio.sleep(0.5)


async def in_its_repair(bench: Bench, name: str) -> None:
    """Let a setting drift, and return in the middle of its repair, which `machine.free` lets go on."""
    bench.machine.hold(f"apply {name}")
    bench.machine.drift(name)
    await bench.elapse(3)


async def damaged_during_its_repair(bench: Bench, name: str, value: str = "worse") -> float:
    """Let a setting drift, and again in the middle of its repair; return the loop time of the end of that repair."""
    await in_its_repair(bench, name)
    bench.machine.drift(name, value)
    await bench.elapse(3)
    bench.machine.free(f"apply {name}")
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("value", ["drifted", "worse"])
async def test_damage_during_a_repair_is_repaired_at_once_and_nothing_has_failed(
    bench: Bench, machine: Machine, value: str
) -> None:
    """The record has both repairs as one run; states that require the resource wait, and do not fail."""
    async with bench.running(state("a"), state("b", require=["a"]), state("c", onfail=["a"])) as engine:
        bench.forget()
        freed = await damaged_during_its_repair(bench, "a", value)
        record = (await bench.until(ended("drift"))).record

        assert asyncio.get_running_loop().time() == freed
        assert (machine.settings["a"], engine.converged) == ("right", True)
        assert machine.log == ["check a", "apply a"] + ["check a"] * 3 + ["apply a", "check a"]
        (outcome,) = bench.outcomes("a")
        assert (outcome.result, outcome.attempts, outcome.cause) == (True, 2, "drift")
        assert outcome.comment == "changed value of a; it had drifted again before the end of its repair"
        assert [each.identity for each in record.outcomes] == ["zsetting.present[a]"]
        (notice,) = bench.notices("undone-meanwhile")
        assert notice.text.startswith(f"still differs after the repair: value is {value!r}, not 'right'; ")
        assert notice.text.endswith("its watch has reported an event meanwhile: repaired again at once")


async def test_a_kind_that_notices_the_other_change_is_called_again_at_once(bench: Bench, machine: Machine) -> None:
    """The first time is no failure. The second time is one, and the delay of the error holds."""
    async with bench.running(state("a")) as engine:
        for raised in (machine.broken_once, machine.broken):
            bench.forget()
            raised["a"] = ChangedMeanwhile("cannot set a: another program has changed it")
            machine.hold("a")
            machine.drift("a")
            await bench.elapse(3)
            machine.drift("a", "worse")
            await bench.elapse(3)
            machine.free("a")
            await bench.until(lambda event: isinstance(event, Ran))
            (notice,) = bench.notices("undone-meanwhile")
            assert notice.text == (
                "cannot set a: another program has changed it; its watch has reported an event meanwhile: "
                "repaired again at once"
            )
            (outcome,) = bench.outcomes("a")
            assert (outcome.result, outcome.attempts) == (raised is machine.broken_once, 2)

        machine.broken.clear()
        await bench.elapse(0.2)
        assert (machine.settings["a"], engine.converged) == ("right", True)


async def test_an_event_that_comes_a_moment_after_the_check_counts(bench: Bench, machine: Machine) -> None:
    """The watch collects events for some milliseconds before it reports them."""
    async with bench.running(state("a")):
        bench.forget()
        await in_its_repair(bench, "a")
        machine.settings["a"] = "worse"
        machine.free()
        await bench.elapse(0.05)
        machine.touch("a")
        await bench.elapse(0.1)

        assert [outcome.result for outcome in bench.outcomes("a")] == [True]
        assert machine.settings["a"] == "right"


async def test_a_repair_without_effect_fails_after_a_second_one_and_then_after_each(
    bench: Bench, machine: Machine
) -> None:
    """The error has the sentence of the kind. Only the first failure in a row has a second attempt at once."""
    async with bench.starting(state("a", "zsetting.useless")):
        await bench.until(lambda event: isinstance(event, Ran))
        assert machine.log.count("apply a") == 2
        (failed,) = bench.outcomes("a")
        assert (failed.result, failed.comment) == (False, "still differs after the repair: a does not exist")
        for repairs in (3, 4, 5):
            bench.forget()
            await bench.until(lambda event: isinstance(event, Ran))
            assert (machine.log.count("apply a"), bench.outcomes("a")[0].result) == (1, False), repairs


async def test_a_repair_without_effect_and_without_an_event_fails_at_once(bench: Bench, machine: Machine) -> None:
    """It fails after the moment that its watch has to report an event."""
    async with bench.running(state("a")):
        bench.forget()
        await in_its_repair(bench, "a")
        machine.settings["a"] = "worse"
        machine.free()
        began = asyncio.get_running_loop().time()
        await bench.until(lambda event: isinstance(event, Ran))

        assert asyncio.get_running_loop().time() - began == pytest.approx(0.1)
        (outcome,) = bench.outcomes("a")
        assert outcome.result is False
        assert outcome.comment.startswith("still differs after the repair: value is 'worse', not 'right'; ")


@pytest.mark.parametrize("pause", [0.1, 0.7, 5.0])
async def test_a_fight_during_repairs_is_told_and_slowed(bench: Bench, machine: Machine, pause: float) -> None:
    """Another program undoes each repair before its end; in the long run, one attempt a minute is made."""

    async def fight() -> None:
        while True:
            await asyncio.sleep(pause)
            machine.drift("a")

    class Slow(Setting, kind="zsetting.slow"):
        async def apply(self, ctx: Any, delta: Any) -> None:
            await super().apply(ctx, delta)
            await asyncio.sleep(1)

    async with bench.running(state("a", "zsetting.slow")):
        task = asyncio.create_task(fight())
        await bench.elapse(1800)
        bench.forget()
        await bench.elapse(3600)
        task.cancel()

        assert machine.log.count("apply a") <= 70


async def test_rate_and_flapping_limits_hold_for_the_second_repair(bench: Bench, machine: Machine) -> None:
    """The repair takes a token of the limit, and `why` has the end of the wait."""
    async with bench.running(state("a", meta={"limit": 0.1, "burst": 1})) as engine:
        bench.forget()
        await damaged_during_its_repair(bench, "a")
        await bench.elapse(1)
        row = explain(engine.view.graph.by_identity["zsetting.present[a]"], engine.view)
        assert machine.settings["a"] == "worse"
        assert row["next"][0]["what"] == "retry"
        await bench.elapse(10)
        assert machine.settings["a"] == "right"


SLOWED = {"limit": 0.1, "burst": 1}
"""The second repair waits for some seconds."""


@pytest.mark.parametrize("what", ["changed", "removed", "paused", "noop"])
async def test_before_the_second_repair_the_states_change_or_the_agent_is_paused(
    bench: Bench, machine: Machine, what: str
) -> None:
    """What is declared then holds, and nothing is left over of the first attempt."""
    async with bench.running(state("a", meta=SLOWED), state("b")) as engine:
        await damaged_during_its_repair(bench, "a")
        await bench.elapse(1)
        assert machine.settings["a"] == "worse"
        match what:
            case "changed":
                await engine.swap(compilation(state("a", value="other"), state("b")), "states changed")
            case "removed":
                await engine.swap(compilation(state("b")), "states changed")
            case "noop":
                await engine.swap(compilation(state("a", meta={"noop": True}), state("b")), "states changed")
            case "paused":
                engine.pause("operator")
        await bench.elapse(30)
        assert machine.settings["a"] == ("other" if what == "changed" else "worse")
        engine.resume("operator")
        await bench.elapse(30)
        assert machine.settings["a"] == {"changed": "other", "paused": "right"}.get(what, "worse")
        assert engine.converged == (what != "noop")


async def test_the_refresh_for_a_repair_that_was_undone_survives_a_crash(
    bench: Bench, machine: Machine, tmp_path: Path
) -> None:
    """The next agent delivers it even if the resource is as declared."""
    bench.journal_path = tmp_path / "journal.db"
    states = state("a", meta=SLOWED), state("bell", watch=["a"])
    async with bench.running(*states):
        machine.done.clear()
        await damaged_during_its_repair(bench, "a")
        await bench.elapse(1)
        assert "refresh bell" not in machine.done
    machine.settings["a"] = "right"
    async with bench.running(*states):
        assert machine.done.count("refresh bell") == 1
