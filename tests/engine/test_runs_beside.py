"""A run beside the engine changes what the engine cares for as well: the engine leaves that alone, and takes over what is left of it."""

from __future__ import annotations

import asyncio

import pytest

from engine_bench import Bench, compilation, state
from holdfast.agent.control.connection import Peer
from holdfast.agent.control.journal_session import JournalSession, message
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.explain import waits

CONF, SERVICE, OTHER = "zsetting.present[conf]", "zsetting.present[svc]", "zsetting.present[other]"
EDGE = (CONF, SERVICE, "watch")


async def calm(bench: Bench, *, way: str = "watch") -> tuple[Engine, JournalSession]:
    """An engine with nothing to do, and what it is told of a run beside it."""
    bench.machine.settings |= {"conf": "right", "svc": "right", "other": "right"}
    engine = bench.engine()
    await engine.swap(compilation(state("conf"), state("svc", **{way: ["conf"]}), state("other")), "start")
    await engine.settle()
    bench.forget()
    return engine, JournalSession(bench.journal, engine, Peer(7, 0))


async def take(session: JournalSession, operation: str, *arguments: object) -> None:
    """The run says so, and waits for the answer to an intent."""
    answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    session.take(message(operation, *arguments).partition(b"\n")[2], answered.set_result)
    if operation == "intend":
        assert not (await answered)["error"]


@pytest.mark.parametrize("way", ["watch", "listen"])
async def test_what_a_run_has_not_delivered_the_engine_delivers_when_it_ends(bench: Bench, way: str) -> None:
    """Not before, whatever happens to it; all else goes on."""
    engine, session = await calm(bench, way=way)
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
    await engine.stop()


async def test_what_a_run_has_delivered_is_not_delivered_again(bench: Bench) -> None:
    """Its service was started anew by the run itself."""
    engine, session = await calm(bench)
    await take(session, "intend", CONF, [EDGE])
    bench.machine.touch("conf")
    await take(session, "changed", CONF, [EDGE])
    bench.machine.touch("svc")
    await take(session, "deliver", [(EDGE, 1)])
    await session.close()
    await engine.settle()
    await bench.elapse(100)

    assert "refresh svc" not in bench.machine.log
    await engine.stop()


async def test_a_run_that_ends_in_the_middle_of_a_change_has_made_it(bench: Bench) -> None:
    """Its intent counts as the change."""
    engine, session = await calm(bench)
    await take(session, "intend", CONF, [EDGE])
    await bench.elapse(100)
    assert "refresh svc" not in bench.machine.log
    await session.close()
    await engine.settle()

    assert bench.machine.log.count("refresh svc") == 1
    await engine.stop()


async def test_a_run_begins_when_the_engine_is_done_with_the_same_resource(bench: Bench) -> None:
    """However long that takes, there is one at a time; intents for other resources, and all else that the run tells, are not held up."""
    engine, session = await calm(bench)
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
    await engine.stop()


@pytest.mark.parametrize("how", ["the run is killed", "the run gives up"])
async def test_who_does_not_wait_any_more_for_the_engine_has_changed_nothing(bench: Bench, how: str) -> None:
    """The engine's own intent stays, and its own change counts once."""
    engine, session = await calm(bench)
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
    await engine.stop()


async def test_new_states_leave_alone_what_a_run_is_at(bench: Bench) -> None:
    """The states were edited, and both take them over at the same time."""
    engine, session = await calm(bench)
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
    await engine.stop()
