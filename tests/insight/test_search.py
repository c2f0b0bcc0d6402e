"""The search finds resources by what an operator writes, one slice of the graph at a time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from engine_bench import at_once, compilation, state
from holdfast.agent import triggers
from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.inspect.status import View
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.insight import search
from holdfast.agent.insight.search import find, matching, select
from watched_bench import Watched


async def test_an_identity_precedes_an_id_and_an_id_precedes_a_name(
    bench: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one resource is needed, a name of several is refused with their identities."""
    monkeypatch.setattr(search, "Blocking", lambda _: at_once)
    states = (state("a"), state("b", name="a"), state("c", name="n"), state("d", name="n"))
    async with bench.running(*states) as engine:
        ids = [[each.call.low["__id__"] for each in await matching(word, engine.view, "explain")] for word in "an"]
        assert ids == [["a"], ["c", "d"]]
        with pytest.raises(ControlError, match=r"cannot trigger n: which one\? available: .*\[c\].*\[d\]"):
            await find("n", engine.view, "trigger")
        with pytest.raises(
            ControlError, match=r"cannot pause zzzz: there is no such resource; `holdfast status` lists them$"
        ):
            await find("zzzz", engine.view, "pause")


async def test_a_search_lets_other_tasks_run() -> None:
    """Between two steps of another task, at most one slice of the resources is examined."""
    examined, most = 0, 0

    def wanted(_: Any) -> bool:
        nonlocal examined
        examined += 1
        return examined % 2 == 0

    async def others() -> None:
        nonlocal examined, most
        before = 0
        while True:
            most, before = max(most, examined - before), examined
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    vertices: list[Any] = [SimpleNamespace(number=number) for number in range(5 * search.SLICE + 1)]
    found = await select(vertices, wanted)
    await asyncio.sleep(0)
    beside.cancel()

    assert found == vertices[1::2]
    assert 0 < most <= search.SLICE


async def test_a_resource_that_is_removed_during_the_search_is_not_triggered(
    bench: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A swap replaces the states during the search; the error says that the resource is no longer declared."""
    async with bench.running(state("a")) as engine:

        async def found_too_late(given: str, view: View, verb: str) -> Vertex:
            vertex = await find(given, view, verb)
            await engine.swap(compilation(state("b")), "states changed")
            return vertex

        monkeypatch.setattr(triggers, "find", found_too_late)
        with pytest.raises(ControlError, match=r"cannot trigger .*\[a\]: it is no longer declared"):
            await triggers.Triggers(engine).trigger("a", lambda _: None)
