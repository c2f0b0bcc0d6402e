"""Grouping: resources of one group that may run at the same time change the machine in one go, each with a result of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent, Temporary
from holdfast.agent.engine.model.events import Ran


def bundled(name: str, **spec: Any) -> tuple:
    """A state of that kind."""
    return state(name, "zbundled.present", **spec)


def applied(machine: Machine) -> list[str]:
    """What was done to the machine."""
    return [line for line in machine.log if not line.startswith("check")]


async def converge(bench: Bench, *states: tuple, **options: Any) -> None:
    """One run."""
    async with bench.starting(*states, watch=False, **options) as engine:
        await engine.settle()


async def test_those_that_follow_each_other_are_one_batch(bench: Bench, machine: Machine) -> None:
    """Each with its own look, before and after, and its own changes."""
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["together a b c"]
    assert [outcome.changes for name in "abc" for outcome in bench.outcomes(name)] == [
        {"value": {"old": None, "new": "right"}, "bundle": {"old": None, "new": "one"}}
    ] * 3


async def test_one_that_is_right_already_takes_no_part(bench: Bench, machine: Machine) -> None:
    """And the others do not wait for it."""
    machine.settings["b"] = "right"
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["together a c"]
    assert bench.outcomes("b")[0].changes == {}


async def test_one_alone_is_put_right_as_ever(bench: Bench, machine: Machine) -> None:
    """A batch of one is none."""
    machine.settings |= {"a": "right", "c": "right"}
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["apply b"]


async def test_definition_order_stands_between_groups(bench: Bench, machine: Machine) -> None:
    """What comes later than a state of another kind is done after it, as its author read it."""
    await converge(bench, bundled("a"), bundled("b"), state("x"), bundled("c"), bundled("d"), workers=4)

    assert applied(machine) == ["together a b", "apply x", "together c d"]


async def test_aggregate_brings_those_forward_that_nothing_holds_back(bench: Bench, machine: Machine) -> None:
    """As in Salt; a requisite still holds."""
    meta = {"aggregate": True}
    await converge(
        bench,
        bundled("a", meta=meta),
        state("x"),
        bundled("b", meta=meta),
        bundled("c", meta=meta, require=["x"]),
        bundled("d", meta=meta),
    )

    assert applied(machine) == ["together a b d", "apply x", "apply c"]


@pytest.mark.parametrize("meta", [{"autogroup": False}, {"aggregate": False}])
async def test_a_state_can_stay_alone(bench: Bench, machine: Machine, meta: dict[str, Any]) -> None:
    """When it says so."""
    await converge(bench, bundled("a"), bundled("b", meta=meta), bundled("c"))
    assert applied(machine) == ["apply a", "apply b", "apply c"]


async def test_a_path_between_two_keeps_them_apart(bench: Bench, machine: Machine) -> None:
    """The one must be settled before the other starts."""
    await converge(bench, bundled("a"), bundled("b", require=["a"]), bundled("c"), ordering="requisites", workers=4)

    assert applied(machine) == ["together a c", "apply b"]


async def test_only_those_with_an_equal_key_are_together(bench: Bench, machine: Machine) -> None:
    """And one without a key is alone."""
    await converge(
        bench,
        bundled("a"),
        bundled("b", bundle="two"),
        bundled("c"),
        bundled("d", bundle=""),
        ordering="requisites",
        workers=4,
    )

    assert sorted(applied(machine)) == ["apply b", "apply d", "together a c"]


async def test_what_cannot_be_done_together_is_done_one_by_one(bench: Bench, machine: Machine) -> None:
    """The one that is broken fails alone."""
    machine.broken["b"] = Permanent("no")
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["together a b c", "apply a", "apply b", "apply c"]
    assert [bench.outcomes(name)[0].result for name in "abc"] == [True, False, True]
    assert bench.outcomes("b")[0].comment == "no"


async def test_a_kind_that_loses_a_member_fails_all_and_hangs_none(bench: Bench, machine: Machine) -> None:
    """Its mistake is said."""
    await converge(bench, bundled("a"), bundled("forgetful"))

    assert [bench.outcomes(name)[0].result for name in ("a", "forgetful")] == [False, False]
    assert "internal error in zbundled.present" in bench.outcomes("a")[0].comment


async def test_what_is_only_hindered_for_now_is_so_for_all(bench: Bench, machine: Machine) -> None:
    """One by one they would wait for the same lock again and again."""
    machine.broken["b"] = Temporary("the lock is held")
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["together a b c"]
    assert [bench.outcomes(name)[0].comment for name in "abc"] == ["the lock is held"] * 3


async def test_a_second_attempt_waits_for_nobody(bench: Bench, machine: Machine) -> None:
    """It has left the batch, which goes on without it."""
    machine.broken["look a"] = Temporary("busy")
    async with bench.starting(
        bundled("a", meta={"retry": {"attempts": 3, "interval": 10}}), bundled("b"), bundled("c"), watch=False
    ) as engine:
        await bench.until(lambda event: isinstance(event, Ran) and event.outcome.identity.endswith("[c]"))
        machine.broken.clear()
        await engine.settle()

        assert applied(machine) == ["together b c", "apply a"]


async def test_a_member_that_is_cancelled_leaves_the_others_to_it(bench: Bench, machine: Machine) -> None:
    """The work goes on for those that remain when a swap takes one away."""
    machine.hold("x")
    machine.hold("together")
    async with bench.starting(state("x"), *map(bundled, "abc"), stop_timeout=1) as engine:
        await bench.elapse(1)
        machine.free("x")
        await bench.elapse(1)
        await engine.swap(compilation(state("x"), *map(bundled, "bc")))
        await bench.elapse(5)
        machine.free("together")
        await engine.settle()

        assert applied(machine) == ["apply x", "together a b c"]
        assert bench.outcomes("a") == []
        assert [bench.outcomes(name)[0].result for name in "bc"] == [True, True]


async def test_one_with_a_deadline_of_its_own_waits_for_nobody(bench: Bench, machine: Machine) -> None:
    """The slow look of another would use it up."""
    machine.hold("b")
    async with bench.starting(bundled("a", meta={"timeout": 5}), bundled("b"), bundled("c"), watch=False) as engine:
        await bench.elapse(10)
        machine.free()
        await engine.settle()

        assert applied(machine) == ["apply a", "together b c"]
        assert [bench.outcomes(name)[0].result for name in "abc"] == [True, True, True]


async def test_work_that_nobody_waits_for_any_more_is_ended(bench: Bench, machine: Machine) -> None:
    """When all its members were cancelled; nothing of it is left behind."""
    machine.hold("together")
    async with bench.starting(*map(bundled, "abc"), watch=False, stop_timeout=1):
        while "together a b c" not in machine.log:
            await asyncio.sleep(0)

    assert machine.settings == {}
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "batch"] == []


async def test_the_first_pass_of_the_daemon_is_one_batch_too(bench: Bench, machine: Machine) -> None:
    """None starts before those that are armed in the same moment."""
    async with bench.running(*map(bundled, "abc"), workers=1):
        assert applied(machine) == ["together a b c"]


async def test_a_storm_of_drift_is_repaired_in_one_go(bench: Bench, machine: Machine) -> None:
    """In the daemon too: those that are dirty at the same time."""
    async with bench.running(state("x"), *map(bundled, "abc"), workers=1) as engine:
        bench.forget()
        machine.hold("x")

        machine.drift("x")
        await bench.elapse(1)
        for name in "cab":
            machine.drift(name)
        await bench.elapse(1)
        machine.free("x")
        await engine.settle()

        assert applied(machine) == ["apply x", "together a b c"]
        assert machine.settings == dict.fromkeys("xabc", "right")
