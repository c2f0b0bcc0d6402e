"""Directories are flushed once for many files, before anything relies on them; failures are reported."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.host import flushes
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.starting import CommandSpec
from holdfast.resources import paths
from holdfast.resources.assignment import Assignment
from holdfast.resources.paths.place import SafeDirectory


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the flushed directories and the commands, in order."""
    said: list[str] = []
    sync = SafeDirectory.sync

    def noted(directory: SafeDirectory) -> None:
        sync(directory)
        said.append(f"flush {Path(directory.path).name}")

    async def run(command: CommandSpec, _: object) -> None:
        said.append(f"run {command.argv[0]}")

    monkeypatch.setattr(SafeDirectory, "sync", noted)
    monkeypatch.setattr("holdfast.agent.host.run.run", run)
    return said


@asynccontextmanager
async def host(top: Path, *, durable: bool = True) -> AsyncIterator[LocalHost]:
    """Yield a real host."""
    async with LocalHost(states=top, var_dir=top / "var", durable=durable) as one:
        yield one


async def write(one: LocalHost, path: Path, *, leaf: bool = True) -> None:
    """Write a file, with or without a resource that depends on it."""
    ctx = one.context("x")
    ctx.assignment = Assignment(leaf=leaf)
    path.parent.mkdir(exist_ok=True)
    await ctx.write_file(str(path), b"text", mode=0o644)


async def test_a_directory_is_flushed_once_for_many_files_before_a_command(tmp_path: Path, told: list[str]) -> None:
    """A directory is flushed once, before the command, and not again if nothing was written since."""
    async with host(tmp_path) as one:
        for name in ("a", "b", "c"):
            await write(one, tmp_path / "d" / name)
        assert told == []
        for _ in range(2):
            await one.context("y").run("true")
        assert told == ["flush d", "run true", "run true"]


async def test_a_file_that_others_depend_on_is_flushed_at_once(tmp_path: Path, told: list[str]) -> None:
    """Its directory is flushed before `write_file` returns."""
    async with host(tmp_path) as one:
        await write(one, tmp_path / "d/a", leaf=False)
        assert told == ["flush d"]
    assert told == ["flush d"]


async def test_the_end_of_a_run_flushes_the_rest(tmp_path: Path, told: list[str]) -> None:
    """However the run ends, the remaining directories are flushed."""
    with contextlib.suppress(KeyboardInterrupt):
        async with host(tmp_path) as one:
            await write(one, tmp_path / "d/a")
            await write(one, tmp_path / "e/a")
            raise KeyboardInterrupt
    assert sorted(told) == ["flush d", "flush e"]


async def test_a_directory_is_flushed_soon_if_nothing_else_happens(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that has nothing else to do flushes the directory soon."""
    monkeypatch.setattr(flushes, "DELAY", 0.001)
    async with host(tmp_path) as one:
        await write(one, tmp_path / "d/a")
        async with asyncio.timeout(DEADLINE):
            while not told:
                await asyncio.sleep(0)
    assert told == ["flush d"]


async def test_nothing_is_flushed_if_not_durable(tmp_path: Path, told: list[str]) -> None:
    """With `durable: false` nothing is flushed."""
    async with host(tmp_path, durable=False) as one:
        await write(one, tmp_path / "d/a")
        await write(one, tmp_path / "d/b", leaf=False)
    assert told == []


async def test_a_failing_flush_is_reported_until_it_succeeds(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken disk delays neither commands nor the flushes of other directories."""
    fsync, broken = os.fsync, True

    def fails(descriptor: int) -> None:
        if broken and Path(f"/proc/self/fd/{descriptor}").readlink().name == "d":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fails)
    async with host(tmp_path) as one:
        await write(one, tmp_path / "d/a")
        await write(one, tmp_path / "e/a")
        await one.context("y").run("true")
        assert told == ["flush e", "run true"]
        (condition,) = one.health.conditions
        assert condition.code == "not-flushed"
        assert (
            condition.text
            == f"cannot flush {tmp_path}/d: Input/output error; a power failure may lose files written there"
        )

        await write(one, tmp_path / "e/b")
        await one.flushes.done()
        assert one.health.conditions == (condition,)
        broken = False
        await write(one, tmp_path / "d/b")
        await one.flushes.done()
        assert one.health.conditions == ()


async def test_a_removed_directory_needs_no_flush(tmp_path: Path, told: list[str]) -> None:
    """A directory that was removed needs no flush."""
    async with host(tmp_path) as one:
        await write(one, tmp_path / "d/a")
        (tmp_path / "d/a").unlink()
        (tmp_path / "d").rmdir()
    assert (told, one.flushes.trouble) == ([], "")


async def test_a_disk_that_hangs_delays_nothing_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting ends after a while; health reports the disk, and files written elsewhere since then are flushed."""
    go, others = threading.Event(), []

    def sync(directory: SafeDirectory) -> None:
        if directory.path.endswith("/d"):
            go.wait(DEADLINE)
        else:
            others.append(directory.path)

    monkeypatch.setattr(flushes, "LONG", 0.001)
    monkeypatch.setattr(SafeDirectory, "sync", sync)
    try:
        async with host(tmp_path) as one:
            await write(one, tmp_path / "d/a")
            await one.flushes.done()
            assert one.flushes.trouble == f"{tmp_path}/d: the disk has not answered for 0.001 s"
            monkeypatch.setattr(flushes, "LONG", 10)
            await write(one, tmp_path / "e/a")
            await one.flushes.done()
            assert others == [f"{tmp_path}/e"]
    finally:
        go.set()


async def test_a_second_waiter_sees_the_end_of_a_running_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush ends for all waiters, even if the one that started it was cancelled."""
    go, ended = threading.Event(), []

    def sync(_: SafeDirectory) -> None:
        go.wait(DEADLINE)
        ended.append(True)

    monkeypatch.setattr(SafeDirectory, "sync", sync)
    async with host(tmp_path) as one:
        one.flushes.add(paths.directory(str(tmp_path)))
        first, second = asyncio.create_task(one.flushes.done()), asyncio.create_task(one.flushes.done())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert not second.done()
        go.set()
        await second
        assert ended == [True]
