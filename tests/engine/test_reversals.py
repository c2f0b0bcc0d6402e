"""Reversal: a state with `reverse: true` that is taken away leaves the machine as it found it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine_bench import Bench, Machine, compilation, in_virtual_time, state
from holdfast import Declaration, Permanent
from holdfast.agent.engine.journal import Reversal


def borrowed(identity: str, *, reverse: bool = True, **spec: Any) -> tuple:
    """A state that wants to be undone some day."""
    return state(identity, "zborrowed.present", meta={"reverse": reverse}, **spec)


@pytest.fixture
def bench(machine: Machine, tmp_path: Path) -> Bench:
    """An engine bench with a journal on disk."""
    return Bench(machine, tmp_path / "journal.db")


@in_virtual_time
async def test_what_was_changed_is_put_back_and_what_was_made_is_removed(bench: Bench, machine: Machine) -> None:
    """When the states are gone; in reverse order, and then nobody looks at it any more."""
    machine.settings["a"] = "before"
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a"), borrowed("b")))
    await engine.settle()
    assert machine.settings == {"a": "right", "b": "right"}

    await engine.swap(compilation())
    await engine.settle()

    assert machine.settings == {"a": "before"}
    assert [line for line in machine.log if line.startswith(("apply", "remove"))] == ["apply a", "apply b", "remove b", "apply a"]
    assert {notice.identity for notice in bench.notices("undone")} == {"zborrowed.present[a]", "zborrowed.present[b]"}
    assert engine.converged
    assert engine.status() == []
    bench.forget()
    machine.settings["b"] = "somebody's"
    engine.recheck()
    await engine.settle()
    assert machine.log == []
    await engine.stop()


@in_virtual_time
async def test_what_was_is_asked_once_before_the_first_change(bench: Bench, machine: Machine) -> None:
    """Not again when it drifts, when the state changes, nor after a restart."""
    machine.settings["a"] = "before"
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a")))
    await engine.settle()
    machine.drift("a")
    await engine.settle()
    await engine.swap(compilation(borrowed("a", value="other")))
    await engine.settle()
    await engine.stop()
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a", value="third")))
    await engine.settle()

    assert machine.log.count("inverse a") == 1
    await engine.swap(compilation())
    await engine.settle()
    assert machine.settings == {"a": "before"}
    await engine.stop()


@in_virtual_time
async def test_a_state_that_left_while_no_agent_ran_is_undone_at_the_start(bench: Bench, machine: Machine) -> None:
    """The journal remembers it."""
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a"), state("b")))
    await engine.settle()
    await engine.stop()

    engine = bench.engine()
    await engine.swap(compilation(state("b")), "start")
    await engine.settle()

    assert machine.settings == {"b": "right"}
    await engine.stop()


@in_virtual_time
async def test_a_first_run_that_failed_half_way_can_be_undone(bench: Bench, machine: Machine) -> None:
    """What was is written down before anything is changed."""
    machine.broken["a"] = Permanent("no")
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a")))
    await engine.settle()
    machine.broken.clear()
    machine.settings["a"] = "half"

    await engine.swap(compilation())
    await engine.settle()

    assert machine.settings == {}
    await engine.stop()


@in_virtual_time
async def test_a_noop_agent_only_says_what_it_would_put_back(bench: Bench, machine: Machine) -> None:
    """And does it when it may."""
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a")))
    await engine.settle()

    await engine.swap(compilation(), options=engine.options.model_copy(update={"noop": True}))
    await engine.settle()

    assert machine.settings == {"a": "right"}
    assert bench.outcomes("undo zborrowed.present[a]")[-1].result is None
    engine.set_options(engine.options.model_copy(update={"noop": False}))
    await engine.settle()
    assert machine.settings == {}
    await engine.stop()


@in_virtual_time
async def test_under_noop_nothing_is_remembered(bench: Bench, machine: Machine) -> None:
    """Nothing is changed that could be put back."""
    engine = bench.engine(noop=True)
    await engine.swap(compilation(borrowed("a")))
    await engine.settle()

    assert "inverse a" not in machine.log
    await engine.stop()


@pytest.mark.parametrize(("reverse", "left"), [(True, {}), (False, {"a": "right"})])
def test_another_state_for_the_same_thing_takes_it_over(bench: Bench, machine: Machine, reverse: bool, left: dict[str, str]) -> None:
    """It is not undone then, but when that one leaves, if that wants to be."""

    @in_virtual_time
    async def scenario() -> None:
        engine = bench.engine()
        await engine.swap(compilation(borrowed("first", name="a")))
        await engine.settle()
        await engine.swap(compilation(borrowed("second", name="a", reverse=reverse)))
        await engine.settle()
        assert machine.settings == {"a": "right"}
        assert bench.notices("not-undone")

        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == left
        await engine.stop()

    scenario()


@in_virtual_time
async def test_a_state_that_comes_to_manage_another_thing_gives_the_first_back(bench: Bench, machine: Machine) -> None:
    """Its ID is the same, its name is not."""
    engine = bench.engine()
    await engine.swap(compilation(borrowed("thing", name="a")))
    await engine.settle()

    await engine.swap(compilation(borrowed("thing", name="b")))
    await engine.settle()
    assert machine.settings == {"b": "right"}
    await engine.swap(compilation())
    await engine.settle()

    assert machine.settings == {}
    await engine.stop()


@in_virtual_time
async def test_a_state_that_no_more_wants_to_be_undone_is_not(bench: Bench, machine: Machine) -> None:
    """Its last word counts."""
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a")))
    await engine.swap(compilation(borrowed("a", reverse=False)))
    await engine.settle()
    await engine.swap(compilation())
    await engine.settle()

    assert machine.settings == {"a": "right"}
    await engine.stop()


@in_virtual_time
async def test_what_cannot_be_undone_now_is_tried_again(bench: Bench, machine: Machine) -> None:
    """It counts as failed until then; and a state that comes back stops it."""
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a"), borrowed("b")))
    await engine.settle()
    machine.broken["look a"] = machine.broken["look b"] = Permanent("no")
    await engine.swap(compilation())
    await engine.settle()
    assert not engine.converged

    machine.broken.clear()
    await engine.swap(compilation(borrowed("b")))
    await engine.settle()

    assert machine.settings == {"b": "right"}
    assert engine.converged
    await engine.stop()


@in_virtual_time
async def test_one_shot_runs_neither_remember_nor_undo(bench: Bench, machine: Machine) -> None:
    """They know of no graph before."""
    for states in ((borrowed("a"),), ()):
        engine = bench.engine(watch=False)
        await engine.swap(compilation(*states))
        await engine.settle()
        await engine.stop()

    assert machine.settings == {"a": "right"}
    assert "inverse a" not in machine.log


@in_virtual_time
async def test_what_cannot_be_put_into_words_is_said(bench: Bench, machine: Machine) -> None:
    """The state is applied all the same."""
    machine.settings["a"] = "odd"
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a")))
    await engine.settle()

    assert machine.settings == {"a": "right"}
    assert "cannot be put back" in bench.notices("not-reversible")[0].text
    await engine.stop()


@pytest.mark.parametrize(
    ("declaration", "why"),
    [
        (Declaration("zforgotten.present", {"name": "x"}), "there is no kind zforgotten.present any more"),
        (Declaration("zsetting.present", {"name": "x", "colour": "red"}), "colour: Extra inputs"),
    ],
)
def test_a_record_that_nobody_understands_any_more_hinders_nothing(
    bench: Bench, machine: Machine, declaration: Declaration, why: str
) -> None:
    """It is said, and the states are applied."""

    @in_virtual_time
    async def scenario() -> None:
        engine = bench.engine()
        bench.journal.remember(Reversal("zold.present[x]", "x", declaration))
        await engine.swap(compilation(state("a")))
        await engine.settle()
        assert machine.settings == {"a": "right"}
        assert why in bench.notices("not-reversible")[0].text
        await engine.stop()

    scenario()


@in_virtual_time
async def test_what_is_undone_cannot_be_triggered(bench: Bench, machine: Machine) -> None:
    """There is nothing left that could run."""
    engine = bench.engine()
    await engine.swap(compilation(borrowed("a")))
    await engine.settle()
    await engine.swap(compilation())
    await engine.settle()

    with pytest.raises(KeyError):
        engine.trigger("zgone.absent[undo zborrowed.present[a]]")
    await engine.stop()


@in_virtual_time
async def test_a_state_that_leaves_before_it_is_put_right_changes_nothing_any_more(bench: Bench) -> None:
    """It would change what nobody undoes: those that follow have looked already for what is to be undone."""
    machine = bench.machine
    machine.settings["a"] = "theirs"
    engine = bench.engine()
    machine.hold("inverse a")
    await engine.swap(compilation(borrowed("a")), "start")
    await asyncio.sleep(1)
    await engine.swap(compilation())
    machine.free()
    await asyncio.sleep(10)

    assert machine.settings == {"a": "theirs"}
    assert not bench.journal.reversals
    await engine.stop()
