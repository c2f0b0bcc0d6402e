"""When a state with `reverse: true` is removed, its previous content is restored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine_bench import Bench, compilation, state, use
from fake_machine import Borrowed, Machine
from holdfast import Context, Declaration, Permanent, Temporary
from holdfast.agent.engine.deliver.tables import Reversal
from power import DurableBench


class Linked(Borrowed, kind="zlinked.present"):
    """A setting that represents another one, like a link."""

    async def inverse(self, ctx: Context) -> Declaration:
        """Return the declaration of the other setting."""
        return Declaration(
            "zsetting.present", {"name": self.name.upper(), "value": self.machine.settings[self.name.upper()]}
        )

    async def apply(self, ctx: Any, delta: Any) -> None:
        """Change both settings after a while."""
        await self.machine.gate("slow")
        await super().apply(ctx, delta)
        self.machine.settings[self.name.upper()] = self.value


def borrowed(
    identity: str, *, reverse: bool = True, kind: str = "zborrowed.present", retry: Any = None, **spec: Any
) -> tuple:
    """Declare a state with `reverse: true`."""
    return state(identity, kind, meta={"reverse": reverse, "retry": retry}, **spec)


@pytest.fixture
def bench(machine: Machine, tmp_path: Path) -> Bench:
    """Return a bench whose journal is a file."""
    return Bench(machine, tmp_path / "journal.db")


async def test_changed_settings_are_restored_and_new_ones_removed(bench: Bench, machine: Machine) -> None:
    """The agent restores them in reverse order after their states are removed, and then no longer watches them."""
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


async def test_the_previous_content_is_recorded_once_before_the_first_change(bench: Bench, machine: Machine) -> None:
    """Later drift, changes of the state and restarts record nothing."""
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


async def test_a_state_removed_while_no_agent_ran_is_undone_at_the_start(bench: Bench, machine: Machine) -> None:
    """The journal has recorded it."""
    async with bench.starting(borrowed("a"), state("b")) as engine:
        await engine.settle()

    async with bench.running(state("b")):
        assert machine.settings == {"b": "right"}


async def test_a_first_run_that_failed_half_way_can_be_undone(bench: Bench, machine: Machine) -> None:
    """The previous content is recorded before anything changes."""
    machine.broken["a"] = Permanent("no")
    async with bench.running(borrowed("a")) as engine:
        machine.broken.clear()
        machine.settings["a"] = "half"

        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == {}


async def test_in_noop_the_agent_reports_what_it_would_restore(bench: Bench, machine: Machine) -> None:
    """It restores when noop ends."""
    async with bench.running(borrowed("a")) as engine:
        await engine.swap(compilation(), options=engine.options.model_copy(update={"noop": True}))
        await engine.settle()

        assert machine.settings == {"a": "right"}
        assert bench.outcomes("undo zborrowed.present[a]")[-1].result is None
        await use(engine, noop=False)
        await engine.settle()
        assert machine.settings == {}


async def test_in_noop_no_previous_content_is_recorded(bench: Bench, machine: Machine) -> None:
    """Nothing changes, so there is nothing to restore."""
    async with bench.running(borrowed("a"), noop=True):
        assert "inverse a" not in machine.log


@pytest.mark.parametrize(("reverse", "left"), [(True, {}), (False, {"a": "right"})])
async def test_another_state_of_the_same_thing_takes_over_its_reversal(
    bench: Bench, machine: Machine, reverse: bool, left: dict[str, str]
) -> None:
    """The content is restored when that state is removed, if it has `reverse`, too."""
    async with bench.running(borrowed("first", name="a")) as engine:
        await engine.swap(compilation(borrowed("second", name="a", reverse=reverse)))
        await engine.settle()
        assert machine.settings == {"a": "right"}
        assert bench.notices("not-undone")

        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == left


async def test_a_state_that_changes_its_name_restores_the_first_thing(bench: Bench, machine: Machine) -> None:
    """The ID of the state stays the same."""
    async with bench.running(borrowed("thing", name="a")) as engine:
        await engine.swap(compilation(borrowed("thing", name="b")))
        await engine.settle()
        assert machine.settings == {"b": "right"}
        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == {}


async def test_a_state_without_reverse_any_more_is_not_undone(bench: Bench, machine: Machine) -> None:
    """The last declaration of the state counts."""
    async with bench.starting(borrowed("a")) as engine:
        await engine.swap(compilation(borrowed("a", reverse=False)))
        await engine.settle()
        await engine.swap(compilation())
        await engine.settle()

        assert machine.settings == {"a": "right"}


async def test_a_failed_reversal_is_tried_again(bench: Bench, machine: Machine) -> None:
    """The reversal counts as failed until it succeeds, and ends if the state returns."""
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


async def test_one_shot_runs_neither_record_nor_restore(bench: Bench, machine: Machine) -> None:
    """A one-shot run knows no previous graph."""
    for states in ((borrowed("a"),), ()):
        async with bench.starting(*states, watch=False) as engine:
            await engine.settle()

    assert machine.settings == {"a": "right"}
    assert "inverse a" not in machine.log


async def test_content_that_no_state_can_declare_is_reported(bench: Bench, machine: Machine) -> None:
    """The state is applied in spite of the report."""
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
async def test_a_record_that_cannot_be_read_any_more_is_reported(
    bench: Bench, machine: Machine, declaration: Declaration, why: str
) -> None:
    """The states are applied."""
    journal = bench.open_journal()
    journal.remember(Reversal("zold.present[x]", "x", declaration))
    journal.close()
    async with bench.running(state("a")):
        assert machine.settings == {"a": "right"}
        assert why in bench.notices("not-reversible")[0].text


async def test_a_reversal_cannot_be_triggered_after_its_run(bench: Bench, machine: Machine) -> None:
    """The reversal has left the graph."""
    async with bench.running(borrowed("a")) as engine:
        await engine.swap(compilation())
        await engine.settle()

        with pytest.raises(KeyError):
            engine.trigger("zgone.absent[undo zborrowed.present[a]]")


async def test_a_state_that_leaves_before_its_repair_changes_nothing(bench: Bench) -> None:
    """Its change would never be undone, because the reversals of this swap are determined already."""
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


async def test_a_second_attempt_does_not_record_the_work_of_the_first(bench: Bench, machine: Machine) -> None:
    """The previous content is recorded before the first attempt."""
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


async def test_content_that_no_state_can_declare_is_reported_once_and_never_restored(
    bench: Bench, machine: Machine
) -> None:
    """After a restart, the work of the state itself does not count as previous content."""
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


async def test_a_state_may_have_several_reversals(bench: Bench, machine: Machine) -> None:
    """A thing that it managed earlier could not be restored yet when the state was removed."""
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


async def test_reversals_run_in_reverse_order_after_a_restart(bench: Bench, machine: Machine) -> None:
    """The names of the states have no effect on the order."""
    async with bench.starting(borrowed("b"), borrowed("c"), borrowed("a")) as engine:
        await engine.settle()
    bench.forget()
    async with bench.running():
        assert [line for line in machine.log if line.startswith("remove")] == ["remove a", "remove c", "remove b"]


async def test_a_reversal_without_its_copy_is_dropped_and_reported_once(
    bench: Bench, machine: Machine, tmp_path: Path
) -> None:
    """A reversal without the copy can never succeed."""
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


async def test_a_reversal_waits_for_the_run_of_the_removed_state(bench: Bench, machine: Machine) -> None:
    """The reversal may restore another path than the state names, for example the target of a link."""
    machine.settings["A"] = "theirs"
    machine.hold("slow")
    async with bench.starting(borrowed("a", kind="zlinked.present"), stop_timeout=60) as engine:
        await bench.elapse(1)
        await engine.swap(compilation())
        await bench.elapse(1)
        machine.free("slow")
        await bench.elapse(1)

        assert machine.settings["A"] == "theirs"


async def test_reversals_run_one_by_one_whatever_the_ordering_option(bench: Bench, machine: Machine) -> None:
    """A directory cannot be removed before its content."""
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


async def test_a_new_record_waits_for_the_end_of_the_previous_reversal(machine: Machine, tmp_path: Path) -> None:
    """The reversal would otherwise remove the new copy in place of the old one."""
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
