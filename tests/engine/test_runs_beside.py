"""A one-shot run beside the agent: the engine leaves its current resource alone, and delivers what the run did not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine_bench import Bench, compilation, state
from holdfast.agent.control.connection import Peer
from holdfast.agent.control.journal_session import JournalSession, message
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.explain import waits

CONF, SERVICE, OTHER = "zsetting.present[conf]", "zsetting.present[svc]", "zsetting.present[other]"
EDGE = (CONF, SERVICE, "watch")


@asynccontextmanager
async def calm(bench: Bench, *, way: str = "watch") -> AsyncIterator[tuple[Engine, JournalSession]]:
    """Yield an idle engine, and the session through which it learns of a run beside it; stop the engine at the end."""
    bench.machine.settings |= {"conf": "right", "svc": "right", "other": "right"}
    async with bench.running(state("conf"), state("svc", **{way: ["conf"]}), state("other")) as engine:
        bench.forget()
        yield engine, JournalSession(bench.journal, engine, Peer(7, 0))


async def take(session: JournalSession, operation: str, *arguments: object) -> None:
    """Send a message of the run, and wait for the answer to an intent."""
    answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    session.take(message(operation, *arguments).partition(b"\n")[2], answered.set_result)
    if operation == "intend":
        assert not (await answered)["error"]


@pytest.mark.parametrize("way", ["watch", "listen"])
async def test_the_engine_delivers_what_a_run_has_not_delivered(bench: Bench, way: str) -> None:
    """The engine delivers after the end of the run, not before; all other work continues."""
    async with calm(bench, way=way) as (engine, session):
        edge = (CONF, SERVICE, way)
        await take(session, "intend", CONF, [edge])
        bench.machine.drift("conf", "right")
        bench.machine.drift("svc")
        bench.machine.drift("other")
        await take(session, "changed", CONF, [edge])
        await bench.elapse(100)
        assert [line for line in bench.machine.log if "other" not in line] == []
        assert bench.machine.settings["other"] == "right"
        vertex = engine.view.graph.by_identity[SERVICE]
        assert "apply" in [wait.code for wait in waits(vertex, engine.view, asyncio.get_running_loop().time())]
        await session.close()
        await engine.settle()

        assert bench.machine.settings["svc"] == "right"
        assert not bench.journal.pending(edge)


async def test_the_engine_does_not_repeat_deliveries_of_a_run(bench: Bench) -> None:
    """The run has restarted the service itself."""
    async with calm(bench) as (engine, session):
        await take(session, "intend", CONF, [EDGE])
        bench.machine.touch("conf")
        await take(session, "changed", CONF, [EDGE])
        bench.machine.touch("svc")
        await take(session, "deliver", [(EDGE, 1)])
        await session.close()
        await engine.settle()
        await bench.elapse(100)

        assert "refresh svc" not in bench.machine.log


async def test_the_intent_of_a_run_that_ends_during_a_change_counts_as_the_change(bench: Bench) -> None:
    """The subscribers of the changed resource are refreshed."""
    async with calm(bench) as (engine, session):
        await take(session, "intend", CONF, [EDGE])
        await bench.elapse(100)
        assert "refresh svc" not in bench.machine.log
        await session.close()
        await engine.settle()

        assert bench.machine.log.count("refresh svc") == 1


async def test_a_run_waits_until_the_engine_has_finished_the_same_resource(bench: Bench) -> None:
    """The wait has no limit. Intents for other resources and all other messages are not delayed."""
    async with calm(bench) as (engine, session):
        bench.machine.hold("apply conf")
        bench.machine.drift("conf")
        await bench.elapse(1)
        intent = asyncio.create_task(take(session, "intend", CONF, [EDGE]))
        await bench.elapse(1000)
        assert not intent.done()
        await take(session, "intend", OTHER, [])
        await take(session, "done", OTHER, "digest", 5.0)
        assert bench.journal.done_at(OTHER, "digest") == 5.0
        bench.machine.free()
        await intent
        assert bench.machine.settings["conf"] == "right"
        await session.close()
        await engine.settle()


@pytest.mark.parametrize("how", ["the run is killed", "the run gives up"])
async def test_a_run_that_stops_waiting_for_the_engine_has_changed_nothing(bench: Bench, how: str) -> None:
    """The intent of the engine remains, and its change counts once."""
    async with calm(bench) as (engine, session):
        bench.machine.hold("apply conf")
        bench.machine.drift("conf")
        await bench.elapse(1)
        intent = asyncio.create_task(take(session, "intend", CONF, [EDGE]))
        await bench.elapse(1)
        assert bench.journal.intended(CONF)
        if how == "the run gives up":
            await take(session, "unchanged", CONF)
            await bench.elapse(1)
            assert bench.journal.intended(CONF)
        await session.close()
        assert bench.journal.intended(CONF)
        intent.cancel()
        bench.machine.free()
        await engine.settle()

        assert bench.machine.settings["conf"] == "right"
        assert bench.machine.log.count("refresh svc") == 1


async def test_a_swap_leaves_the_current_resource_of_a_run_alone(bench: Bench) -> None:
    """Agent and run apply the same edited states at the same time."""
    async with calm(bench) as (engine, session):
        await take(session, "intend", CONF, [EDGE])
        await engine.swap(compilation(state("conf", value="new"), state("svc", watch=["conf"])))
        await bench.elapse(100)
        assert bench.machine.settings["conf"] == "right"
        bench.machine.settings["conf"] = "new"
        await take(session, "changed", CONF, [EDGE])
        await take(session, "deliver", [(EDGE, 1)])
        await session.close()
        await engine.settle()

        assert [line for line in bench.machine.log if line.startswith(("apply", "refresh"))] == []
