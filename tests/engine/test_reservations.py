"""A call of a function beside the engine waits until no other work changes the same thing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.explain import waits
from holdfast.agent.engine.schedule.reservations import ANY


class Calls:
    """Calls that take their turn, and note when they begin and end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.begun: list[str] = []

    async def begin(self, call: str, *names: str) -> None:
        """Start a call that changes these settings, and let it take its turn if it can."""
        self._ends[call] = asyncio.Event()
        self.tasks[call] = asyncio.create_task(self._call(call, names))
        await asyncio.sleep(0.001)

    async def _call(self, call: str, names: Iterable[str]) -> None:
        async with self._engine.claim([("setting", name) for name in names]):
            self.begun.append(call)
            await self._ends[call].wait()

    async def end(self, call: str) -> None:
        """End a call."""
        self._ends[call].set()
        await self.tasks[call]


@asynccontextmanager
async def calls(bench: Bench, *names: str) -> AsyncIterator[tuple[Engine, Calls]]:
    """Yield an idle engine with these settings, and its calls."""
    async with bench.running(*map(state, names)) as engine:
        bench.forget()
        yield engine, Calls(engine)


async def test_a_resource_does_not_run_while_a_call_changes_it(bench: Bench, machine: Machine) -> None:
    """Its drift is repaired when the call has ended; `why` names the call; other resources are repaired at once."""
    async with calls(bench, "a", "b") as (engine, beside):
        await beside.begin("call", "a")
        machine.drift("a")
        machine.drift("b")
        await bench.elapse(100)

        assert machine.settings == {"a": "drifted", "b": "right"}
        vertex = engine.view.graph.by_identity["zsetting.present[a]"]
        assert [each.code for each in waits(vertex, engine.view, asyncio.get_running_loop().time())] == ["call"]

        await beside.end("call")
        await engine.settle()
        assert machine.settings["a"] == "right"


async def test_a_call_waits_for_the_run_of_the_resource(bench: Bench, machine: Machine) -> None:
    """Calls that change something else do not wait."""
    async with calls(bench, "a", "b") as (_, beside):
        machine.hold("apply a")
        machine.drift("a")
        await bench.elapse()
        await beside.begin("first", "a")
        await beside.begin("second", "b")
        await bench.elapse(100)
        assert beside.begun == ["second"]

        machine.free()
        await bench.elapse()
        assert beside.begun == ["second", "first"]
        for call in ("first", "second"):
            await beside.end(call)


async def test_calls_that_change_one_thing_run_one_after_the_other(bench: Bench) -> None:
    """Calls run in the order of their arrival."""
    async with calls(bench, "a") as (_, beside):
        for call in ("first", "second", "third"):
            await beside.begin(call, "a")
        assert beside.begun == ["first"]
        await beside.end("first")
        await bench.elapse()
        assert beside.begun == ["first", "second"]
        await beside.end("second")
        await bench.elapse()
        assert beside.begun == ["first", "second", "third"]
        await beside.end("third")


async def test_a_call_that_changes_everything_excludes_all_others(bench: Bench, machine: Machine) -> None:
    """`reservations.ANY` means all things of a kind."""
    async with calls(bench, "a", "b") as (engine, beside):
        await beside.begin("all", ANY)
        await beside.begin("one", "b")
        machine.drift("a")
        await bench.elapse(100)
        assert (beside.begun, machine.settings["a"]) == (["all"], "drifted")

        await beside.end("all")
        await engine.settle()
        await bench.elapse()
        assert (beside.begun, machine.settings["a"]) == (["all", "one"], "right")
        await beside.begin("all again", ANY)
        assert beside.begun == ["all", "one"]
        await beside.end("one")
        await bench.elapse()
        await beside.end("all again")


async def test_a_resource_that_joins_the_graph_during_a_call_waits(bench: Bench, machine: Machine) -> None:
    """The claim is on the thing, not on the resources that manage it."""
    async with calls(bench, "a") as (engine, beside):
        await beside.begin("call", "new")
        await engine.swap(compilation(state("a"), state("new")))
        await bench.elapse(100)
        assert "new" not in machine.settings

        await beside.end("call")
        await engine.settle()
        assert machine.settings["new"] == "right"


async def test_a_call_waits_for_a_run_that_has_left_the_graph(bench: Bench, machine: Machine) -> None:
    """The resource is no longer declared, but its run has not ended."""
    async with calls(bench, "a", "b") as (engine, beside):
        machine.hold("apply a")
        machine.drift("a")
        await bench.elapse()
        await engine.swap(compilation(state("b")))
        await beside.begin("call", "a")
        assert beside.begun == []

        machine.free()
        await bench.elapse()
        assert beside.begun == ["call"]
        await beside.end("call")


async def test_a_cancelled_call_gives_up_its_turn(bench: Bench, machine: Machine) -> None:
    """A call that is cancelled while it waits gives up its turn, too."""
    async with calls(bench, "a") as (_, beside):
        await beside.begin("first", "a")
        await beside.begin("second", "a")
        beside.tasks["second"].cancel()
        await bench.elapse()
        beside.tasks["first"].cancel()
        machine.drift("a")
        await bench.elapse(100)
        await beside.begin("third", "a")

        assert (beside.begun, machine.settings["a"]) == (["first", "third"], "right")
        await beside.end("third")


async def test_a_call_waits_for_the_end_of_a_one_shot_run(bench: Bench) -> None:
    """It holds nothing meanwhile: the one-shot run can borrow what the waiting call would change as well."""
    async with calls(bench, "a", "b") as (engine, beside):
        await engine.reserve(["zsetting.present[a]"])
        await beside.begin("call", "a", "b")
        await engine.reserve(["zsetting.present[b]"])
        engine.unreserve(["zsetting.present[b]"])
        await bench.elapse(100)
        assert beside.begun == []

        engine.unreserve(["zsetting.present[a]"])
        await bench.elapse()
        assert beside.begun == ["call"]
        await beside.end("call")


async def test_a_one_shot_run_waits_for_a_call(bench: Bench) -> None:
    """It borrows a resource when the call that changes it has ended."""
    async with calls(bench, "a") as (engine, beside):
        await beside.begin("call", "a")
        borrowing = asyncio.create_task(engine.reserve(["zsetting.present[a]"]))
        await bench.elapse(100)
        assert not borrowing.done()

        await beside.end("call")
        await borrowing
        engine.unreserve(["zsetting.present[a]"])
