"""The answers of `holdfast why` have reasons to wait, blocking resources, next steps, and pending refreshes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine_bench import Bench, State, compilation, state
from holdfast import Permanent
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.model.events import PassEnded


def why(engine: Engine, name: str) -> dict[str, Any]:
    """Return the explanation of a state."""
    view = engine.view
    return explain(next(vertex for vertex in view.graph if vertex.call.low["__id__"] == name), view)


def waits(engine: Engine, name: str) -> dict[str, list[str]]:
    """Return the resources that the state waits for, by reason."""
    return {wait["code"]: [each["identity"][17:-1] for each in wait["who"]] for wait in why(engine, name)["waits"]}


def steps(engine: Engine, name: str) -> dict[str, float | None]:
    """Return the seconds until each next step."""
    return {step["what"]: step["in"] for step in why(engine, name)["next"]}


@asynccontextmanager
async def started(bench: Bench, *states: State, **options: Any) -> AsyncIterator[Engine]:
    """Yield an engine that has done what it could in its first pass; stop it at the end."""
    async with bench.starting(*states, **options) as engine:
        await bench.elapse()
        yield engine


async def test_a_resource_that_is_as_declared_waits_for_nothing(bench: Bench) -> None:
    """The answer has the time of its last run, its position, and its watch."""
    async with started(bench, state("a"), recheck=900, recheck_splay=0) as engine:
        await engine.settle()
        told = why(engine, "a")

        assert (told["state"], told["waits"], told["blocked_by"]) == ("ok", [], [])
        assert (told["file"], told["line"], told["last"]["cause"]) == ("test.sls", 1, "start")
        assert steps(engine, "a") == {"event": None, "recheck": 900.0}


async def test_unsettled_vertices_are_named_however_far_above(bench: Bench) -> None:
    """The answer names only vertices that wait for no other, because all the rest waits for them."""
    async with started(bench, state("a"), state("b", require=["a"]), state("c", require=["b"])) as engine:
        await engine.settle()
        bench.machine.hold("a")
        for name in "cba":
            bench.machine.drift(name)
        await bench.elapse()

        assert waits(engine, "c") == {"requisites": ["a", "b"]}
        assert why(engine, "c")["next"][0] == {"what": "run", "in": None, "cause": "drift"}
        assert why(engine, "a")["state"] == "running"
        bench.machine.free()
        await engine.settle()


async def test_definition_order_is_a_reason_only_for_new_resources(bench: Bench) -> None:
    """In the first pass each resource waits for all before it."""
    bench.machine.hold("a")
    async with started(bench, state("a"), state("b"), workers=4) as engine:
        assert waits(engine, "b") == {"order": ["a"]}
        bench.machine.free()
        await engine.settle()


async def test_the_runs_that_hold_a_semaphore_are_named(bench: Bench) -> None:
    """The answer has the number of runs that the semaphore permits."""
    meta = {"sema": ["disk"]}
    async with started(bench, state("a", meta=meta), state("b", meta=meta), workers=4) as engine:
        await engine.settle()
        bench.machine.hold("a")
        bench.machine.drift("a")
        bench.machine.drift("b")
        await bench.elapse()

        assert waits(engine, "b") == {"semaphore": ["a"]}
        assert "'disk'" in why(engine, "b")["waits"][0]["text"]
        bench.machine.free()
        await engine.settle()


async def test_the_runs_that_occupy_all_workers_are_named(bench: Bench) -> None:
    """The resource waits for nothing else."""
    async with started(bench, state("a"), state("b"), workers=1) as engine:
        await engine.settle()
        bench.machine.hold("a")
        bench.machine.drift("a")
        bench.machine.drift("b")
        await bench.elapse()

        assert waits(engine, "b") == {"workers": ["a"]}
        bench.machine.free()
        await engine.settle()


async def test_a_pause_and_a_watch_that_is_not_armed_are_reasons(bench: Bench) -> None:
    """The answer has both at once if both hold."""
    bench.machine.hold("watch a")
    async with bench.starting() as engine:
        engine.pause()
        await engine.swap(compilation(state("a")), "start")
        await bench.elapse()

        assert [*waits(engine, "a")] == ["paused", "watch"]
        engine.resume()
        bench.machine.free()
        await engine.settle()


async def test_a_rate_limit_has_a_remaining_time(bench: Bench) -> None:
    """The event is not lost."""
    async with started(bench, state("a", meta={"limit": 0.1, "burst": 1})) as engine:
        await engine.settle()
        bench.machine.drift("a")
        await bench.until(lambda event: isinstance(event, PassEnded) and event.record.cause == "drift")
        bench.machine.drift("a")
        await bench.elapse()

        assert [*waits(engine, "a")] == ["rate-limit"]
        assert steps(engine, "a")["rate-limit"] == pytest.approx(10, abs=0.2)


async def test_flapping_has_the_time_of_the_next_check(bench: Bench) -> None:
    """The answer says that something undoes the repairs."""
    async with started(bench, state("a"), flap_limit=2) as engine:
        await engine.settle()
        for _ in range(4):
            bench.machine.drift("a")
            await bench.elapse()

        assert [*waits(engine, "a")] == ["flapping"]
        assert why(engine, "a")["state"] == "flapping"
        assert "flapping" in steps(engine, "a")


async def test_a_waiting_retry_has_the_last_error_and_the_time_of_the_next_attempt(bench: Bench) -> None:
    """The run has no outcome yet."""
    bench.machine.broken["a"] = Permanent("disk on fire")
    async with started(bench, state("a", meta={"retry": {"attempts": 3, "interval": 20, "splay": 0}})) as engine:
        told = why(engine, "a")

        assert [(wait["code"], wait["text"]) for wait in told["waits"]] == [
            ("retry", "attempt 1 of 3 failed: disk on fire; the next one in 20.0 s")
        ]
        assert steps(engine, "a") == {"retry": pytest.approx(20, abs=0.1), "event": None}
        (row,) = engine.status()
        assert (row["state"], row["comment"], row["next"]) == ("waiting", "disk on fire", pytest.approx(20, abs=0.1))


async def test_a_failure_far_above_is_named_with_its_error(bench: Bench) -> None:
    """Blocked resources in between are not named. The failed one says when it is tried again."""
    bench.machine.broken["a"] = Permanent("disk on fire")
    retry = {"retry": {"attempts": -1, "interval": 20, "splay": 0}}
    async with started(bench, state("a", meta=retry), state("b", require=["a"]), state("c", require=["b"])) as engine:
        await engine.settle()
        told = why(engine, "c")

        assert told["state"] == "blocked"
        failed = {"identity": "zsetting.present[a]", "state": "failed", "comment": "disk on fire", "public": False}
        assert told["blocked_by"] == [failed]
        assert told["last"]["because"] == ["zsetting.present[b]"]
        assert steps(engine, "a")["retry"] == pytest.approx(20, abs=0.2)


async def test_pending_refreshes_are_counted_by_edge(bench: Bench) -> None:
    """A failed refresh stays pending, and later changes are counted."""
    async with started(bench, state("conf"), state("svc", watch=["conf"])) as engine:
        await engine.settle()
        bench.machine.broken["refresh svc"] = Permanent("no")
        for _ in range(2):
            bench.machine.drift("conf")
            await bench.elapse()
        needs, needed = why(engine, "svc")["needs"], why(engine, "conf")["needed_by"]

        assert [(each["requisite"], each["identity"], each["pending"]) for each in needs] == [
            ("watch", "zsetting.present[conf]", 2)
        ]
        assert [(each["requisite"], each["identity"], each["state"]) for each in needed] == [
            ("watch", "zsetting.present[svc]", "failed")
        ]
        assert why(engine, "svc")["last"]["by"] == ["zsetting.present[conf]"]


async def test_every_kind_of_dependent_is_listed(bench: Bench) -> None:
    """The list includes dependents whose requisite orders nothing, and those that run earlier."""
    states = (
        state("before", prereq=["a"]),
        state("a"),
        state("one", require=["a"]),
        state("two", onchanges=["a"]),
        state("three", listen=["a"]),
    )
    async with started(bench, *states) as engine:
        await engine.settle()
        needed = [(each["requisite"], each["identity"][17:-1]) for each in why(engine, "a")["needed_by"]]

        assert needed == [("prereq", "before"), ("require", "one"), ("onchanges", "two"), ("listen", "three")]


async def test_the_wait_of_a_delayed_event_starts_when_it_arrives(bench: Bench) -> None:
    """The wait does not start later, when the engine may act on the event."""
    async with started(bench, state("a", meta={"limit": 0.1, "burst": 1})) as engine:
        await engine.settle()
        bench.machine.drift("a")
        await bench.elapse()
        bench.forget()
        bench.machine.drift("a")
        await bench.until(lambda event: isinstance(event, PassEnded))
        waited = [event.waited for event in bench.events if type(event).__name__ == "Started"]

        assert waited == [pytest.approx(10, abs=0.2)]
