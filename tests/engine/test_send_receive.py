"""A value that one resource has found or made becomes an argument of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.model.events import Ran
from sending_kinds import sink, source


@pytest.fixture
def bench(machine: Machine, tmp_path: Path) -> Bench:
    """Return a bench whose journal is a file."""
    machine.settings["says a"] = "hello"
    return Bench(machine, tmp_path / "journal.db")


def applied(machine: Machine) -> list[str]:
    """Return the changes so far."""
    return [line for line in machine.log if line.startswith(("apply", "once"))]


async def test_a_receiver_runs_with_the_sent_value(bench: Bench, machine: Machine) -> None:
    """The declaration of the receiver does not change."""
    async with bench.running(source(), sink()) as engine:
        assert machine.settings["b"] == "hello"
        assert engine.view.graph.by_identity["zsink.present[b]"].resource.value == "right"


async def test_a_changed_value_runs_the_receiver(bench: Bench, machine: Machine) -> None:
    """It runs even if the sender itself changed nothing. The same value does not run it."""
    async with bench.running(source(), sink()) as engine:
        bench.forget()

        machine.touch("a")
        await engine.settle()
        assert "check b" not in machine.log
        machine.settings["says a"] = "goodbye"
        machine.touch("a")
        await bench.until(lambda _: machine.settings["b"] == "goodbye")
        await engine.settle()

        assert applied(machine) == ["apply b"]


async def test_a_value_counts_as_changed_until_a_run_with_it_succeeds(bench: Bench, machine: Machine) -> None:
    """The value counts through all failures, until a success."""
    machine.broken["b"] = Permanent("no")
    async with bench.running(source(), sink()) as engine:
        engine.recheck()
        await engine.settle()
        machine.broken.clear()
        engine.recheck()
        await engine.settle()
        engine.recheck()
        await engine.settle()

        assert [line for line in machine.log if line.startswith("new")] == [
            "new b value",
            "new b value",
            "new b value",
            "new b ",
        ]


async def test_after_a_restart_a_value_is_neither_new_nor_lost(bench: Bench, machine: Machine) -> None:
    """The receiver may run before the sender has sent it again."""
    async with bench.starting(source(), sink()) as engine:
        await engine.settle()
    bench.forget()
    machine.broken["silent a"] = Permanent("")

    async with bench.running(source(), sink()):
        assert applied(machine) == []
        assert "new b " in machine.log


async def test_a_finished_action_runs_again_for_a_new_value(bench: Bench, machine: Machine) -> None:
    """Without a new value, it does not run."""
    async with bench.running(source(), sink(kind="zonce.run", argument="what")) as engine:
        engine.recheck()
        await engine.settle()
        assert applied(machine) == ["apply a", "once hello"]
        machine.settings["says a"] = "goodbye"
        engine.recheck()
        await engine.settle()

        assert applied(machine) == ["apply a", "once hello", "once goodbye"]


async def test_a_receiver_without_a_value_fails_and_names_the_sender(bench: Bench, machine: Machine) -> None:
    """The sender succeeded and sent nothing."""
    machine.broken["silent a"] = Permanent("")
    async with bench.running(source(), sink()) as engine:
        assert bench.outcomes("b")[0].result is False
        assert bench.outcomes("b")[0].comment == "zsource.present[a] has sent no now"
        machine.broken.clear()
        engine.recheck()
        await engine.settle()
        assert machine.settings["b"] == "hello"


async def test_a_failed_sender_blocks_the_receiver(bench: Bench, machine: Machine) -> None:
    """`recv` blocks like `require`."""
    machine.broken["a"] = Permanent("no")
    async with bench.running(source(), sink()):
        assert (bench.outcomes("b")[0].reason, bench.outcomes("b")[0].because) == (
            "requisite_failed",
            ("zsource.present[a]",),
        )


async def test_in_noop_a_value_that_would_be_sent_is_unknown(bench: Bench, machine: Machine) -> None:
    """The sender would have to run first."""
    async with bench.running(source(), sink(), noop=True, watch=False):
        outcome = bench.outcomes("b")[0]
        assert (outcome.result, outcome.comment) == (
            None,
            "unknown until zsource.present[a] has run and sent now",
        )
        assert "b" not in machine.settings


async def test_a_receiver_of_a_sender_in_noop_reports_the_missing_value(bench: Bench, machine: Machine) -> None:
    """Only the sender is in noop."""
    async with bench.running(source(meta={"noop": True}), sink()):
        assert bench.outcomes("b")[0].result is False
        assert (
            bench.outcomes("b")[0].comment
            == "zsource.present[a] has sent no now: it is in noop, and would be changed first"
        )


async def test_in_noop_a_sender_that_is_as_declared_sends(bench: Bench, machine: Machine) -> None:
    """The sender needs no change to send."""
    machine.settings["a"] = "right"
    async with bench.running(source(), sink(), noop=True, watch=False):
        assert bench.outcomes("b")[0].changes == {"value": {"old": None, "new": "hello"}}


async def test_an_invalid_value_fails_the_run_and_is_not_shown(bench: Bench, machine: Machine) -> None:
    """It may be a secret."""
    async with bench.running(source(), sink(argument="value", key="count")):
        outcome = bench.outcomes("b")[0]
        assert outcome.result is False
        assert outcome.comment.startswith("cannot use the value received as value: ")
        assert "1" not in outcome.comment


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("zliar.present", "cannot send 'truth': the kind declares no such key"),
        ("zconfused.present", "the value is str, but the kind declares int"),
    ],
)
async def test_a_kind_that_sends_an_undeclared_value_fails(bench: Bench, kind: str, text: str) -> None:
    """The author of the kind made the mistake, not the user."""
    async with bench.running(state("x", kind), watch=False):
        assert bench.outcomes("x")[0].result is False
        assert text in bench.outcomes("x")[0].comment


async def test_values_survive_a_swap_and_leave_with_their_sender(bench: Bench, machine: Machine) -> None:
    """A later sender of the same identity starts without them."""
    async with bench.running(source(), sink()) as engine:
        machine.broken["silent a"] = Permanent("")
        await engine.swap(compilation(source(), sink(value="other")))
        await engine.settle()
        assert bench.outcomes("b")[-1].result is True
        await engine.swap(compilation(state("c")))
        await engine.settle()
        await engine.swap(compilation(source(), sink()))
        await engine.settle()

        assert bench.outcomes("b")[-1].comment == "zsource.present[a] has sent no now"


async def test_the_probe_of_a_receiver_uses_the_received_value(bench: Bench, machine: Machine) -> None:
    """The expected change depends on it."""
    machine.settings["b"] = "hello"
    async with bench.running(source(), state("p", prereq=["b"]), sink()):
        assert bench.outcomes("p")[0].reason == "prereq"


async def test_a_finished_command_runs_again_for_its_first_receiver(bench: Bench, machine: Machine) -> None:
    """Its value was not kept without a receiver. Later it does not run again."""
    machine.settings["says it"] = "hello"
    told = state("it", "ztold.run")
    async with bench.running(told) as engine:
        assert bench.journal.sent("ztold.run[it]") == {}

        for again in (False, True):
            await engine.swap(
                compilation(
                    told,
                    state("b", "zsink.present", meta={"recv": {"value": {"ztold": "it", "key": "now"}}}, recv=["it"]),
                )
            )
            await engine.settle()
            if again:
                engine.recheck()
                await engine.settle()
            assert machine.settings["b"] == "hello"

        assert machine.log.count("told it") == 2


async def test_one_shot_runs_send_and_receive(bench: Bench, machine: Machine) -> None:
    """The sender runs before the receiver, as its requisite demands."""
    async with bench.running(source(), sink(), sink("c", key="now"), watch=False):
        assert (machine.settings["b"], machine.settings["c"]) == ("hello", "hello")


async def test_a_value_that_changes_and_returns_during_a_run_is_used(bench: Bench, machine: Machine) -> None:
    """The receiver had the first value before, and runs with the one in between."""
    async with bench.running(source(), sink(), workers=4) as engine:
        machine.hold("apply b")
        for now in ("goodbye", "hello"):
            machine.settings["says a"] = now
            machine.touch("a")
            await bench.elapse(1)
        assert machine.settings["b"] == "goodbye"
        machine.free()
        await bench.elapse(1)
        await engine.settle()

        assert machine.settings["b"] == "hello"


async def test_a_receiver_that_failed_with_a_value_runs_when_the_previous_one_returns(
    bench: Bench, machine: Machine
) -> None:
    """Its last success had that value, its last run had not."""
    async with bench.running(source(), sink(), workers=4):
        machine.broken["b"] = Permanent("no")
        machine.settings["says a"] = "goodbye"
        machine.touch("a")
        await bench.elapse(1)
        assert bench.outcomes("b")[-1].result is False
        machine.broken.clear()
        machine.settings["says a"] = "hello"
        machine.touch("a")
        await bench.elapse(1)

        assert bench.outcomes("b")[-1].result is True
        assert machine.settings["b"] == "hello"


@pytest.mark.parametrize("watch", [True, False])
async def test_a_probe_of_a_receiver_before_its_sender_has_run_does_not_fail(
    bench: Bench, machine: Machine, watch: bool
) -> None:
    """The prereq comes before the sender, so the value is not known yet."""
    async with bench.running(state("p", prereq=["b"]), source(), sink(), watch=watch):
        assert [machine.settings[name] for name in "pab"] == ["right", "right", "hello"]
        assert all(event.outcome.result for event in bench.events if isinstance(event, Ran))


async def test_the_value_of_a_sender_that_is_replaced_while_it_runs_is_delivered(
    bench: Bench, machine: Machine
) -> None:
    """An action that has finished does not run again to send it."""
    machine.settings["says it"] = "hello"
    receiver = state("b", "zsink.present", meta={"recv": {"value": {"ztold": "it", "key": "now"}}}, recv=["it"])
    async with bench.running(state("it", "ztold.run"), receiver, stop_timeout=60) as engine:
        machine.settings["says it"] = "goodbye"
        machine.hold("told it")
        engine.trigger("ztold.run[it]")
        await bench.elapse(1)
        await engine.swap(compilation(state("it", "ztold.run", meta={"sema": ["disk"]}), receiver))
        machine.free()
        await bench.elapse(1)
        await engine.settle()

        assert machine.log.count("told it") == 2
        assert machine.settings["b"] == "goodbye"


@pytest.mark.parametrize("before", ["received", "declared"])
async def test_an_action_that_starts_or_stops_receiving_is_a_new_one(
    bench: Bench, machine: Machine, before: str
) -> None:
    """Its last run was a different one."""
    receiving, plain = sink(kind="zonce.run", argument="what"), state("b", "zonce.run")
    first, second = (receiving, plain) if before == "received" else (plain, receiving)
    async with bench.starting() as engine:
        for states in (first, second):
            await engine.swap(compilation(source(), states))
            await engine.settle()
            engine.recheck()
            await engine.settle()

        done = [line for line in machine.log if line.startswith("once")]
        assert done == (["once hello", "once nothing"] if before == "received" else ["once nothing", "once hello"])


async def test_the_error_of_a_kind_about_a_received_value_is_not_shown(bench: Bench, machine: Machine) -> None:
    """It may contain the value, which may be a secret."""
    async with bench.running(source(), sink(kind="zchoosy.present")):
        outcome = bench.outcomes("b")[0]
        assert outcome.result is False
        assert (
            outcome.comment
            == "cannot use the value received as value: the value is invalid; the reason would reveal it"
        )


async def test_a_receiver_that_is_added_while_the_sender_runs_gets_the_value(bench: Bench, machine: Machine) -> None:
    """A receiver that leaves meanwhile causes no error."""
    machine.settings["a"] = "wrong"
    machine.hold("apply a")
    async with bench.starting(source(), sink("c")) as engine:
        await bench.elapse(1)
        await engine.swap(compilation(source(), sink("b")))
        machine.free()
        await bench.elapse(1)
        await engine.settle()

        assert machine.settings["b"] == "hello"
        assert "c" not in machine.settings


async def test_no_receiver_shows_the_value_of_a_sender_with_no_log(bench: Bench, machine: Machine) -> None:
    """A receiver that gets the value through another receiver does not show it, either."""
    relay = state("b", "zrelay.present", meta={"recv": {"value": {"zsource": "a", "key": "now"}}}, recv=["a"])
    last = state("c", "zsink.present", meta={"recv": {"value": {"zrelay": "b", "key": "what"}}}, recv=["b"])
    async with bench.running(source(meta={"no_log": True}), relay, last):
        assert machine.settings["c"] == "hello"
        assert all(bench.outcomes(name)[0].changes for name in "abc")
        assert "hello" not in repr([bench.outcomes(name) for name in "abc"])
