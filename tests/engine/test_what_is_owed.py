"""A delivery that is owed belongs to what its ends manage, not to their IDs; it ends only when it was made, or when nobody wants it any more."""

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
    """The states are these now, and all is done."""
    await engine.swap(compilation(*states))
    await engine.settle()


@pytest.mark.parametrize(
    "states",
    [
        pytest.param((CONF, state("svc", listen=["conf"])), id="watch becomes listen"),
        pytest.param((CONF, state("svc", watch_any=["conf"])), id="watch becomes watch_any"),
        pytest.param(
            (state("settings", name="conf"), state("svc", watch=["settings"])), id="new ID of what has changed"
        ),
        pytest.param((CONF, state("server", name="svc", watch=["conf"])), id="new ID of what is told"),
        pytest.param(
            (state("svc", name="conf"), state("conf", name="svc", listen=["svc"])),
            id="IDs exchanged, and another spelling",
        ),
    ],
)
async def test_a_refresh_survives_what_changes_only_how_it_is_written(
    bench: Bench, states: tuple[tuple[Any, ...], ...]
) -> None:
    """The two ends manage the same things as before, and the one is refreshed for the other; once."""
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
    """Also when the agent is started again meanwhile."""
    async with owing(bench) as engine:
        await given(engine, *rest)
        assert "refresh svc" not in bench.machine.log
        await given(engine, *rest)
        await given(engine, CONF, SERVICE)

        assert bench.machine.log.count("refresh svc") == 1
        assert not bench.notices("owed-dropped")


async def test_what_was_not_owed_is_not_owed_after_an_absence(bench: Bench) -> None:
    """Declared again, the edge has missed nothing."""
    async with bench.running(CONF, SERVICE) as engine:
        await given(engine, CONF, state("other", watch=["conf"]))
        bench.machine.drift("conf")
        await bench.elapse(1)
        bench.forget()
        await given(engine, CONF, SERVICE, state("other", watch=["conf"]))

        assert "refresh svc" not in bench.machine.log


async def test_a_refresh_that_nobody_wants_any_more_is_dropped_and_told_once(bench: Bench) -> None:
    """The edge was removed while both ends stayed; written again, it has missed nothing."""
    async with owing(bench) as engine:
        await given(engine, CONF, state("svc", require=["conf"]))
        await given(engine, CONF, SERVICE)

        assert "refresh svc" not in bench.machine.log
        (notice,) = bench.notices("owed-dropped")
        assert notice.identity == "zsetting.present[svc]"
        assert "zsetting.present[conf]" in notice.text


async def test_a_corrected_command_is_told_what_the_wrong_one_was_owed(bench: Bench) -> None:
    """Its name is another one, its ID is not, and no state manages what it managed before."""
    async with owing(
        bench, CONF, state("hook", "zaction.run", name="reolad", onchanges=["conf"]), broken="reolad"
    ) as engine:
        await given(engine, CONF, state("hook", "zaction.run", name="reload", onchanges=["conf"]))

        assert bench.machine.log.count("run reload") == 1


async def test_an_action_with_another_id_is_the_same_action(bench: Bench) -> None:
    """It is not run again; another one beside it, which does the same under another ID, is."""
    async with bench.running(state("one", "zaction.run", name="hello")) as engine:
        await given(engine, state("two", "zaction.run", name="hello"))
        assert bench.machine.log.count("run hello") == 1
        await given(engine, state("two", "zaction.run", name="hello"), state("three", "zaction.run", name="hello"))
        assert bench.machine.log.count("run hello") == 2
        await given(engine, state("zero", "zaction.run", name="hello"), state("two", "zaction.run", name="hello"))
        assert bench.machine.log.count("run hello") == 2


@pytest.mark.parametrize("way", ["watch", "listen"])
async def test_a_false_guard_keeps_a_refresh(bench: Bench, tmp_path: Path, way: str) -> None:
    """It is owed until a guard lets it be made; the pass ends all the same."""
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


async def test_a_false_guard_answers_onchanges(bench: Bench, tmp_path: Path) -> None:
    """Whether to run was asked, and the answer was no."""
    mark = tmp_path / "mark"
    mark.touch()
    async with bench.running(
        CONF, state("hook", "zaction.run", meta={"creates": [str(mark)]}, onchanges=["conf"])
    ) as engine:
        mark.unlink()
        engine.recheck()
        await engine.settle()

        assert "run hook" not in bench.machine.log


async def test_a_change_of_one_that_has_just_left_is_owed(bench: Bench) -> None:
    """Its run was under way when the states changed, and ended after that; it is back under another ID."""
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


async def test_a_journal_of_an_older_version_is_taken_over(machine: Machine, tmp_path: Path) -> None:
    """What it owes is delivered, what it has delivered and done is not repeated; after that, IDs may change."""
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
    """The clocks as the journal reads them: `days` have passed by the one that only counts, and `jumped` more on the wall."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.days = self.jumped = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.days * DAY)
        monkeypatch.setattr(time, "time", lambda: 1e9 + (self.days + self.jumped) * DAY)


def absent(tmp_path: Path) -> Journal:
    """A journal in which the service is owed a refresh, and is not declared any more."""
    journal = Journal(tmp_path / "journal.db", durable=False)
    journal.adopt([OWED], THINGS)
    journal.changed("conf", [OWED])
    journal.adopt([], {"conf": "a file"})
    return journal


def test_what_is_owed_is_kept_for_thirty_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is dropped, and told."""
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
    """Neither while the agent runs, nor while there is none."""
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


def test_what_is_not_owed_anything_is_forgotten(tmp_path: Path) -> None:
    """States with names that change every day do not fill the journal."""
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


def test_a_part_of_the_states_says_nothing_of_the_others(tmp_path: Path) -> None:
    """What is not declared there is kept, owed or not."""
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


def test_names_are_not_written_down(tmp_path: Path) -> None:
    """The name of a command may hold a secret."""
    assert "secret" not in thing("cmd.run", "mysql --password=secret")


def test_who_manages_a_thing_now_has_its_key() -> None:
    """Before who had its ID; a key is given once."""
    known = {"a": End("x", "a"), "b": End("y", "b"), "c": End("z", "c", 5.0)}
    assert pair(known, {"a": "x", "b": "y"}) == {"a": "a", "b": "b"}
    assert pair(known, {"a": "y", "b": "x"}) == {"a": "b", "b": "a"}
    assert pair(known, {"a": "new", "b": "x"}) == {"a": "b", "b": "a"} or pair(known, {"a": "new", "b": "x"}) == {
        "b": "a",
        "a": "a 2",
    }
    assert pair(known, {"d": "z", "e": "z"}) == {"d": "c", "e": "e"}
