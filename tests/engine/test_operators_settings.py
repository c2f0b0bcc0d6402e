"""What operators and states may set, and what an operator may count on at any size."""

from __future__ import annotations

import asyncio

import pytest

from engine_bench import Bench, Machine, compilation, in_virtual_time, state
from holdfast import Permanent


@in_virtual_time
async def test_a_drift_at_the_end_of_a_chain_of_ten_thousand_looks_at_one(bench: Bench, machine: Machine) -> None:
    """What stands above it is settled, and is not asked again."""
    size = 10_000
    engine = bench.engine()
    await engine.swap(compilation(*(state(f"n{i}", **({"require": [f"n{i - 1}"]} if i else {})) for i in range(size))))
    await engine.settle()
    bench.forget()

    machine.drift(f"n{size - 1}")
    await asyncio.sleep(1)
    await engine.settle()

    assert machine.log[:3] == [f"{what} n{size - 1}" for what in ("check", "apply", "check")]
    assert {line.partition(" ")[2] for line in machine.log} == {f"n{size - 1}"}
    await engine.stop()


@in_virtual_time
async def test_poll_below_zero_looks_once(bench: Bench, machine: Machine) -> None:
    """And then only when a full check does."""
    engine = bench.engine()
    await engine.swap(compilation(state("a", meta={"poll": -1})))
    await engine.settle()
    bench.forget()
    machine.settings["a"] = "drifted"
    await asyncio.sleep(1000)
    assert machine.log == []

    engine.recheck()
    await engine.settle()

    assert machine.settings["a"] == "right"
    await engine.stop()


@in_virtual_time
async def test_one_that_does_not_want_to_rewatch_stays_failed_in_an_equal_graph(bench: Bench, machine: Machine) -> None:
    """Until it is asked for, or a full check comes."""
    engine = bench.engine()
    states = (state("a", meta={"rewatch": False}), state("b"))
    machine.broken["a"] = machine.broken["b"] = Permanent("no")
    await engine.swap(compilation(*states))
    await engine.settle()
    machine.broken.clear()

    await engine.swap(compilation(*states))
    await engine.settle()
    assert machine.settings == {"b": "right"}
    engine.recheck()
    await engine.settle()

    assert machine.settings == {"a": "right", "b": "right"}
    await engine.stop()


@in_virtual_time
async def test_converged_means_that_nothing_has_happened_for_a_while(bench: Bench, machine: Machine) -> None:
    """`converged_timeout` seconds after the last pass."""
    engine = bench.engine(converged_timeout=10)
    await engine.swap(compilation(state("a")))
    await engine.settle()
    assert not engine.converged
    await asyncio.sleep(9)
    machine.drift("a")
    await asyncio.sleep(2)
    assert not engine.converged

    await asyncio.sleep(9)

    assert engine.converged
    await engine.stop()


@pytest.mark.parametrize("end", ["waits", "triggers", "leaves"])
@in_virtual_time
async def test_what_is_only_looked_at_later_is_not_converged(bench: Bench, machine: Machine, end: str) -> None:
    """A limit holds the look off: until then nobody knows, and nobody says that all is right."""
    engine = bench.engine()
    await engine.swap(compilation(state("a", meta={"limit": 0.1, "burst": 1}), state("b")))
    await engine.settle()
    for _ in range(2):
        assert engine.converged
        machine.drift("a")
        await asyncio.sleep(1)
    assert (machine.settings["a"], engine.converged) == ("drifted", False)

    if end == "waits":
        await asyncio.sleep(10)
    elif end == "triggers":
        engine.trigger("zsetting.present[a]")
    else:
        await engine.swap(compilation(state("b")))
    await engine.settle()

    assert engine.converged
    await engine.stop()


@in_virtual_time
async def test_under_noop_a_host_converges_and_the_run_ends(bench: Bench, machine: Machine) -> None:
    """Something would be changed; nothing is left to be looked at."""
    engine = bench.engine(noop=True)
    await engine.swap(compilation(state("a"), state("b", watch=["a"])))
    record = await engine.settle()

    assert engine.converged
    assert [outcome.result for outcome in record.outcomes] == [None, None]
    assert machine.settings == {}
    await engine.stop()
