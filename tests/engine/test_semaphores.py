"""Semaphores: how many of those that name one run at once, on top of what the graph and the workers allow."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from engine_bench import Bench, Machine, compilation, in_virtual_time, state
from holdfast.agent.engine.model.events import Ran
from holdfast.resources.meta import Meta


def limited(*names: str, sema: object) -> tuple:
    """States that name the semaphore, in order."""
    return tuple(state(name, meta={"sema": sema, "parallel": True}) for name in names)


@in_virtual_time
async def _most(bench: Bench, machine: Machine, states: tuple, expected: int) -> None:
    engine = bench.engine(workers=10, watch=False)
    for name, *_ in states:
        machine.hold(name)
    await engine.swap(compilation(*states))
    for name, *_ in states:
        await _let_run()
        assert machine.now <= expected
        machine.free(name)
    await engine.settle()
    assert machine.most == expected
    assert machine.settings == {name: "right" for name, *_ in states}
    await engine.stop()


async def _let_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("sema", "expected"), [("disk", 1), ("disk:2", 2), (["disk:3", "net:2"], 2), ([], 5)])
def test_so_many_run_at_once_as_the_semaphore_has_places(
    bench: Bench, machine: Machine, sema: object, expected: int
) -> None:
    """One without a number; the least of several."""
    _most(bench, machine, limited("a", "b", "c", "d", "e", sema=sema), expected)


@in_virtual_time
async def test_one_that_waits_does_not_hold_back_others(bench: Bench, machine: Machine) -> None:
    """After the first pass whoever needs no place goes on."""
    engine = bench.engine(workers=4)
    await engine.swap(compilation(*limited("a", "b", sema="disk"), state("c", meta={"parallel": True})))
    await engine.settle()
    bench.forget()
    machine.hold("a")

    machine.drift("a")
    await _let_run()
    machine.drift("b")
    machine.drift("c")
    await bench.until(lambda event: isinstance(event, Ran) and event.outcome.identity == "zsetting.present[c]")
    assert "check b" not in machine.log
    machine.free("a")
    await engine.settle()

    assert machine.settings == dict.fromkeys("abc", "right")
    await engine.stop()


@in_virtual_time
async def test_a_place_is_given_back_by_a_run_that_was_cancelled(bench: Bench, machine: Machine) -> None:
    """A swap, or whatever else ends a run."""
    engine = bench.engine(workers=4, stop_timeout=1)
    machine.hold("a")
    await engine.swap(compilation(*limited("a", "b", sema="disk")))
    await _let_run()

    await engine.swap(compilation(*limited("b", sema="disk")))
    await engine.settle()

    assert machine.settings == {"b": "right"}
    await engine.stop()


@in_virtual_time
async def test_a_run_that_waits_for_a_place_can_be_stopped(bench: Bench, machine: Machine) -> None:
    """It has not begun: there is nothing to wait for."""
    engine = bench.engine(workers=4, stop_timeout=1)
    machine.hold("a")
    await engine.swap(compilation(*limited("a", "b", sema="disk")))
    await _let_run()

    await engine.stop()

    assert machine.log == ["check a"]


@pytest.mark.parametrize("name", ["4", "4:2", "", "a:0", "a:b", "a b", ":2", 4])
def test_what_is_no_semaphore_is_refused(name: object) -> None:
    """A number alone would look like a limit, which it is not."""
    with pytest.raises(ValidationError, match="not a semaphore"):
        Meta(sema=[name])


@in_virtual_time
async def test_members_of_a_batch_take_one_place_together(bench: Bench, machine: Machine) -> None:
    """They are one run; whoever else names the semaphore waits until the last of them has ended."""
    meta = {"sema": ["disk"]}
    engine = bench.engine(workers=4, ordering="requisites")
    machine.hold("together")
    await engine.swap(
        compilation(*(state(name, "zbundled.present", meta=meta) for name in "abc"), state("other", meta=meta))
    )
    await _let_run()
    assert machine.log.count("together a b c") == 1
    assert "check other" not in machine.log

    machine.free("together")
    await engine.settle()
    assert machine.settings == dict.fromkeys(("a", "b", "c", "other"), "right")
    for name in ("a", "other", "c"):
        machine.drift(name)
    await _let_run()
    await engine.settle()
    assert machine.log.count("together a c") == 1
    assert machine.settings == dict.fromkeys(("a", "b", "c", "other"), "right")
    await engine.stop()
