"""Several states of one thing, one after the other: the earlier ones act once, in order with what stands between; the last is kept."""

from __future__ import annotations

from pathlib import Path

from engine_bench import Bench, compilation, state
from fake_machine import Machine
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
    await engine.swap(compilation(*states))
    await engine.settle()


def applied(machine: Machine) -> list[str]:
    """What was changed, in order, since this was last asked."""
    changes = [line.removeprefix("apply ") for line in machine.log if line.startswith("apply ")]
    machine.log.clear()
    return changes


async def test_new_states_run_in_order_and_the_last_is_kept(bench: Bench, machine: Machine) -> None:
    """Drift is put right by the last alone; the first says by whom it is superseded, and that once."""
    async with bench.running(*sequence()) as engine:
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


async def test_a_restart_does_not_run_it_again(machine: Machine, tmp_path: Path) -> None:
    """Not even when the last state is to be put right then."""
    bench = Bench(machine, tmp_path / "journal")
    for found, changed in ((None, ["it", "work", "it"]), (None, []), ("drifted", ["it"])):
        machine.settings["it"] = found or machine.settings.get("it", "")
        async with bench.running(*sequence()):
            assert applied(machine) == changed


async def test_an_edit_of_any_state_of_the_sequence_runs_it_again(bench: Bench, machine: Machine) -> None:
    """Of the first, of what stands between, of the last; of no other."""
    async with bench.running(*sequence(), state("other")) as engine:
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


async def test_an_edit_waits_for_the_state_that_runs(bench: Bench, machine: Machine) -> None:
    """Whichever of the sequence is edited, removed, or added while one runs: no two of them are at the thing at once."""
    edits = {
        "first": sequence(first="else"),
        "last": sequence(last="else"),
        "removed": sequence()[1:],
        "alone": (ALONE,),
    }
    for running in ("first", "last"):
        for edit, states in edits.items():
            machine = Machine()
            bench = Bench(machine)
            async with bench.running(*sequence(), workers=4) as engine:
                applied(machine)
                machine.drift("it", "drifted")
                machine.hold("apply it")
                if running == "first":
                    await engine.swap(compilation(*sequence(work="other")))
                await bench.elapse(10)
                await engine.swap(compilation(*states))
                await bench.elapse(1)
                machine.free()
                await engine.settle()

                assert machine.overlaps == [], (running, edit)
                assert machine.settings["it"] == {"last": "else", "alone": "early"}.get(edit, "late"), (running, edit)


async def test_an_edit_waits_for_what_runs_between(bench: Bench, machine: Machine) -> None:
    """Whether that is edited or removed, alone or with what stands around it: nothing is done to the thing before the work has ended."""
    edits = {
        "work": sequence(work="other"),
        "work and first": sequence(first="else", work="other"),
        "work removed": (sequence()[0], sequence()[2]),
        "last alone": sequence()[2:],
    }
    for edit, states in edits.items():
        machine = Machine()
        bench = Bench(machine)
        machine.hold("apply work")
        async with bench.starting(*sequence(), workers=4) as engine:
            await bench.elapse(10)
            assert applied(machine) == ["it", "work"], edit
            await engine.swap(compilation(*states))
            await bench.elapse(1)
            assert applied(machine) == [], edit
            machine.free()
            await engine.settle()

            assert applied(machine)[-1] == "it", edit
            assert machine.settings["it"] == "late", edit


async def test_slow_work_between_is_not_overtaken(bench: Bench, machine: Machine) -> None:
    """Whatever time it takes, and without definition order, too; `why` says who is waited for."""
    for ordering in ("definition", "requisites"):
        machine = Machine()
        bench = Bench(machine)
        machine.hold("apply work")
        async with bench.starting(*sequence(), workers=4, ordering=ordering) as engine:
            await bench.elapse(600)

            assert machine.settings["it"] == "early"
            last = engine.view.graph.by_identity[LAST]
            assert "sequence" in [wait["code"] for wait in explain(last, engine.view)["waits"]]
            machine.free()
            await engine.settle()
            assert machine.settings["it"] == "late"


async def test_what_stands_between_waits_for_a_slow_first(bench: Bench, machine: Machine) -> None:
    """Work does not begin before that for which it needs the first state is there."""
    machine.hold("it")
    async with bench.starting(*sequence(), workers=4, ordering="requisites") as engine:
        await bench.elapse(600)

        assert "work" not in machine.settings
        machine.free()
        await engine.settle()
        assert applied(machine) == ["it", "work", "it"]


