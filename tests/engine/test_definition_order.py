"""The first pass keeps definition order, except after states that fail, wait for a retry, or hang."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.schedule.definition_order import TIMEOUT
from holdfast.agent.engine.schedule.workers import LONG

TROUBLES: dict[str, tuple[dict[str, Any], float]] = {
    "fails": ({}, 0),
    "waits for its next attempt": ({"retry": {"attempts": 5, "interval": 100}}, 0),
    "waits for a retry without end": ({"retry": {"attempts": -1, "interval": 100}}, 0),
    "cannot be watched": ({}, 0),
    "hangs": ({}, TIMEOUT),
    "hangs as its watch is armed": ({}, TIMEOUT),
}
"""Trouble of the first state -> its arguments, and for how many seconds it may delay the others."""


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_slow_or_failed_state_delays_later_states_for_a_minute_at_most(
    bench: Bench, machine: Machine, trouble: str, workers: int
) -> None:
    """A state that still works delays them for a minute, and some seconds more if it has the only worker.

    Failed and waiting states do not delay them.
    """
    meta, seconds = TROUBLES[trouble]
    if trouble == "hangs":
        machine.hold("a")
    elif trouble == "hangs as its watch is armed":
        machine.hold("watch a")
    elif trouble == "cannot be watched":
        machine.unwatchable.add("a")
    else:
        machine.broken["a"] = Permanent("no")
    async with bench.starting(
        state("a", meta=meta), state("b", require=["a"]), state("c"), state("d", require=["c"]), workers=workers
    ):
        await bench.elapse(seconds - 1 if seconds else 0.1)
        assert bool(machine.settings) is not bool(seconds)
        await bench.elapse(LONG + 1.2 if seconds else 0)

        assert machine.settings == {"c": "right", "d": "right"}
        machine.free()


async def test_all_states_that_hang_delay_the_others_for_two_minutes_in_total(bench: Bench, machine: Machine) -> None:
    """With a minute for each, twenty such states would delay the last state for twenty minutes."""
    slow = [f"a{number:02}" for number in range(20)]
    for name in slow:
        machine.hold(name)
    async with bench.starting(*(state(name) for name in slow), state("z"), workers=4):
        await bench.elapse(2 * TIMEOUT + LONG * len(slow) / 4)

        assert machine.settings == {"z": "right"}
        machine.free()


async def test_a_batch_that_hangs_counts_once(bench: Bench, machine: Machine) -> None:
    """Its members have started together."""
    machine.hold("together")
    async with bench.starting(*(state(name, "zbundled.present") for name in ("a", "b", "c")), state("z")):
        await bench.elapse(TIMEOUT + 1)

        assert machine.settings == {"z": "right"}
        machine.free()


async def test_one_shot_runs_keep_definition_order_without_a_limit(bench: Bench, machine: Machine) -> None:
    """The order is that of Salt. An operator waits for the run and can end it."""
    machine.hold("a")
    engine = bench.engine(watch=False)
    await engine.swap(compilation(state("a"), state("b")), "start")
    await bench.elapse(1000)
    assert machine.settings == {}

    machine.free()
    await engine.settle()
    assert machine.settings == {"a": "right", "b": "right"}


async def test_states_that_overtook_a_slow_one_are_checked_again_when_it_ends(bench: Bench, machine: Machine) -> None:
    """They may have failed without it, or found that they are not needed. An action that has run does not run again."""
    machine.hold("slow")
    machine.broken["a"] = Permanent("there is no such command")
    async with bench.starting(state("slow"), state("a"), state("b", "zaction.run"), state("c")) as engine:
        await bench.elapse(TIMEOUT + LONG)
        assert machine.settings == {"c": "right"}
        assert machine.log.count("run b") == 1
        bench.forget()

        machine.broken.clear()
        machine.free()
        await engine.settle()
        assert machine.settings == {"slow": "right", "a": "right", "c": "right"}
        assert "check c" in machine.log
        assert "run b" not in machine.log


async def test_a_pause_does_not_count_towards_the_limit(bench: Bench, machine: Machine) -> None:
    """Definition order holds after the pause as before."""
    machine.hold("a")
    async with bench.starting(state("a"), state("b")) as engine:
        await bench.elapse(1)
        engine.pause()
        await bench.elapse(1000)
        engine.resume()
        await bench.elapse(TIMEOUT - 1)
        assert machine.settings == {}

        await bench.elapse(LONG)
        assert machine.settings == {"b": "right"}
        machine.free()
