"""Of several states of one thing, the earlier ones run once in order, and the last one is maintained."""

from __future__ import annotations

from pathlib import Path

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.model.events import Event, Notice

ALONE = state("first", name="it", value="early")
FIRST, LAST = "zsetting.present[first]", "zsetting.present[last]"


def sequence(
    first: str = "early", work: str = "done", last: str = "late", **meta: object
) -> tuple[tuple[object, ...], ...]:
    """Return three states: two of the setting `it`, and one of another setting between them."""
    return (
        state("first", name="it", value=first, superseded_by=["last"], meta=meta),
        state("work", value=work),
        state("last", name="it", value=last),
    )


async def settled(engine: Engine, *states: tuple[object, ...]) -> None:
    """Swap to these states and wait for the end of the pass."""
    await engine.swap(compilation(*states))
    await engine.settle()


def applied(machine: Machine) -> list[str]:
    """Return the changes since the last call, in order."""
    changes = [line.removeprefix("apply ") for line in machine.log if line.startswith("apply ")]
    machine.log.clear()
    return changes


async def test_new_states_run_in_order_and_the_last_is_maintained(bench: Bench, machine: Machine) -> None:
    """Only the last repairs drift. The first reports once which state supersedes it."""
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


async def test_a_restart_does_not_repeat_the_sequence(machine: Machine, tmp_path: Path) -> None:
    """The restarted agent repairs only the last state, if it has drifted."""
    bench = Bench(machine, tmp_path / "journal")
    for found, changed in ((None, ["it", "work", "it"]), (None, []), ("drifted", ["it"])):
        machine.settings["it"] = found or machine.settings.get("it", "")
        async with bench.running(*sequence()):
            assert applied(machine) == changed


async def test_an_edit_of_any_state_repeats_the_sequence(bench: Bench, machine: Machine) -> None:
    """The edit changes the first state, one between, or the last. Edits of other states repeat nothing."""
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


async def test_an_edit_waits_for_the_current_run(bench: Bench, machine: Machine) -> None:
    """Two runs never change the thing at once, whichever state is edited, removed or added."""
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


async def test_an_edit_waits_for_a_state_between(bench: Bench, machine: Machine) -> None:
    """That state or its neighbours are edited or removed; nothing changes the thing before its run has ended."""
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


async def test_the_last_state_does_not_overtake_a_slow_one_between(bench: Bench, machine: Machine) -> None:
    """The last state waits for any time, even without definition order. `why` names the state between."""
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


async def test_states_between_wait_for_a_slow_first_state(bench: Bench, machine: Machine) -> None:
    """They may need what it does."""
    machine.hold("it")
    async with bench.starting(*sequence(), workers=4, ordering="requisites") as engine:
        await bench.elapse(600)

        assert "work" not in machine.settings
        machine.free()
        await engine.settle()
        assert applied(machine) == ["it", "work", "it"]


async def test_a_failed_first_state_is_tried_again_before_the_last(bench: Bench, machine: Machine) -> None:
    """The first state counts as failed until it succeeds. In the end, the thing is as the last state declares."""
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


async def test_endless_retries_do_not_delay_the_last_state(bench: Bench, machine: Machine) -> None:
    """A state between fails again and again."""
    machine.broken["work"] = RuntimeError("no")
    first, _, last = sequence()
    async with bench.starting(first, state("work", meta={"retry": -1}), last):
        await bench.elapse(600)

        assert machine.settings["it"] == "late"


async def test_a_one_shot_run_repeats_the_sequence_each_time(bench: Bench, machine: Machine) -> None:
    """Salt does the same."""
    for _ in range(2):
        async with bench.running(*sequence(), watch=False):
            assert [name for name in applied(machine) if name == "it"] == ["it", "it"]
            assert machine.settings["it"] == "late"


async def test_noop_reports_what_the_states_would_do(bench: Bench, machine: Machine) -> None:
    """No state counts as done, so all run when noop ends."""
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


async def test_a_superseded_state_is_not_refreshed(bench: Bench, machine: Machine) -> None:
    """A refresh would undo what the last state declares."""
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


async def test_dependents_of_a_superseded_state_run(bench: Bench, machine: Machine) -> None:
    """It counts as successful after its run, even if its own targets fail later."""
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


async def test_an_operator_can_trigger_a_superseded_state(bench: Bench, machine: Machine) -> None:
    """The last state follows."""
    async with bench.running(*sequence()) as engine:
        applied(machine)
        engine.trigger(FIRST)
        await engine.settle()

        assert applied(machine) == ["it", "it"]
        assert machine.settings["it"] == "late"


async def test_a_trigger_after_the_start_of_a_superseded_state_is_for_its_next_run(
    bench: Bench, machine: Machine
) -> None:
    """The last state is dirty at once, and is checked even if the superseded state fails."""
    async with bench.running(
        state("conf"),
        state("first", name="it", value="early", superseded_by=["last"], watch=["conf"]),
        state("last", name="it", value="late"),
    ) as engine:
        bench.forget()
        first, last = (engine.view.graph.by_identity[identity] for identity in (FIRST, LAST))
        machine.drift("conf")
        await bench.until(lambda event: outcome(event, "conf", "drift"))
        await bench.turns(lambda: first.run.task)
        assert last.settled
        machine.broken["it"] = Permanent("no")
        engine.trigger(FIRST)
        assert last.queue.dirty
        await engine.settle()

        assert [each.reason for each in bench.outcomes("first")] == ["superseded", ""]
        assert [each.result for each in bench.outcomes("last")] == [True]


async def test_a_state_that_is_no_longer_superseded_is_maintained(bench: Bench, machine: Machine) -> None:
    """A state that becomes superseded runs once and is no longer maintained."""
    async with bench.running(*sequence()) as engine:
        await settled(engine, state("first", name="it", value="early"), state("work", value="done"))
        assert machine.settings["it"] == "early"
        machine.drift("it")
        await bench.until(lambda event: outcome(event, "first", "drift"))
        await engine.settle()
        assert machine.settings["it"] == "early"

        await settled(engine, *sequence())
        assert machine.settings["it"] == "late"


async def test_more_than_two_states_run_in_order(bench: Bench, machine: Machine) -> None:
    """The states declare one value, another one, and the first one again."""
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
    """Return whether an event reports a change by this state for this cause."""
    found = getattr(event, "outcome", None)
    return (
        not isinstance(event, Notice)
        and found is not None
        and found.identity.endswith(f"[{name}]")
        and found.changed
        and found.cause == cause
    )
