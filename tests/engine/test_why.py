"""What `holdfast why` can tell: each reason to wait, those who are in the way, what comes next, and what is pending."""

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
    """All there is to say of one state."""
    view = engine.view
    return explain(next(vertex for vertex in view.graph if vertex.call.low["__id__"] == name), view)


def waits(engine: Engine, name: str) -> dict[str, list[str]]:
    """What it waits for -> whom."""
    return {wait["code"]: [each["identity"][17:-1] for each in wait["who"]] for wait in why(engine, name)["waits"]}


def steps(engine: Engine, name: str) -> dict[str, float | None]:
    """What happens to it next -> in how many seconds."""
    return {step["what"]: step["in"] for step in why(engine, name)["next"]}


@asynccontextmanager
async def started(bench: Bench, *states: State, **options: Any) -> AsyncIterator[Engine]:
    """Yield an engine that has done what it could in its first pass; stop it at the end."""
    async with bench.starting(*states, **options) as engine:
        await bench.elapse()
        yield engine


async def test_one_that_is_right_waits_for_nothing(bench: Bench) -> None:
    """It says when it ran, where it stands, and that its watch is what it goes by."""
    async with started(bench, state("a"), recheck=900, recheck_splay=0) as engine:
        await engine.settle()
        told = why(engine, "a")

        assert (told["state"], told["waits"], told["blocked_by"]) == ("ok", [], [])
        assert (told["file"], told["line"], told["last"]["cause"]) == ("test.sls", 1, "start")
        assert steps(engine, "a") == {"event": None, "recheck": 900.0}


async def test_unsettled_upstreams_are_named_however_far_above(bench: Bench) -> None:
    """Those that wait for nobody themselves stand first: they are what everything waits for."""
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


async def test_definition_order_is_a_reason_for_the_new_alone(bench: Bench) -> None:
    """On the first pass each waits for all before it."""
    bench.machine.hold("a")
    async with started(bench, state("a"), state("b"), workers=4) as engine:
        assert waits(engine, "b") == {"order": ["a"]}
        bench.machine.free()
        await engine.settle()


async def test_a_semaphore_names_who_is_inside(bench: Bench) -> None:
    """And how many places there are."""
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


async def test_busy_workers_are_named(bench: Bench) -> None:
    """Nothing else keeps it."""
    async with started(bench, state("a"), state("b"), workers=1) as engine:
        await engine.settle()
        bench.machine.hold("a")
        bench.machine.drift("a")
        bench.machine.drift("b")
        await bench.elapse()

        assert waits(engine, "b") == {"workers": ["a"]}
        bench.machine.free()
        await engine.settle()


async def test_pause_and_watches_that_are_not_armed(bench: Bench) -> None:
    """Both at once, if need be."""
    bench.machine.hold("watch a")
    engine = bench.engine()
    engine.pause()
    await engine.swap(compilation(state("a")), "start")
    await bench.elapse()

    assert [*waits(engine, "a")] == ["paused", "watch"]
    engine.resume()
    bench.machine.free()
    await engine.settle()
    await engine.stop()


async def test_a_rate_limit_tells_how_long(bench: Bench) -> None:
    """The event is not lost, and its time is known."""
    async with started(bench, state("a", meta={"limit": 0.1, "burst": 1})) as engine:
        await engine.settle()
        bench.machine.drift("a")
        await bench.until(lambda event: isinstance(event, PassEnded) and event.record.cause == "drift")
        bench.machine.drift("a")
        await bench.elapse()

        assert [*waits(engine, "a")] == ["rate-limit"]
        assert steps(engine, "a")["rate-limit"] == pytest.approx(10, abs=0.2)


async def test_flapping_tells_when_it_is_looked_at_again(bench: Bench) -> None:
    """And that somebody fights us."""
    async with started(bench, state("a"), flap_limit=2) as engine:
        await engine.settle()
        for _ in range(4):
            bench.machine.drift("a")
            await bench.elapse()

        assert [*waits(engine, "a")] == ["flapping"]
        assert why(engine, "a")["state"] == "flapping"
        assert "flapping" in steps(engine, "a")


async def test_one_between_two_attempts_says_what_failed_and_when_it_goes_on(bench: Bench) -> None:
    """It has no outcome yet, and still there is something to tell."""
    bench.machine.broken["a"] = Permanent("disk on fire")
    async with started(bench, state("a", meta={"retry": {"attempts": 3, "interval": 20, "splay": 0}})) as engine:
        told = why(engine, "a")

        assert [(wait["code"], wait["text"]) for wait in told["waits"]] == [
            ("retry", "attempt 1 of 3 failed: disk on fire; the next one in 20.0 s")
        ]
        assert steps(engine, "a") == {"retry": pytest.approx(20, abs=0.1), "event": None}
        (row,) = engine.status()
        assert (row["state"], row["comment"], row["next"]) == ("waiting", "disk on fire", pytest.approx(20, abs=0.1))


async def test_a_failure_far_above_is_named_with_its_own_words(bench: Bench) -> None:
    """Not those who are blocked themselves; and who failed says when it is tried again."""
    bench.machine.broken["a"] = Permanent("disk on fire")
    retry = {"retry": {"attempts": -1, "interval": 20, "splay": 0}}
    async with started(bench, state("a", meta=retry), state("b", require=["a"]), state("c", require=["b"])) as engine:
        await engine.settle()
        told = why(engine, "c")

        assert told["state"] == "blocked"
        assert told["blocked_by"] == [{"identity": "zsetting.present[a]", "state": "failed", "comment": "disk on fire"}]
        assert told["last"]["because"] == ["zsetting.present[b]"]
        assert steps(engine, "a")["retry"] == pytest.approx(20, abs=0.2)


async def test_pending_refreshes_are_counted_by_edge(bench: Bench) -> None:
    """A refresh that fails stays pending, and what changes meanwhile is counted."""
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
    """Also those whose requisite orders nothing, and those that come before it."""
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


async def test_an_event_that_is_held_off_counts_from_its_receipt(bench: Bench) -> None:
    """The time that a run waited begins when the engine was told, not when it was allowed to act."""
    async with started(bench, state("a", meta={"limit": 0.1, "burst": 1})) as engine:
        await engine.settle()
        bench.machine.drift("a")
        await bench.elapse()
        bench.forget()
        bench.machine.drift("a")
        await bench.until(lambda event: isinstance(event, PassEnded))
        waited = [event.waited for event in bench.events if type(event).__name__ == "Started"]

        assert waited == [pytest.approx(10, abs=0.2)]
