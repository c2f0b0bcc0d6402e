"""A pending refresh belongs to the managed things, not to IDs. It ends when it is delivered or no longer declared."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from engine_bench import Bench, State, compilation, state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.edge_keys import DAY, End, pair, thing

CONF, SERVICE = state("conf"), state("svc", watch=["conf"])
OWED = ("conf", "svc", "watch")
THINGS = {"conf": "a file", "svc": "a service"}


@asynccontextmanager
async def owing(bench: Bench, *states: State, broken: str = "refresh svc") -> AsyncIterator[Engine]:
    """Yield an engine that has changed `conf` and could not refresh `svc`, which is possible from now on."""
    bench.machine.settings["svc"] = "right"
    bench.machine.broken[broken] = Permanent("not now")
    async with bench.running(*(states or (CONF, SERVICE))) as engine:
        bench.machine.broken.clear()
        bench.forget()
        yield engine


async def given(engine: Engine, *states: tuple[Any, ...]) -> None:
    """Swap to these states and wait for the end of the pass."""
    await engine.swap(compilation(*states))
    await engine.settle()


@pytest.mark.parametrize(
    "states",
    [
        pytest.param((CONF, state("svc", listen=["conf"])), id="watch becomes listen"),
        pytest.param((CONF, state("svc", watch_any=["conf"])), id="watch becomes watch_any"),
        pytest.param(
            (state("settings", name="conf"), state("svc", watch=["settings"])), id="new ID of the changed state"
        ),
        pytest.param((CONF, state("server", name="svc", watch=["conf"])), id="new ID of the subscriber"),
        pytest.param(
            (state("svc", name="conf"), state("conf", name="svc", listen=["svc"])),
            id="IDs exchanged, and another spelling",
        ),
    ],
)
async def test_a_refresh_survives_another_spelling_of_the_same_states(
    bench: Bench, states: tuple[tuple[Any, ...], ...]
) -> None:
    """Both ends manage the same things as before, and the refresh is delivered once."""
    async with owing(bench) as engine:
        await given(engine, *states)

        assert bench.machine.log.count("refresh svc") == 1
        assert not bench.notices("owed-dropped")
        await given(engine, CONF, SERVICE)
        assert bench.machine.log.count("refresh svc") == 1


@pytest.mark.parametrize("rest", [(CONF,), (state("svc"),), ()], ids=["the service", "the file", "both"])
async def test_a_refresh_waits_for_an_end_that_is_commented_out(
    bench: Bench, rest: tuple[tuple[Any, ...], ...]
) -> None:
    """The refresh waits even if the agent is restarted meanwhile."""
    async with owing(bench) as engine:
        await given(engine, *rest)
        assert "refresh svc" not in bench.machine.log
        await given(engine, *rest)
        await given(engine, CONF, SERVICE)

        assert bench.machine.log.count("refresh svc") == 1
        assert not bench.notices("owed-dropped")


async def test_an_edge_that_returns_delivers_no_changes_from_its_absence(bench: Bench) -> None:
    """The returning edge counts as a new one."""
    async with bench.running(CONF, SERVICE) as engine:
        await given(engine, CONF, state("other", watch=["conf"]))
        bench.machine.drift("conf")
        await bench.elapse(1)
        bench.forget()
        await given(engine, CONF, SERVICE, state("other", watch=["conf"]))

        assert "refresh svc" not in bench.machine.log


async def test_a_refresh_that_is_no_longer_declared_is_dropped_and_reported_once(bench: Bench) -> None:
    """The edge was removed while both ends stayed. If it returns, it is a new edge."""
    async with owing(bench) as engine:
        await given(engine, CONF, state("svc", require=["conf"]))
        await given(engine, CONF, SERVICE)

        assert "refresh svc" not in bench.machine.log
        (notice,) = bench.notices("owed-dropped")
        assert notice.identity == "zsetting.present[svc]"
        assert "zsetting.present[conf]" in notice.text


async def test_a_corrected_command_gets_the_pending_refresh_of_the_wrong_one(bench: Bench) -> None:
    """It has another name and the same ID, and no state manages the old thing."""
    async with owing(
        bench, CONF, state("hook", "zaction.run", name="reolad", onchanges=["conf"]), broken="reolad"
    ) as engine:
        await given(engine, CONF, state("hook", "zaction.run", name="reload", onchanges=["conf"]))

        assert bench.machine.log.count("run reload") == 1


async def test_an_action_with_another_id_is_the_same_action(bench: Bench) -> None:
    """It does not run again. A second state that does the same under another ID runs."""
    async with bench.running(state("one", "zaction.run", name="hello")) as engine:
        await given(engine, state("two", "zaction.run", name="hello"))
        assert bench.machine.log.count("run hello") == 1
        await given(engine, state("two", "zaction.run", name="hello"), state("three", "zaction.run", name="hello"))
        assert bench.machine.log.count("run hello") == 2
        await given(engine, state("zero", "zaction.run", name="hello"), state("two", "zaction.run", name="hello"))
        assert bench.machine.log.count("run hello") == 2


@pytest.mark.parametrize("way", ["watch", "listen"])
async def test_a_false_guard_keeps_a_refresh_pending(bench: Bench, tmp_path: Path, way: str) -> None:
    """It stays pending until the guard permits it; the pass ends."""
    mark = tmp_path / "mark"
    mark.touch()
    bench.machine.settings["svc"] = "right"
    states = CONF, state("svc", meta={"creates": [str(mark)]}, **{way: ["conf"]})
    async with bench.running(*states) as engine:
        assert "refresh svc" not in bench.machine.log
        mark.unlink()
        engine.recheck()
        await engine.settle()
        assert bench.machine.log.count("refresh svc") == 1
        engine.recheck()
        await engine.settle()
        assert bench.machine.log.count("refresh svc") == 1


async def test_a_false_guard_decides_onchanges(bench: Bench, tmp_path: Path) -> None:
    """The change has had its answer: do not run."""
    mark = tmp_path / "mark"
    mark.touch()
    async with bench.running(
        CONF, state("hook", "zaction.run", meta={"creates": [str(mark)]}, onchanges=["conf"])
    ) as engine:
        mark.unlink()
        engine.recheck()
        await engine.settle()

        assert "run hook" not in bench.machine.log


async def test_a_change_of_a_resource_that_has_just_left_is_delivered(bench: Bench) -> None:
    """Its run ended after the swap, and the resource returns under another ID."""
    async with bench.running(CONF, SERVICE) as engine:
        bench.machine.hold("apply conf")
        bench.machine.drift("conf")
        await bench.elapse(1)
        bench.forget()
        await engine.swap(compilation(state("svc")))
        bench.machine.free()
        await engine.settle()
        await bench.elapse(1)
        await given(engine, state("settings", name="conf"), state("svc", watch=["settings"]))

        assert bench.machine.log.count("refresh svc") == 1


async def test_the_journal_of_an_older_version_is_migrated(machine: Machine, tmp_path: Path) -> None:
    """Pending refreshes are delivered, finished work is not repeated, and IDs may change afterwards."""
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as old:
        old.executescript(Path(__file__).with_name("journal_of_version_0.sql").read_text())
    old.close()
    machine.settings |= {"conf": "right", "svc": "right", "told": "right"}
    bench = Bench(machine, path)
    hook = state("hook", "zaction.run", onchanges=["conf"])
    once = state("once", "zaction.run")
    machine.broken["hook"] = Permanent("not now")
    async with bench.running(CONF, SERVICE, hook, once, state("told", watch=["conf"])) as engine:
        assert [line for line in machine.log if "check" not in line] == ["refresh svc", "run hook"]
        machine.broken.clear()
        bench.forget()
        hook, once = (
            state("hook 2", "zaction.run", name="hook", onchanges=["conf"]),
            state("once 2", "zaction.run", name="once"),
        )
        await given(engine, CONF, SERVICE, hook, once, state("told", watch=["conf"]))
        assert [line for line in machine.log if "check" not in line] == ["run hook"]


class Calendar:
    """The clocks that the journal reads.

    `days` have passed on the monotonic clock, and `jumped` more on the system clock.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.days = self.jumped = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.days * DAY)
        monkeypatch.setattr(time, "time", lambda: 1e9 + (self.days + self.jumped) * DAY)


