"""Reversal: a state with `reverse: true` that is taken away leaves the machine as it found it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Borrowed, Machine
from holdfast import Context, Declaration, Permanent, Temporary
from holdfast.agent.engine.deliver.tables import Reversal
from power import DurableBench


class Linked(Borrowed, kind="zlinked.present"):
    """A setting that is really another one."""

    async def inverse(self, ctx: Context) -> Declaration:
        """Of that other one."""
        return Declaration(
            "zsetting.present", {"name": self.name.upper(), "value": self.machine.settings[self.name.upper()]}
        )

    async def apply(self, ctx: Any, delta: Any) -> None:
        """Change both, after a while."""
        await self.machine.gate("slow")
        await super().apply(ctx, delta)
        self.machine.settings[self.name.upper()] = self.value


def borrowed(
    identity: str, *, reverse: bool = True, kind: str = "zborrowed.present", retry: Any = None, **spec: Any
) -> tuple:
    """A state that wants to be undone some day."""
    return state(identity, kind, meta={"reverse": reverse, "retry": retry}, **spec)


@pytest.fixture
def bench(machine: Machine, tmp_path: Path) -> Bench:
    """An engine bench with a journal on disk."""
    return Bench(machine, tmp_path / "journal.db")


async def test_what_was_changed_is_put_back_and_what_was_made_is_removed(bench: Bench, machine: Machine) -> None:
    """When the states are gone; in reverse order, and then nobody looks at it any more."""
    machine.settings["a"] = "before"
    async with bench.running(borrowed("a"), borrowed("b")) as engine:
        assert machine.settings == {"a": "right", "b": "right"}

        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == {"a": "before"}
        assert [line for line in machine.log if line.startswith(("apply", "remove"))] == [
            "apply a",
            "apply b",
            "remove b",
            "apply a",
        ]
        assert {notice.identity for notice in bench.notices("undone")} == {
            "zborrowed.present[a]",
            "zborrowed.present[b]",
        }
        assert engine.converged
        assert engine.status() == []
        bench.forget()
        machine.settings["b"] = "somebody's"
        engine.recheck()
        await engine.settle()
        assert machine.log == []


async def test_what_was_is_asked_once_before_the_first_change(bench: Bench, machine: Machine) -> None:
    """Not again when it drifts, when the state changes, nor after a restart."""
    machine.settings["a"] = "before"
    async with bench.running(borrowed("a")) as engine:
        machine.drift("a")
        await engine.settle()
        await engine.swap(compilation(borrowed("a", value="other")))
        await engine.settle()
    async with bench.running(borrowed("a", value="third")) as engine:
        assert machine.log.count("inverse a") == 1
        await engine.swap(compilation())
        await engine.settle()
        assert machine.settings == {"a": "before"}


async def test_a_state_that_left_while_no_agent_ran_is_undone_at_the_start(bench: Bench, machine: Machine) -> None:
    """The journal remembers it."""
    async with bench.starting(borrowed("a"), state("b")) as engine:
        await engine.settle()

    async with bench.running(state("b")):
        assert machine.settings == {"b": "right"}


async def test_a_first_run_that_failed_half_way_can_be_undone(bench: Bench, machine: Machine) -> None:
    """What was is written down before anything is changed."""
    machine.broken["a"] = Permanent("no")
    async with bench.running(borrowed("a")) as engine:
        machine.broken.clear()
        machine.settings["a"] = "half"

        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == {}


async def test_a_noop_agent_only_says_what_it_would_put_back(bench: Bench, machine: Machine) -> None:
    """And does it when it may."""
    async with bench.running(borrowed("a")) as engine:
        await engine.swap(compilation(), options=engine.options.model_copy(update={"noop": True}))
        await engine.settle()

        assert machine.settings == {"a": "right"}
        assert bench.outcomes("undo zborrowed.present[a]")[-1].result is None
        engine.set_options(engine.options.model_copy(update={"noop": False}))
        await engine.settle()
        assert machine.settings == {}


async def test_under_noop_nothing_is_remembered(bench: Bench, machine: Machine) -> None:
    """Nothing is changed that could be put back."""
    async with bench.running(borrowed("a"), noop=True):
        assert "inverse a" not in machine.log


@pytest.mark.parametrize(("reverse", "left"), [(True, {}), (False, {"a": "right"})])
async def test_another_state_for_the_same_thing_takes_it_over(
    bench: Bench, machine: Machine, reverse: bool, left: dict[str, str]
) -> None:
    """It is not undone then, but when that one leaves, if that wants to be."""
    async with bench.running(borrowed("first", name="a")) as engine:
        await engine.swap(compilation(borrowed("second", name="a", reverse=reverse)))
        await engine.settle()
        assert machine.settings == {"a": "right"}
        assert bench.notices("not-undone")

        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == left


async def test_a_state_that_comes_to_manage_another_thing_gives_the_first_back(bench: Bench, machine: Machine) -> None:
    """Its ID is the same, its name is not."""
    async with bench.running(borrowed("thing", name="a")) as engine:
        await engine.swap(compilation(borrowed("thing", name="b")))
        await engine.settle()
        assert machine.settings == {"b": "right"}
        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == {}


async def test_a_state_that_no_more_wants_to_be_undone_is_not(bench: Bench, machine: Machine) -> None:
    """Its last word counts."""
    async with bench.starting(borrowed("a")) as engine:
        await engine.swap(compilation(borrowed("a", reverse=False)))
        await engine.settle()
        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == {"a": "right"}


async def test_what_cannot_be_undone_now_is_tried_again(bench: Bench, machine: Machine) -> None:
    """It counts as failed until then; and a state that comes back stops it."""
    async with bench.running(borrowed("a"), borrowed("b")) as engine:
        machine.broken["look a"] = machine.broken["look b"] = Permanent("no")
        await engine.swap(compilation())
        await engine.settle()
        assert not engine.converged

        machine.broken.clear()
        await engine.swap(compilation(borrowed("b")))
        await engine.settle()

        assert machine.settings == {"b": "right"}
        assert engine.converged


async def test_one_shot_runs_neither_remember_nor_undo(bench: Bench, machine: Machine) -> None:
    """They know of no graph before."""
    for states in ((borrowed("a"),), ()):
        async with bench.starting(*states, watch=False) as engine:
            await engine.settle()

    assert machine.settings == {"a": "right"}
    assert "inverse a" not in machine.log


async def test_what_cannot_be_put_into_words_is_said(bench: Bench, machine: Machine) -> None:
    """The state is applied all the same."""
    machine.settings["a"] = "odd"
    async with bench.running(borrowed("a")):
        assert machine.settings == {"a": "right"}
        assert "cannot be restored" in bench.notices("not-reversible")[0].text


@pytest.mark.parametrize(
    ("declaration", "why"),
    [
        (Declaration("zforgotten.present", {"name": "x"}), "there is no longer a kind zforgotten.present"),
        (Declaration("zsetting.present", {"name": "x", "colour": "red"}), "colour: Extra inputs"),
    ],
)
async def test_a_record_that_nobody_understands_any_more_hinders_nothing(
    bench: Bench, machine: Machine, declaration: Declaration, why: str
) -> None:
    """It is said, and the states are applied."""
    journal = bench.open_journal()
    journal.remember(Reversal("zold.present[x]", "x", declaration))
    journal.close()
    async with bench.running(state("a")):
        assert machine.settings == {"a": "right"}
        assert why in bench.notices("not-reversible")[0].text


async def test_what_is_undone_cannot_be_triggered(bench: Bench, machine: Machine) -> None:
    """There is nothing left that could run."""
    async with bench.running(borrowed("a")) as engine:
        await engine.swap(compilation())
        await engine.settle()

        with pytest.raises(KeyError):
            engine.trigger("zgone.absent[undo zborrowed.present[a]]")


async def test_a_state_that_leaves_before_it_is_put_right_changes_nothing_any_more(bench: Bench) -> None:
    """It would change what nobody undoes: those that follow have looked already for what is to be undone."""
    machine = bench.machine
    machine.settings["a"] = "theirs"
    machine.hold("inverse a")
    async with bench.starting(borrowed("a")) as engine:
        await bench.elapse(1)
        await engine.swap(compilation())
        machine.free()
        await bench.elapse(10)

        assert machine.settings == {"a": "theirs"}
        assert not bench.journal.reversals


async def test_a_second_attempt_does_not_take_its_own_half_for_what_was_before(bench: Bench, machine: Machine) -> None:
    """What was is asked before the first."""
    machine.settings["a"] = "before"
    machine.broken["a"] = Temporary("no")
    async with bench.starting(borrowed("a", retry={"attempts": 3, "interval": 10})) as engine:
        await bench.elapse(5)
        machine.settings["a"] = "half"
        machine.broken.clear()
        await engine.settle()
        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == {"a": "before"}


async def test_what_could_not_be_put_into_words_is_said_once_and_never_undone(bench: Bench, machine: Machine) -> None:
    """Not even after a restart is what the state has made of it taken for what was before."""
    machine.settings["a"] = "odd"
    for value in ("one", "two"):
        async with bench.running(borrowed("a", value=value)) as engine:
            engine.recheck()
            await engine.settle()
    assert len(bench.notices("not-reversible")) == 1

    async with bench.running():
        assert machine.settings == {"a": "two"}
        assert not bench.notices("undone")
        assert not bench.journal.reversals


async def test_one_state_may_have_to_give_back_several_things(bench: Bench, machine: Machine) -> None:
    """What it managed before could not be undone yet when it was taken away."""
    async with bench.running(borrowed("thing", name="a")) as engine:
        machine.broken["look a"] = Permanent("no")
        await engine.swap(compilation(borrowed("thing", name="b")))
        await engine.settle()
        machine.broken["look b"] = Permanent("no")
        for states in ((), (state("c"),)):
            await engine.swap(compilation(*states))
            await engine.settle()
        assert len(engine.status()) == 3
        machine.broken.clear()
        engine.recheck()
        await engine.settle()

        assert machine.settings == {"c": "right"}
        assert not bench.journal.reversals


async def test_after_a_restart_too_what_came_last_is_undone_first(bench: Bench, machine: Machine) -> None:
    """Whatever the names."""
    async with bench.starting(borrowed("b"), borrowed("c"), borrowed("a")) as engine:
        await engine.settle()
    bench.forget()
    async with bench.running():
        assert [line for line in machine.log if line.startswith("remove")] == ["remove a", "remove c", "remove b"]


async def test_without_its_copy_nothing_can_be_undone_and_that_is_said_once(
    bench: Bench, machine: Machine, tmp_path: Path
) -> None:
    """It would fail for ever."""
    gone = tmp_path / "gone"
    engine = bench.engine()
    bench.journal.remember(Reversal("zold.present[x]", "x", Declaration("zsetting.present", {"name": "x"}, str(gone))))
    for _ in range(2):
        await engine.swap(compilation(state("a")))
        await engine.settle()

    assert machine.settings == {"a": "right"}
    assert [notice.text for notice in bench.notices("not-reversible")] == [
        f"cannot be undone: {gone}, the copy of the previous state, is missing"
    ]
    assert engine.converged
    await engine.stop()


async def test_what_is_undone_is_not_undone_again_when_the_power_fails(machine: Machine, tmp_path: Path) -> None:
    """It may be somebody's by then. Its copy goes only when that is on the disk."""
    lasting = DurableBench(machine, tmp_path / "journal")
    copy = tmp_path / "copy"
    copy.touch()
    journal = lasting.open_journal()
    journal.remember(Reversal("zold.present[x]", "x", Declaration("zsetting.present", {"name": "x"}, str(copy))))
    await journal.secure()
    journal.close()
    lasting.disk.slow = asyncio.Event()
    async with lasting.starting() as engine:
        await lasting.elapse(1)
        assert machine.settings == {"x": "right"}
        assert copy.exists()
        lasting.disk.slow.set()
        await engine.settle()
        await lasting.elapse(1)
        assert not copy.exists()

        machine.settings["x"] = "theirs"
        lasting.cut_power()
        async with lasting.running():
            assert machine.settings == {"x": "theirs"}


