"""Resources of one group that may run together change the machine at once; each has its own result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent, Temporary
from holdfast.agent.engine.model.events import Ran


def bundled(name: str, **spec: Any) -> tuple:
    """Declare a state of this kind."""
    return state(name, "zbundled.present", **spec)


def applied(machine: Machine) -> list[str]:
    """Return the changes of the machine."""
    return [line for line in machine.log if not line.startswith("check")]


async def converge(bench: Bench, *states: tuple, **options: Any) -> None:
    """Run the states once."""
    async with bench.starting(*states, watch=False, **options) as engine:
        await engine.settle()


async def test_consecutive_states_of_a_group_are_one_batch(bench: Bench, machine: Machine) -> None:
    """Each is checked before and after, and reports its own changes."""
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["together a b c"]
    assert [outcome.changes for name in "abc" for outcome in bench.outcomes(name)] == [
        {"value": {"old": None, "new": "right"}, "bundle": {"old": None, "new": "one"}}
    ] * 3


async def test_a_member_that_is_as_declared_leaves_the_batch(bench: Bench, machine: Machine) -> None:
    """The others do not wait for it."""
    machine.settings["b"] = "right"
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["together a c"]
    assert bench.outcomes("b")[0].changes == {}


async def test_a_single_member_is_repaired_without_a_batch(bench: Bench, machine: Machine) -> None:
    """A batch needs two members."""
    machine.settings |= {"a": "right", "c": "right"}
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["apply b"]


async def test_definition_order_separates_batches(bench: Bench, machine: Machine) -> None:
    """A state after one of another kind runs after it."""
    await converge(bench, bundled("a"), bundled("b"), state("x"), bundled("c"), bundled("d"), workers=4)

    assert applied(machine) == ["together a b", "apply x", "together c d"]


async def test_aggregate_moves_states_forward_that_wait_for_nothing(bench: Bench, machine: Machine) -> None:
    """Salt does the same. Requisites still hold."""
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
async def test_a_state_can_refuse_batches(bench: Bench, machine: Machine, meta: dict[str, Any]) -> None:
    """An argument of the state refuses them."""
    await converge(bench, bundled("a"), bundled("b", meta=meta), bundled("c"))
    assert applied(machine) == ["apply a", "apply b", "apply c"]


async def test_two_states_with_a_path_between_them_share_no_batch(bench: Bench, machine: Machine) -> None:
    """The second must not start before the first is settled."""
    await converge(bench, bundled("a"), bundled("b", require=["a"]), bundled("c"), ordering="requisites", workers=4)

    assert applied(machine) == ["together a c", "apply b"]


async def test_only_states_with_the_same_key_share_a_batch(bench: Bench, machine: Machine) -> None:
    """A state without a key runs alone."""
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


async def test_members_of_a_failed_batch_run_one_by_one(bench: Bench, machine: Machine) -> None:
    """Only the broken one fails."""
    machine.broken["b"] = Permanent("no")
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["together a b c", "apply a", "apply b", "apply c"]
    assert [bench.outcomes(name)[0].result for name in "abc"] == [True, False, True]
    assert bench.outcomes("b")[0].comment == "no"


async def test_a_kind_that_returns_too_few_results_fails_all_members(bench: Bench, machine: Machine) -> None:
    """The error names the mistake, and no member hangs."""
    await converge(bench, bundled("a"), bundled("forgetful"))

    assert [bench.outcomes(name)[0].result for name in ("a", "forgetful")] == [False, False]
    assert "internal error in zbundled.present" in bench.outcomes("a")[0].comment


async def test_a_temporary_failure_of_a_batch_is_one_of_all_members(bench: Bench, machine: Machine) -> None:
    """One by one, they would wait for the same lock again and again."""
    machine.broken["b"] = Temporary("the lock is held")
    await converge(bench, *map(bundled, "abc"))

    assert applied(machine) == ["together a b c"]
    assert [bench.outcomes(name)[0].comment for name in "abc"] == ["the lock is held"] * 3


async def test_a_second_attempt_runs_outside_the_batch(bench: Bench, machine: Machine) -> None:
    """The batch continues without this member."""
    machine.broken["look a"] = Temporary("busy")
    async with bench.starting(
        bundled("a", meta={"retry": {"attempts": 3, "interval": 10}}), bundled("b"), bundled("c"), watch=False
    ) as engine:
        await bench.until(lambda event: isinstance(event, Ran) and event.outcome.identity.endswith("[c]"))
        machine.broken.clear()
        await engine.settle()

        assert applied(machine) == ["together b c", "apply a"]


async def test_a_batch_continues_for_the_others_when_a_member_is_cancelled(bench: Bench, machine: Machine) -> None:
    """A swap removes one member during the work."""
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


async def test_a_member_with_a_timeout_does_not_wait_for_the_batch(bench: Bench, machine: Machine) -> None:
    """A slow check of another member would use up its time."""
    machine.hold("b")
    async with bench.starting(bundled("a", meta={"timeout": 5}), bundled("b"), bundled("c"), watch=False) as engine:
        await bench.elapse(10)
        machine.free()
        await engine.settle()

        assert applied(machine) == ["apply a", "together b c"]
        assert [bench.outcomes(name)[0].result for name in "abc"] == [True, True, True]


async def test_the_work_ends_when_all_members_are_cancelled(bench: Bench, machine: Machine) -> None:
    """No task is left."""
    machine.hold("together")
    async with bench.starting(*map(bundled, "abc"), watch=False, stop_timeout=1):
        while "together a b c" not in machine.log:
            await asyncio.sleep(0)

    assert machine.settings == {}
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "batch"] == []


async def test_the_first_pass_of_an_agent_is_one_batch(bench: Bench, machine: Machine) -> None:
    """No member starts before those that are armed at the same moment."""
    async with bench.running(*map(bundled, "abc"), workers=1):
        assert applied(machine) == ["together a b c"]


async def test_simultaneous_drift_is_repaired_in_one_batch(bench: Bench, machine: Machine) -> None:
    """The same holds for the agent."""
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