def absent(tmp_path: Path) -> Journal:
    """Return a journal with a pending refresh of a service that is no longer declared."""
    journal = Journal(tmp_path / "journal.db", durable=False)
    journal.adopt([OWED], THINGS)
    journal.changed("conf", [OWED])
    journal.adopt([], {"conf": "a file"})
    return journal


def test_a_pending_refresh_is_kept_for_thirty_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal drops it after that time, with a report."""
    calendar = Calendar(monkeypatch)
    journal = absent(tmp_path)
    calendar.days = 29
    assert not journal.adopt([], {"conf": "a file"}).dropped
    calendar.days = 31
    assert [*journal.adopt([], {"conf": "a file"}).dropped] == [OWED]
    assert not journal.adopt([OWED], THINGS).dropped
    assert not journal.pending(OWED)
    journal.close()


@pytest.mark.parametrize("jump", [-4000, 4000])
def test_a_clock_that_jumps_drops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    """The clock may jump while an agent runs, or while none runs."""
    calendar = Calendar(monkeypatch)
    journal = absent(tmp_path)
    calendar.jumped += jump
    assert not journal.adopt([], {"conf": "a file"}).dropped
    journal.close()
    calendar.jumped += jump
    journal = Journal(tmp_path / "journal.db", durable=False)
    assert not journal.adopt([], {"conf": "a file"}).dropped
    journal.adopt([OWED], THINGS)
    assert journal.pending(OWED)
    journal.close()


def test_removed_states_without_pending_refreshes_are_forgotten(tmp_path: Path) -> None:
    """States whose names change every day do not fill the journal."""
    journal = Journal(tmp_path / "journal.db", durable=False)
    for day in range(50):
        journal.adopt([(f"conf {day}", "svc", "watch")], {f"conf {day}": f"file {day}", "svc": "a service"})
        journal.changed(f"conf {day}", [(f"conf {day}", "svc", "watch")])
        journal.deliver([((f"conf {day}", "svc", "watch"), 1)])
    journal.close()
    with closing(sqlite3.connect(tmp_path / "journal.db")) as file:
        assert all(
            file.execute(f"select count(*) from {table}").fetchone()[0] < 5
            for table in ("counter", "delivered", "ends")
        )


def test_a_run_of_some_states_does_not_affect_the_others(tmp_path: Path) -> None:
    """What the journal knows of undeclared states is kept."""
    journal = Journal(tmp_path / "journal.db", durable=False)
    journal.adopt([OWED], {**THINGS, "once": "a command"})
    journal.changed("conf", [OWED])
    journal.done("once", "digest", 1.0)
    assert journal.adopt([], {"other": "a thing"}, whole=False).keys == {"other": "other"}
    assert journal.adopt([], {"settings": "a file"}, whole=False).keys == {"settings": "conf"}
    journal.adopt([OWED], {**THINGS, "once": "a command"})

    assert journal.pending(OWED)
    assert journal.done_at("once", "digest") == 1.0
    journal.close()


def test_the_journal_contains_no_names(tmp_path: Path) -> None:
    """The name of a command may contain a secret."""
    assert "secret" not in thing("cmd.run", "mysql --password=secret")


def test_the_key_of_a_thing_belongs_to_the_state_that_manages_it() -> None:
    """The key does not belong to the state with the old ID. Each key belongs to one state."""
    known = {"a": End("x", "a"), "b": End("y", "b"), "c": End("z", "c", 5.0)}
    assert pair(known, {"a": "x", "b": "y"}) == {"a": "a", "b": "b"}
    assert pair(known, {"a": "y", "b": "x"}) == {"a": "b", "b": "a"}
    assert pair(known, {"a": "new", "b": "x"}) == {"a": "b", "b": "a"} or pair(known, {"a": "new", "b": "x"}) == {
        "b": "a",
        "a": "a 2",
    }
    assert pair(known, {"d": "z", "e": "z"}) == {"d": "c", "e": "e"}
