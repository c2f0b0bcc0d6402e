"""The agent notices drift of paused resources, but repairs it only after an operator or the clock ends the pause."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.schedule.rounds import SLICE


def clocks(engine: Engine, *, ahead: float = 0.0) -> Engine:
    """Make pauses use the virtual clock; Unix time is `ahead` of it."""
    loop = asyncio.get_running_loop()
    engine.pauses.elapsed, engine.pauses.wall = loop.time, lambda: 1e9 + ahead + loop.time()
    return engine


@asynccontextmanager
async def started(bench: Bench, *states: str, ahead: float = 0.0) -> AsyncIterator[Engine]:
    """Yield an engine that continues the pauses of the one before, at its first pass; stop it at the end."""
    async with bench.starting() as engine:
        clocks(engine, ahead=ahead).pauses.restore()
        await engine.swap(compilation(*map(state, states)))
        yield engine


def said(engine: Engine) -> dict[str, str]:
    """Return the state of each resource."""
    return {row["id"]: row["state"] for row in engine.status()}


async def test_a_paused_resource_is_checked_and_not_repaired(bench: Bench, machine: Machine) -> None:
    """Others are repaired. Its drift is known, the host has not converged, and `why` names the pause."""
    async with started(bench, "a", "b") as engine:
        await engine.settle()
        await engine.pauses.begin(["zsetting.present[a]"], "on call", None)
        for name in ("a", "b"):
            machine.drift(name)
        await bench.elapse(10)

        assert machine.settings == {"a": "drifted", "b": "right"}
        assert said(engine) == {"a": "drifted", "b": "ok"}
        assert not engine.converged
        waits = explain(engine.view.graph.by_identity["zsetting.present[a]"], engine.view)["waits"]
        assert [wait["code"] for wait in waits] == ["paused"]
        assert "paused until `holdfast resume` (on call), by 'zsetting.present[a]'" in waits[0]["text"]

        await engine.pauses.end(["zsetting.present[a]"])
        await engine.settle()
        assert (machine.settings["a"], engine.converged) == ("right", True)


async def test_new_states_that_a_pattern_matches_are_paused(bench: Bench, machine: Machine) -> None:
    """They are not applied; existing states of the pattern stay paused."""
    async with started(bench, "web-a") as engine:
        await engine.settle()
        await engine.pauses.begin(["*web-*"], "", None)
        await engine.swap(compilation(state("web-a"), state("web-b"), state("db")))
        await engine.settle()

        assert machine.settings == {"web-a": "right", "db": "right"}
        assert said(engine)["web-b"] == "drifted"


async def test_dependents_of_a_paused_resource_continue(bench: Bench, machine: Machine) -> None:
    """As in noop, drift that is left alone on purpose is not a failure, and refreshes wait for the change."""
    async with bench.starting(state("a"), state("b", watch=["a"])) as engine:
        clocks(engine)
        await engine.settle()
        await engine.pauses.begin(["*[[]a]*", "zsetting.present[a]"], "", None)
        machine.drift("a")
        machine.drift("b")
        machine.log.clear()
        await bench.elapse(10)
        assert machine.settings == {"a": "drifted", "b": "right"}
        assert not [line for line in machine.log if line.startswith("refresh")]

        await engine.pauses.end([each.pattern for each in engine.pauses])
        await engine.settle()
        assert machine.settings == {"a": "right", "b": "right"}
        assert [line for line in machine.log if line.startswith("refresh")] == ["refresh b"]


async def test_a_pause_ends_after_its_time(bench: Bench, machine: Machine) -> None:
    """The drift is repaired after the pause."""
    async with started(bench, "a") as engine:
        await engine.settle()
        await engine.pauses.begin([], "upgrade", 7200)
        machine.drift("a")
        await bench.elapse(7199)
        assert (machine.settings["a"], said(engine)) == ("drifted", {"a": "drifted"})
        await bench.elapse(2)

        assert machine.settings["a"] == "right"
        assert [*engine.pauses] == []
        assert [notice.text for notice in bench.notices("resumed")] == ["resumed"]


async def test_drift_is_repaired_when_several_pauses_end_together(bench: Bench, machine: Machine) -> None:
    """The drift is not checked under the second pause first, so the log reports each change once."""
    async with started(bench, "a") as engine:
        await engine.settle()
        for end in (lambda: asyncio.sleep(11), lambda: engine.pauses.end(["zsetting.*", "*a*"])):
            await engine.pauses.begin(["zsetting.*", "*a*"], "", 10)
            machine.drift("a")
            await bench.elapse(5)
            before = len(bench.outcomes("a"))
            await end()
            await engine.settle()
            assert {outcome.result for outcome in bench.outcomes("a")[before:]} == {True}
            assert machine.settings["a"] == "right"


async def test_a_pause_survives_a_restart(tmp_path: Path, machine: Machine) -> None:
    """The rest of its time is kept. The log reports a pause that ended meanwhile."""
    bench = Bench(machine, tmp_path / "journal")
    async with started(bench, "a", "b") as engine:
        await engine.settle()
        await engine.pauses.begin([], "reboot", 1000)
        await engine.pauses.begin(["*b*"], "", 100)
    bench.journal.close()
    machine.drift("a")
    await bench.elapse(500)

    async with started(bench, "a", "b") as engine:
        assert [(each.pattern, each.reason) for each in engine.pauses] == [("", "reboot")]
        assert re.fullmatch(
            r"\*b\* was paused until [-0-9: ]+; the pause ended while no agent was running",
            bench.notices("resumed")[0].text,
        )
        await bench.elapse(490)
        assert machine.settings["a"] == "drifted"
        await bench.elapse(11)
        await engine.settle()
        assert machine.settings["a"] == "right"
    bench.journal.close()


async def test_setting_the_clock_does_not_change_the_length_of_a_pause(bench: Bench, machine: Machine) -> None:
    """The agent reports the end of the pause again, by the new time."""
    async with started(bench, "a") as engine:
        await engine.settle()
        await engine.pauses.begin([], "", 7200)
        clocks(engine, ahead=-86400)
        await bench.elapse(120)
        (paused,) = engine.pauses
        assert paused.until is not None
        assert abs(paused.until - engine.pauses.wall() - 7080) < 1
        assert bench.journal.pauses[""] == paused
        clocks(engine, ahead=86400 * 365)
        await bench.elapse(7000)
        assert engine.paused
        await bench.elapse(81)

        assert not engine.paused
        assert [notice.text.partition(";")[0] for notice in bench.notices("paused")][1:] == [
            "the system clock was set"
        ] * 2


async def test_a_clock_that_is_behind_after_a_restart_does_not_prolong_a_pause(
    tmp_path: Path, machine: Machine
) -> None:
    """The pause lasts at most for its whole time, counted from the restart."""
    bench = Bench(machine, tmp_path / "journal")
    async with started(bench, "a") as engine:
        await engine.settle()
        await engine.pauses.begin([], "", 7200)
    bench.journal.close()

    async with started(bench, "a", ahead=-86400 * 3650) as engine:
        assert engine.paused
        await bench.elapse(7201)
        assert not engine.paused
    bench.journal.close()


async def test_a_one_shot_run_ignores_pauses(tmp_path: Path, machine: Machine) -> None:
    """An operator applies states on purpose. The pause still applies to the agent."""
    bench = Bench(machine, tmp_path / "journal")
    async with started(bench, "a") as engine:
        await engine.settle()
        await engine.pauses.begin([], "", None)
    bench.journal.close()
    machine.drift("a")

    async with bench.running(state("a"), watch=False):
        assert machine.settings["a"] == "right"
        assert [*bench.journal.pauses] == [""]
    bench.journal.close()


MANY = [f"s{number:04}" for number in range(4 * SLICE)]


async def test_a_pause_of_many_holds_at_once_and_marks_vertices_in_slices(bench: Bench, machine: Machine) -> None:
    """The last vertex drifts before it is marked, and is not repaired.

    In the end all are marked, and all are checked after the pause.
    """
    async with started(bench, *MANY) as engine:
        await engine.settle()
        await engine.pauses.begin(["*"], "", None)
        assert sum(vertex.paused for vertex in engine.view.graph) == SLICE
        machine.drift(MANY[-1])
        await bench.elapse(10)
        assert machine.settings[MANY[-1]] == "drifted"
        assert said(engine)[MANY[-1]] == "drifted"
        assert all(vertex.paused for vertex in engine.view.graph)

        bench.forget()
        await engine.pauses.end(["*"])
        await bench.elapse(10)
        assert machine.settings[MANY[-1]] == "right"
        assert {line for line in machine.log if line.startswith("check ")} == {f"check {name}" for name in MANY}
        assert engine.converged


async def test_a_pause_that_ends_before_all_vertices_are_marked(bench: Bench, machine: Machine) -> None:
    """Drift is repaired, whichever pattern covers it, and no vertex stays marked."""
    async with started(bench, *MANY) as engine:
        await engine.settle()
        await engine.pauses.begin(["*s000*", "*s03*"], "", None)
        for name in (MANY[1], MANY[-1]):
            machine.drift(name)
        await asyncio.sleep(0)
        await engine.pauses.end(["*s000*"])
        await engine.pauses.end(["*s03*"])
        await bench.elapse(10)

        assert set(machine.settings.values()) == {"right"}
        assert not any(vertex.paused for vertex in engine.view.graph)
        assert engine.converged


async def test_a_pause_of_everything_marks_only_vertices_that_are_not_as_declared(
    bench: Bench, machine: Machine
) -> None:
    """The others find out when they drift. Drifted vertices count as drifted until the pause ends."""
    async with started(bench, *MANY) as engine:
        await engine.settle()
        await engine.pauses.begin([], "", None)
        machine.drift("s0007")
        await bench.elapse(10)
        assert not any(vertex.paused for vertex in engine.view.graph)
        assert engine.view.census.states() == {"ok": len(MANY) - 1, "drifted": 1}

        await engine.pauses.end([""])
        await engine.settle()
        assert engine.view.census.states() == {"ok": len(MANY)}