async def test_a_first_state_that_failed_is_tried_again_and_the_last_follows(bench: Bench, machine: Machine) -> None:
    """What has not acted is still to act; it fails like any other until then, and the end is as the last says."""
    machine.settings["it"] = "before"
    machine.broken["look it"] = RuntimeError("no")
    async with bench.running(*sequence()) as engine:
        assert {row["identity"]: row["state"] for row in engine.status()}[FIRST] == "failed"

        machine.broken.clear()
        engine.recheck()
        await engine.settle()
        assert applied(machine) == ["work", "it", "it"]
        assert machine.settings["it"] == "late"
        engine.recheck()
        await engine.settle()
        assert applied(machine) == []


async def test_what_fails_for_ever_does_not_hold_up_the_last(bench: Bench, machine: Machine) -> None:
    """Retries without end have the others go on."""
    machine.broken["work"] = RuntimeError("no")
    first, _, last = sequence()
    async with bench.starting(first, state("work", meta={"retry": -1}), last):
        await bench.elapse(600)

        assert machine.settings["it"] == "late"


async def test_a_one_shot_run_repeats_the_sequence_each_time(bench: Bench, machine: Machine) -> None:
    """As Salt does."""
    for _ in range(2):
        async with bench.running(*sequence(), watch=False):
            assert [name for name in applied(machine) if name == "it"] == ["it", "it"]
            assert machine.settings["it"] == "late"


async def test_noop_says_what_the_states_would_do(bench: Bench, machine: Machine) -> None:
    """Nothing is written down as done, so that all is done when noop ends."""
    machine.settings["it"] = "late"
    async with bench.running(*sequence(), noop=True) as engine:
        assert applied(machine) == []
        assert {row["identity"]: row["state"] for row in engine.status()} == {
            FIRST: "would",
            "zsetting.present[work]": "would",
            LAST: "ok",
        }

        await engine.swap(compilation(*sequence()), options=engine.options.model_copy(update={"noop": False}))
        await engine.settle()
        assert applied(machine) == ["it", "work", "it"]


async def test_a_state_that_has_acted_hears_nothing(bench: Bench, machine: Machine) -> None:
    """A change of what it watches or listens to would undo what the last state keeps."""
    for requisite in ("watch", "listen"):
        machine = Machine()
        bench = Bench(machine)
        states = (
            state("cause", value="one"),
            state("first", name="it", value="early", superseded_by=["last"], **{requisite: ["cause"]}),
            state("last", name="it", value="late"),
        )
        async with bench.running(*states) as engine:
            machine.log.clear()
            machine.drift("cause")
            await bench.elapse(1)
            await engine.settle()

            assert "refresh it" not in machine.log
            assert machine.settings["it"] == "late"


async def test_those_who_require_it_go_on(bench: Bench, machine: Machine) -> None:
    """It counts as right when it has acted; a failure of what it requires itself does not matter any more."""
    states = (
        state("base"),
        state("first", name="it", value="early", superseded_by=["last"], require=["base"]),
        state("work", require=["first"]),
        state("last", name="it", value="late"),
    )
    async with bench.running(*states) as engine:
        applied(machine)
        machine.broken["base"] = RuntimeError("no")
        for name in ("base", "work"):
            machine.drift(name)
        await bench.elapse(1)
        engine.recheck()
        await engine.settle()

        assert machine.settings["work"] == "right"
        assert {row["identity"]: row["state"] for row in engine.status()}[FIRST] == "superseded"


async def test_an_operator_may_have_it_act_again(bench: Bench, machine: Machine) -> None:
    """And the last follows."""
    async with bench.running(*sequence()) as engine:
        applied(machine)
        engine.trigger(FIRST)
        await engine.settle()

        assert applied(machine) == ["it", "it"]
        assert machine.settings["it"] == "late"


async def test_a_state_that_nothing_supersedes_any_more_is_kept(bench: Bench, machine: Machine) -> None:
    """And one that is superseded from now on is not, once it has acted."""
    async with bench.running(*sequence()) as engine:
        await settled(engine, state("first", name="it", value="early"), state("work", value="done"))
        assert machine.settings["it"] == "early"
        machine.drift("it")
        await bench.until(lambda event: outcome(event, "first", "drift"))
        await engine.settle()
        assert machine.settings["it"] == "early"

        await settled(engine, *sequence())
        assert machine.settings["it"] == "late"


async def test_several_in_a_row_act_each_in_its_turn(bench: Bench, machine: Machine) -> None:
    """One, another, and the first again."""
    async with bench.running(
        state("one", name="it", value="a", superseded_by=["two"]),
        state("two", name="it", value="b", superseded_by=["three"]),
        state("three", name="it", value="a"),
        workers=4,
        ordering="requisites",
    ):
        assert applied(machine) == ["it", "it", "it"]
        assert machine.settings["it"] == "a"


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
