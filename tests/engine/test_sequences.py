"""Several states of one thing, one after the other: the earlier ones act once, in order with what stands between; the last is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine_bench import Action, Bench, Machine, Setting, in_virtual_time, simulate, state
from engine_bench import compilation as compiled
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.model.events import Event, Notice

ALONE = state("first", name="it", value="early")
FIRST, LAST = "zsetting.present[first]", "zsetting.present[last]"


def sequence(
    first: str = "early", work: str = "done", last: str = "late", **meta: object
) -> tuple[tuple[object, ...], ...]:
    """Three states: two of the setting `it`, and one of another between."""
    return (
        state("first", name="it", value=first, superseded_by=["last"], meta=meta),
        state("work", value=work),
        state("last", name="it", value=last),
    )


async def settled(engine: Engine, *states: tuple[object, ...]) -> None:
    """New states, and the end of the pass that they begin."""
    await engine.swap(compiled(*states))
    await engine.settle()


def applied(machine: Machine) -> list[str]:
    """What was changed, in order, since this was last asked."""
    changes = [line.removeprefix("apply ") for line in machine.log if line.startswith("apply ")]
    machine.log.clear()
    return changes


@in_virtual_time
async def test_new_states_run_in_order_and_the_last_is_kept() -> None:
    """Drift is put right by the last alone; the first says by whom it is superseded, and that once."""
    machine = fresh()
    bench = Bench(machine)
    engine = bench.engine()
    await settled(engine, *sequence())

    assert applied(machine) == ["it", "work", "it"]
    assert machine.settings["it"] == "late"
    machine.drift("it", "early")
    await bench.until(lambda event: outcome(event, "last", "drift"))
    await engine.settle()
    assert applied(machine) == ["it"]
    engine.recheck()
    await engine.settle()
    assert applied(machine) == []
    rows = {row["identity"]: row for row in engine.status()}
    assert rows[FIRST]["state"] == "superseded"
    assert f"superseded by {LAST}" in rows[FIRST]["comment"]
    assert [notice.identity for notice in bench.notices("superseded")] == [FIRST]
    assert {"what": "superseded", "in": None} in explain(engine.view.graph.by_identity[FIRST], engine.view)["next"]
    await engine.stop()


def test_a_restart_does_not_run_it_again(tmp_path: Path) -> None:
    """Not even when the last state is to be put right then."""
    machine = fresh()

    async def life(drifted: bool) -> list[str]:
        bench = Bench(machine, tmp_path / "journal")
        engine = bench.engine()
        if drifted:
            machine.settings["it"] = "drifted"
        await settled(engine, *sequence())
        await engine.stop()
        bench.journal.close()
        return applied(machine)

    async def lives() -> None:
        assert await life(drifted=False) == ["it", "work", "it"]
        assert await life(drifted=False) == []
        assert await life(drifted=True) == ["it"]

    simulate(lives)


@in_virtual_time
async def test_an_edit_of_any_state_of_the_sequence_runs_it_again() -> None:
    """Of the first, of what stands between, of the last; of no other."""
    machine = fresh()
    engine = Bench(machine).engine()
    await settled(engine, *sequence(), state("other"))
    applied(machine)

    await settled(engine, *sequence(first="sooner"), state("other"))
    assert applied(machine) == ["it", "it"]
    await settled(engine, *sequence(first="sooner", work="more"), state("other"))
    assert applied(machine) == ["it", "work", "it"]
    await settled(engine, *sequence(first="sooner", work="more", last="later"), state("other"))
    assert applied(machine) == ["it", "it"]
    await settled(engine, *sequence(first="sooner", work="more", last="later"), state("other", value="else"))
    assert applied(machine) == ["other"]
    assert machine.settings["it"] == "later"
    await engine.stop()


@in_virtual_time
async def test_an_edit_waits_for_the_state_that_runs() -> None:
    """Whichever of the sequence is edited, removed, or added while one runs: no two of them are at the thing at once."""
    edits = {
        "first": sequence(first="else"),
        "last": sequence(last="else"),
        "removed": sequence()[1:],
        "alone": (ALONE,),
    }
    for running in ("first", "last"):
        for edit, states in edits.items():
            machine = fresh()
            engine = Bench(machine).engine(workers=4)
            await settled(engine, *sequence())
            applied(machine)
            machine.drift("it", "drifted")
            machine.hold("apply it")
            if running == "first":
                await engine.swap(compiled(*sequence(work="other")))
            await asyncio.sleep(10)
            await engine.swap(compiled(*states))
            await asyncio.sleep(1)
            machine.free()
            await engine.settle()

            assert machine.overlaps == [], (running, edit)
            assert machine.settings["it"] == {"last": "else", "alone": "early"}.get(edit, "late"), (running, edit)
            await engine.stop()


@in_virtual_time
async def test_an_edit_waits_for_what_runs_between() -> None:
    """Whether that is edited or removed, alone or with what stands around it: nothing is done to the thing before the work has ended."""
    edits = {
        "work": sequence(work="other"),
        "work and first": sequence(first="else", work="other"),
        "work removed": (sequence()[0], sequence()[2]),
        "last alone": sequence()[2:],
    }
    for edit, states in edits.items():
        machine = fresh()
        engine = Bench(machine).engine(workers=4)
        machine.hold("apply work")
        await engine.swap(compiled(*sequence()))
        await asyncio.sleep(10)
        assert applied(machine) == ["it", "work"], edit
        await engine.swap(compiled(*states))
        await asyncio.sleep(1)
        assert applied(machine) == [], edit
        machine.free()
        await engine.settle()

        assert applied(machine)[-1] == "it", edit
        assert machine.settings["it"] == "late", edit
        await engine.stop()


@in_virtual_time
async def test_slow_work_between_is_not_overtaken() -> None:
    """Whatever time it takes, and without definition order, too; `why` says who is waited for."""
    for ordering in ("definition", "requisites"):
        machine = fresh()
        bench = Bench(machine)
        engine = bench.engine(workers=4, ordering=ordering)
        machine.hold("apply work")
        await engine.swap(compiled(*sequence()))
        await asyncio.sleep(600)

        assert machine.settings["it"] == "early"
        last = engine.view.graph.by_identity[LAST]
        assert "sequence" in [wait["code"] for wait in explain(last, engine.view)["waits"]]
        machine.free()
        await engine.settle()
        assert machine.settings["it"] == "late"
        await engine.stop()


@in_virtual_time
async def test_what_stands_between_waits_for_a_slow_first() -> None:
    """Work does not begin before that for which it needs the first state is there."""
    machine = fresh()
    engine = Bench(machine).engine(workers=4, ordering="requisites")
    machine.hold("it")
    await engine.swap(compiled(*sequence()))
    await asyncio.sleep(600)

    assert "work" not in machine.settings
    machine.free()
    await engine.settle()
    assert applied(machine) == ["it", "work", "it"]
    await engine.stop()


@in_virtual_time
async def test_a_first_state_that_failed_is_tried_again_and_the_last_follows() -> None:
    """What has not acted is still to act; it fails like any other until then, and the end is as the last says."""
    machine = fresh()
    machine.settings["it"] = "before"
    engine = Bench(machine).engine()
    machine.broken["look it"] = RuntimeError("no")
    await settled(engine, *sequence())
    assert {row["identity"]: row["state"] for row in engine.status()}[FIRST] == "failed"

    machine.broken.clear()
    engine.recheck()
    await engine.settle()
    assert applied(machine) == ["work", "it", "it"]
    assert machine.settings["it"] == "late"
    engine.recheck()
    await engine.settle()
    assert applied(machine) == []
    await engine.stop()


@in_virtual_time
async def test_what_fails_for_ever_does_not_hold_up_the_last() -> None:
    """Retries without end have the others go on."""
    machine = fresh()
    machine.broken["work"] = RuntimeError("no")
    engine = Bench(machine).engine()
    first, _, last = sequence()
    await engine.swap(compiled(first, state("work", meta={"retry": -1}), last))
    await asyncio.sleep(600)

    assert machine.settings["it"] == "late"
    await engine.stop()


@in_virtual_time
async def test_a_one_shot_run_repeats_the_sequence_each_time() -> None:
    """As Salt does."""
    machine = fresh()
    for _ in range(2):
        engine = Bench(machine).engine(watch=False)
        await settled(engine, *sequence())
        assert [name for name in applied(machine) if name == "it"] == ["it", "it"]
        assert machine.settings["it"] == "late"


@in_virtual_time
async def test_noop_says_what_the_states_would_do() -> None:
    """Nothing is written down as done, so that all is done when noop ends."""
    machine = fresh()
    machine.settings["it"] = "late"
    engine = Bench(machine).engine(noop=True)
    await settled(engine, *sequence())
    assert applied(machine) == []
    assert {row["identity"]: row["state"] for row in engine.status()} == {
        FIRST: "would",
        "zsetting.present[work]": "would",
        LAST: "ok",
    }

    await engine.swap(compiled(*sequence()), options=Bench(machine).engine().options)
    await engine.settle()
    assert applied(machine) == ["it", "work", "it"]
    await engine.stop()


@in_virtual_time
async def test_a_state_that_has_acted_hears_nothing() -> None:
    """A change of what it watches or listens to would undo what the last state keeps."""
    for requisite in ("watch", "listen"):
        machine = fresh()
        engine = Bench(machine).engine()
        states = (
            state("cause", value="one"),
            state("first", name="it", value="early", superseded_by=["last"], **{requisite: ["cause"]}),
            state("last", name="it", value="late"),
        )
        await settled(engine, *states)
        machine.log.clear()
        machine.drift("cause")
        await asyncio.sleep(1)
        await engine.settle()

        assert "refresh it" not in machine.log
        assert machine.settings["it"] == "late"
        await engine.stop()


@in_virtual_time
async def test_those_who_require_it_go_on() -> None:
    """It counts as right when it has acted; a failure of what it requires itself does not matter any more."""
    machine = fresh()
    engine = Bench(machine).engine()
    states = (
        state("base"),
        state("first", name="it", value="early", superseded_by=["last"], require=["base"]),
        state("work", require=["first"]),
        state("last", name="it", value="late"),
    )
    await settled(engine, *states)
    applied(machine)
    machine.broken["base"] = RuntimeError("no")
    for name in ("base", "work"):
        machine.drift(name)
    await asyncio.sleep(1)
    engine.recheck()
    await engine.settle()

    assert machine.settings["work"] == "right"
    assert {row["identity"]: row["state"] for row in engine.status()}[FIRST] == "superseded"
    await engine.stop()


@in_virtual_time
async def test_an_operator_may_have_it_act_again() -> None:
    """And the last follows."""
    machine = fresh()
    engine = Bench(machine).engine()
    await settled(engine, *sequence())
    applied(machine)
    engine.trigger(FIRST)
    await engine.settle()

    assert applied(machine) == ["it", "it"]
    assert machine.settings["it"] == "late"
    await engine.stop()


@in_virtual_time
async def test_a_state_that_nothing_supersedes_any_more_is_kept() -> None:
    """And one that is superseded from now on is not, once it has acted."""
    machine = fresh()
    bench = Bench(machine)
    engine = bench.engine()
    await settled(engine, *sequence())
    await settled(engine, state("first", name="it", value="early"), state("work", value="done"))
    assert machine.settings["it"] == "early"
    machine.drift("it")
    await bench.until(lambda event: outcome(event, "first", "drift"))
    await engine.settle()
    assert machine.settings["it"] == "early"

    await settled(engine, *sequence())
    assert machine.settings["it"] == "late"
    await engine.stop()


@in_virtual_time
async def test_several_in_a_row_act_each_in_its_turn() -> None:
    """One, another, and the first again."""
    machine = fresh()
    engine = Bench(machine).engine(workers=4, ordering="requisites")
    await settled(
        engine,
        state("one", name="it", value="a", superseded_by=["two"]),
        state("two", name="it", value="b", superseded_by=["three"]),
        state("three", name="it", value="a"),
    )
    assert applied(machine) == ["it", "it", "it"]
    assert machine.settings["it"] == "a"
    await engine.stop()


def fresh() -> Machine:
    """An empty machine."""
    machine = Machine()
    Setting.machine = Action.machine = machine
    return machine


def outcome(event: Event, name: str, cause: str) -> bool:
    """One that has changed something for this cause."""
    found = getattr(event, "outcome", None)
    return (
        not isinstance(event, Notice)
        and found is not None
        and found.identity.endswith(f"[{name}]")
        and found.changed
        and found.cause == cause
    )
