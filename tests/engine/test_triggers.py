"""`trigger` answers with the outcome of a run that begins after it, never with that of an earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event
from holdfast.agent.triggers import Triggers


class Operator:
    """An operator who triggers resources of one engine."""

    def __init__(self, engine: Engine) -> None:
        self.triggers = Triggers(engine)
        self.asked: list[str] = []
        """Resources whose next outcome was announced as one for the operator."""

    def trigger(self, identity: str) -> asyncio.Task[dict[str, Any]]:
        """Trigger a resource; the task ends with the answer."""
        return asyncio.create_task(self.triggers.trigger(identity, self.asked.append))


@pytest.fixture
def operator_of(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Callable[[Engine], Operator]:
    """Return a function that returns an operator of an engine of the bench."""
    operators: list[Operator] = []
    emit = Bench.emit

    def told(bench: Bench, event: Event) -> None:
        emit(bench, event)
        for each in operators:
            each.triggers.tell(event)

    def operator(engine: Engine) -> Operator:
        operators.append(Operator(engine))
        return operators[-1]

    monkeypatch.setattr(Bench, "emit", told)
    return operator


async def test_a_trigger_during_a_run_answers_with_the_outcome_of_the_next(
    bench: Bench, machine: Machine, operator_of: Callable[[Engine], Operator]
) -> None:
    """The present run fails; what made it fail is over with its end. A second caller gets the same answer."""
    machine.broken_once["a"] = Permanent("no")
    machine.hold("a")
    async with bench.starting(state("a"), workers=2) as engine:
        operator = operator_of(engine)
        await bench.turns(lambda: machine.now)
        answers = [operator.trigger("zsetting.present[a]"), operator.trigger("zsetting.present[a]")]
        await bench.elapse()
        machine.free()
        await bench.turns(lambda: bench.outcomes("a"))
        assert operator.asked == []
        await bench.elapse()

        assert all(each.done() for each in answers), "no wait after a failure delays it"
        assert [(await each)["result"] for each in answers] == [True, True]
        assert operator.asked == ["zsetting.present[a]"] * 2
        assert [outcome.result for outcome in bench.outcomes("a")] == [False, True]


async def test_a_trigger_between_the_start_and_the_first_step_of_a_run_waits_for_the_next(
    bench: Bench, operator_of: Callable[[Engine], Operator]
) -> None:
    """The run that has started finds the action done; the one of the trigger executes it."""
    async with bench.running(state("x", "zaction.run")) as engine:
        operator = operator_of(engine)
        vertex = engine.view.graph.by_identity["zaction.run[x]"]
        bench.forget()
        engine.recheck()
        await bench.turns(lambda: vertex.run.task)
        answer = operator.trigger("zaction.run[x]")

        assert "changed" in (await answer)["text"]
        assert bench.machine.log.count("run x") == 1


async def test_a_trigger_while_nothing_runs_answers_with_the_run_that_it_starts(
    bench: Bench, operator_of: Callable[[Engine], Operator]
) -> None:
    """The caller is recorded before the run has an outcome."""
    async with bench.running(state("a")) as engine:
        operator = operator_of(engine)
        answer = operator.trigger("zsetting.present[a]")
        await bench.turns(lambda: operator.asked)
        assert not answer.done()

        assert (await answer)["result"] is True
        assert operator.asked == ["zsetting.present[a]"]


async def test_the_refresh_of_a_listener_is_no_answer(
    bench: Bench, machine: Machine, operator_of: Callable[[Engine], Operator]
) -> None:
    """The trigger comes before the refresh at the end of the pass. The run after it checks the resource."""
    async with bench.running(state("a"), state("b", listen=["a"])) as engine:
        operator = operator_of(engine)
        bench.forget()
        machine.hold("refresh b")
        machine.drift("a")
        await bench.turns(lambda: "refresh b" in machine.log)
        machine.drift("b")
        answer = operator.trigger("zsetting.present[b]")
        await bench.elapse()
        machine.free()

        assert (await answer)["result"] is True
        assert machine.settings["b"] == "right"
        assert [outcome.listener for outcome in bench.outcomes("b")] == [True, False]


async def test_a_trigger_during_a_run_that_fails_does_not_wait_for_its_retry(
    bench: Bench, machine: Machine, operator_of: Callable[[Engine], Operator]
) -> None:
    """The next run begins at once."""
    machine.broken["a"] = Permanent("no")
    machine.hold("a")
    async with bench.starting(state("a", meta={"retry": {"attempts": 5, "interval": 500}}), workers=2) as engine:
        operator = operator_of(engine)
        await bench.turns(lambda: machine.now)
        answer = operator.trigger("zsetting.present[a]")
        await bench.elapse()
        machine.free()
        await bench.turns(lambda: machine.log.count("apply a") == 2)
        machine.broken.clear()
        await bench.elapse(600)

        assert (await answer)["result"] is True


async def test_a_resource_that_leaves_during_its_run_is_told(
    bench: Bench, machine: Machine, operator_of: Callable[[Engine], Operator]
) -> None:
    """The answer says so, because no run follows."""
    machine.hold("a")
    async with bench.starting(state("a"), workers=2) as engine:
        operator = operator_of(engine)
        await bench.turns(lambda: machine.now)
        answer = operator.trigger("zsetting.present[a]")
        await bench.elapse()
        swap = asyncio.create_task(engine.swap(compilation(state("b"))))
        await bench.elapse()
        machine.free()
        await swap

        with pytest.raises(ControlError, match="it is no longer declared"):
            await answer


async def test_the_run_after_a_pause_is_for_the_operator(
    bench: Bench, operator_of: Callable[[Engine], Operator]
) -> None:
    """The answer does not wait for that run."""
    async with bench.running(state("a")) as engine:
        operator = operator_of(engine)
        engine.pause()
        assert (await operator.trigger("zsetting.present[a]"))["text"].startswith("paused: ")
        engine.resume()
        await engine.settle()

        assert operator.asked == ["zsetting.present[a]"]
        assert [outcome.cause for outcome in bench.outcomes("a")][-1] == "command"


async def test_triggers_in_a_pause_are_not_collected(bench: Bench, operator_of: Callable[[Engine], Operator]) -> None:
    """A program that triggers a paused resource for days uses no memory of the agent."""
    async with bench.running(state("a")) as engine:
        operator = operator_of(engine)
        engine.pause()
        for _ in range(3):
            await operator.trigger("zsetting.present[a]")

        assert [len(each) for each in operator.triggers._waiting.values()] == [1]