async def test_what_cannot_be_kept_on_the_disk_is_not_changed_at_the_next_attempt_either(
    machine: Machine, tmp_path: Path
) -> None:
    """However often it is tried."""
    lasting = DurableBench(machine, tmp_path / "journal")
    machine.settings["a"] = "theirs"
    lasting.disk.error = OSError(5, "Input/output error")
    async with lasting.starting(borrowed("a")):
        await lasting.elapse(600)
        assert machine.settings == {"a": "theirs"}
        lasting.disk.error = None
        await lasting.elapse(100)

        assert machine.settings == {"a": "right"}


async def test_a_run_of_one_that_has_left_is_over_before_it_is_undone(bench: Bench, machine: Machine) -> None:
    """Though what is undone is another thing than what it is called by, as where a link leads."""
    machine.settings["A"] = "theirs"
    machine.hold("slow")
    async with bench.starting(borrowed("a", kind="zlinked.present"), stop_timeout=60) as engine:
        await bench.elapse(1)
        await engine.swap(compilation())
        await bench.elapse(1)
        machine.free("slow")
        await bench.elapse(1)

        assert machine.settings["A"] == "theirs"


async def test_whatever_the_order_of_others_what_is_undone_is_undone_one_after_the_other(
    bench: Bench, machine: Machine
) -> None:
    """A directory cannot go before what is in it."""
    async with bench.running(borrowed("a"), borrowed("b"), ordering="requisites", workers=4) as engine:
        bench.forget()
        machine.hold("look b")
        await engine.swap(compilation(state("c")))
        await bench.elapse(1)
        assert "remove a" not in machine.log
        machine.free()
        await engine.settle()

        assert [line for line in machine.log if line.startswith(("apply", "remove"))] == [
            "apply c",
            "remove b",
            "remove a",
        ]


async def test_what_is_kept_anew_waits_for_the_end_of_what_was_kept_before(machine: Machine, tmp_path: Path) -> None:
    """Or the new copy would be removed in place of the old one."""
    lasting = DurableBench(machine, tmp_path / "journal")
    async with lasting.running(borrowed("a")) as engine:
        lasting.disk.slow = asyncio.Event()
        await engine.swap(compilation())
        await lasting.elapse(1)
        lasting.forget()
        await engine.swap(compilation(borrowed("a")))
        await lasting.elapse(1)
        assert "inverse a" not in machine.log
        lasting.disk.slow.set()
        await engine.settle()

        assert "inverse a" in machine.log
        assert machine.settings == {"a": "right"}
