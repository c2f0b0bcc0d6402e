"""Commands that react to events: `watch_files` and `watch_cmd` run them again.

The tests run real commands on this host. Some take seconds, because a watching command counts as armed after a moment
and is restarted after a second.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from command_bench import Commands
from deadline import DEADLINE
from engine_bench import compilation, state, use
from fake_machine import FakeContext
from holdfast.agent.engine.decide.done import digest
from holdfast.agent.engine.model.events import Ran
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.host.outputs import EVENTS
from loop_time import callbacks


async def true(condition: Callable[[], bool]) -> None:
    """Wait until a condition outside the agent holds."""
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.005)


def gone(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return True


async def test_a_command_runs_again_for_each_change_of_a_watched_file(commands: Commands, tmp_path: Path) -> None:
    """A recheck does not run it."""
    (tmp_path / "conf").write_text("1")
    async with commands.starting(commands.command(watch_files=[f"{tmp_path}/conf", f"{tmp_path}/more"])) as engine:
        await commands.ran(1)
        engine.recheck("recheck")
        await engine.settle()
        assert commands.count() == 1
        (tmp_path / "conf").write_text("2")
        await commands.ran(2)
        (tmp_path / "more").write_text("made")
        await commands.ran(3)
        await engine.settle()

        assert commands.outcomes("x")[-1].cause == "drift"
        assert engine.converged


async def test_guards_run_when_a_watched_file_changes(commands: Commands, tmp_path: Path) -> None:
    """The guard decides whether the command runs. Paths of `creates` are watched, too."""
    made = tmp_path / "made"
    async with commands.starting(
        commands.command(
            {"creates": [str(made)]},
            name=f"echo ran >> {commands.runs}; touch {made}",
            watch_files=[f"{tmp_path}/conf"],
        )
    ) as engine:
        await commands.ran(1)
        await engine.settle()
        seen = len(commands.outcomes("x"))
        (tmp_path / "conf").write_text("2")
        await commands.until(lambda _: len(commands.outcomes("x")) > seen)
        assert (commands.outcomes("x")[-1].reason, commands.count()) == ("creates", 1)
        made.unlink()
        await true(lambda: commands.count() == 2)


@pytest.mark.parametrize("kept_by", ["noop", "disabled"])
async def test_an_event_in_noop_or_while_disabled_is_kept(commands: Commands, tmp_path: Path, kept_by: str) -> None:
    """The command runs as soon as it may. In noop, the host has not converged until then."""
    (tmp_path / "conf").write_text("1")
    async with commands.starting(commands.command(watch_files=[f"{tmp_path}/conf"])) as engine:
        await commands.ran(1)
        before = engine.options
        await use(engine, **({"noop": True} if kept_by == "noop" else {"disabled": ("cmd.run[x]",)}))
        await engine.settle()
        assert engine.converged
        seen = len(commands.outcomes("x"))
        (tmp_path / "conf").write_text("2")
        await commands.until(lambda _: len(commands.outcomes("x")) > seen)
        await engine.settle()
        assert (engine.converged, commands.count()) == (kept_by == "disabled", 1)
        await use(engine, noop=before.noop, disabled=before.disabled)
        await engine.settle()

        assert (engine.converged, commands.count()) == (True, 2)


async def test_a_command_runs_again_for_each_line_of_its_watching_command(commands: Commands, tmp_path: Path) -> None:
    """The watching command has the user, environment and directory of the command.

    It ends with all its child processes when the state leaves.
    """
    os.mkfifo(tmp_path / "events")
    watching = 'sleep 1000 & echo $! > "$TOP/child"; pwd > "$TOP/cwd"; exec cat <> "$TOP/events"'
    async with commands.starting(
        commands.command(watch_cmd=watching, env={"TOP": str(tmp_path)}, cwd="/usr", timeout=15)
    ) as engine:
        await commands.ran(1)
        await true((tmp_path / "cwd").exists)
        for number in (2, 3):
            (tmp_path / "events").write_text("something\n")
            await commands.ran(number)
        await true(lambda: (tmp_path / "cwd").read_text() == "/usr\n")
        await engine.settle()
        assert engine.converged
        child = int((tmp_path / "child").read_text())
        assert not gone(child)

    await true(lambda: gone(child))
    assert commands.count() == 3


async def test_a_watching_command_that_ends_is_reported_and_restarted(commands: Commands, tmp_path: Path) -> None:
    """Its child processes are ended, its last line counts, the current run continues, and nothing runs twice."""
    os.mkfifo(tmp_path / "go")
    watching = (
        f"sleep 1000 & echo $! >> {tmp_path}/children; read line < {tmp_path}/go; echo event; echo too bad >&2; exit 3"
    )
    async with commands.starting(
        commands.command(watch_cmd=watching, name=f"sleep 0.3; echo ran >> {commands.runs}")
    ) as engine:
        await commands.ran(1)
        (tmp_path / "go").write_text("now\n")
        await commands.until(lambda _: bool(commands.notices("watch-failed")))
        row = engine.status()[0]
        assert not engine.converged
        assert "the watching command ended with status 3: too bad" in commands.notices("watch-failed")[0].text
        assert row["state"] in {"unwatched", "running"}
        await commands.ran(2)
        await commands.until(lambda _: bool(commands.notices("watched-again")))
        await engine.settle()
        first = int((tmp_path / "children").read_text().split()[0])

        await true(lambda: gone(first))
        assert (engine.converged, commands.count()) == (True, 2)
        assert not commands.notices("interrupted")


async def test_a_restarted_watch_does_not_run_a_failed_command(commands: Commands, tmp_path: Path) -> None:
    """Only an event or an operator runs it."""
    name = f"echo ran >> {commands.runs}; exit 1"
    async with commands.starting(
        commands.command(
            name=name,
            watch_cmd=f"[ -e {tmp_path}/twice ] && exec sleep 1000; touch {tmp_path}/twice; read line < {tmp_path}/go",
        )
    ) as engine:
        os.mkfifo(tmp_path / "go")
        await commands.ran(1)
        await engine.settle()
        (tmp_path / "go").write_text("end\n")
        await commands.until(lambda _: bool(commands.notices("watched-again")))
        await engine.settle()

        assert commands.count() == 1


async def test_a_missing_watching_command_is_reported(commands: Commands) -> None:
    """The host has not converged, whether the command ran before that was noticed or not."""
    async with commands.starting(commands.command(watch_cmd="/nonesuch/watcher")) as engine:
        await commands.until(lambda _: bool(commands.notices("watch-failed")))
        await engine.settle()
        row = engine.status()[0]

        assert row["state"] in {"failed", "unwatched"}
        assert not engine.converged
        assert "not found" in row["comment"]


@pytest.mark.parametrize(
    ("kind", "arguments", "known"),
    [
        ("cmd.run", {"name": "true"}, "673d5f967b8f383b"),
        ("cmd.run", {"name": "true", "env": {"A": "1"}, "timeout": 5}, "78f1c3c049b158aa"),
        ("cmd.script", {"name": "true", "args": "x"}, "18b11ca678ab00cc"),
        ("file.touch", {"name": "/x"}, "f9fd71d7987a5406"),
        ("test.nop", {"name": "true"}, "bc297aa664ef2ace"),
    ],
)
def test_actions_of_an_earlier_version_do_not_run_again(
    monkeypatch: pytest.MonkeyPatch, kind: str, arguments: dict[str, Any], known: str
) -> None:
    """An update of the agent runs nothing.

    If this test fails, a kind has a new field that must be added to its `later`.
    """
    (call,) = compilation(state("x", kind, **arguments)).calls

    assert digest(Vertex(call, FakeContext("x"))).startswith(known)  # type: ignore[arg-type] # nothing is asked of it


@pytest.mark.parametrize(
    "change", [{"watch_files": ["/other"]}, {"hide_output": False}, {"watch_cmd": "exec sleep 1000"}]
)
async def test_a_change_of_what_a_command_watches_does_not_run_it(
    commands: Commands, change: dict[str, object]
) -> None:
    """Writing out a default value does not run the command, either."""
    async with commands.starting(commands.command()) as engine:
        await commands.ran(1)
        await engine.swap(compilation(commands.command(**change)))
        await engine.settle()

        assert [event.outcome.reason for event in commands.events if isinstance(event, Ran)] in (["", "action"], [""])
        assert commands.count() == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
async def test_a_watching_command_that_writes_without_end_disturbs_no_other(commands: Commands, tmp_path: Path) -> None:
    """It runs for a second as another user.

    Other drift is repaired, events come at a fixed rate, and memory and event loop stay free.
    """
    page = tmp_path / "page"
    flood = {"name": "true", "watch_cmd": "exec yes", "runas": "daemon"}
    managed = state("y", "file.managed", name=str(page), contents="right")
    async with commands.starting(commands.command(**flood), managed):
        await commands.ran(2)
        await true(page.exists)
        began, runs, memory = time.monotonic(), len(commands.outcomes("x")), psutil.Process().memory_info().rss
        with callbacks() as taken:
            while time.monotonic() < began + 1:
                page.write_text("wrong")
                await true(lambda: page.read_text() == "right\n")
        took = time.monotonic() - began
        grown = psutil.Process().memory_info().rss - memory

    assert len(commands.outcomes("x")) - runs <= took / EVENTS + 3
    assert grown < 4 << 20
    assert max(taken) < 0.05
