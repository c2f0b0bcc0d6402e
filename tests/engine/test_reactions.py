"""Commands that react: `watch_files` and `watch_cmd` make them due again.

Really run, on this host; some take seconds, for a watching command has to run a moment to count as armed, and is
restarted after a second.
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
from engine_bench import compilation, state
from fake_machine import FakeContext
from holdfast.agent.engine.decide.decisions import digest
from holdfast.agent.engine.model.events import Ran
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.host.outputs import EVENTS
from loop_time import callbacks


async def true(condition: Callable[[], bool]) -> None:
    """Wait until something holds outside of the agent."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return True


async def test_a_command_runs_again_for_each_change_of_a_file_that_it_watches(
    commands: Commands, tmp_path: Path
) -> None:
    """Though it is an action, and done: a recheck leaves it alone."""
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


async def test_a_guard_is_asked_when_a_watched_file_changes(commands: Commands, tmp_path: Path) -> None:
    """And decides. What `creates` names is watched as well."""
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
async def test_an_event_that_comes_when_nothing_may_run_is_kept(
    commands: Commands, tmp_path: Path, kept_by: str
) -> None:
    """The command is due until it may run; in noop the host has not converged meanwhile."""
    (tmp_path / "conf").write_text("1")
    async with commands.starting(commands.command(watch_files=[f"{tmp_path}/conf"])) as engine:
        await commands.ran(1)
        before = engine.options
        engine.set_options(
            before.model_copy(update={"noop": True} if kept_by == "noop" else {"disabled": ("cmd.run[x]",)})
        )
        await engine.settle()
        assert engine.converged
        seen = len(commands.outcomes("x"))
        (tmp_path / "conf").write_text("2")
        await commands.until(lambda _: len(commands.outcomes("x")) > seen)
        await engine.settle()
        assert (engine.converged, commands.count()) == (kept_by == "disabled", 1)
        engine.set_options(before)
        await engine.settle()

        assert (engine.converged, commands.count()) == (True, 2)


async def test_a_command_runs_again_for_each_line_of_its_watching_command(commands: Commands, tmp_path: Path) -> None:
    """Which runs as the command itself, and is ended with all that it has started when the state leaves."""
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


async def test_a_watching_command_that_ends_is_told_and_started_again(commands: Commands, tmp_path: Path) -> None:
    """With what it has started ended; its last line counts, the command that this has made due is not broken off, and nothing runs twice."""
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


async def test_a_command_that_has_failed_is_not_run_again_because_its_watch_was_started_again(
    commands: Commands, tmp_path: Path
) -> None:
    """Only an event runs it, or who asks for it."""
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


async def test_a_watching_command_that_is_missing_is_told(commands: Commands) -> None:
    """The host has not converged, whether the command ran before that was noticed or waits for its watch."""
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
def test_what_an_earlier_version_has_done_is_done(
    monkeypatch: pytest.MonkeyPatch, kind: str, arguments: dict[str, Any], known: str
) -> None:
    """An update of the agent runs nothing again. When this fails, a kind has a new field that has to be named in its `later`."""
    (call,) = compilation(state("x", kind, **arguments)).calls

    assert digest(Vertex(call, FakeContext("x"))).startswith(known)  # type: ignore[arg-type] # nothing is asked of it


@pytest.mark.parametrize(
    "change", [{"watch_files": ["/other"]}, {"hide_output": False}, {"watch_cmd": "exec sleep 1000"}]
)
async def test_what_a_command_watches_makes_it_no_other_command(commands: Commands, change: dict[str, object]) -> None:
    """Nor does a default that is written out."""
    async with commands.starting(commands.command()) as engine:
        await commands.ran(1)
        await engine.swap(compilation(commands.command(**change)))
        await engine.settle()

        assert [event.outcome.reason for event in commands.events if isinstance(event, Ran)] in (["", "action"], [""])
        assert commands.count() == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
async def test_a_watching_command_that_writes_without_end_disturbs_nothing(commands: Commands, tmp_path: Path) -> None:
    """Of another user: drift elsewhere is repaired meanwhile, events come at a fixed pace, and memory and event loop stay free. It is watched for a second."""
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
