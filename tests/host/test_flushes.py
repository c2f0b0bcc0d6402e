"""Directories on the disk: each once for many files, before anything else acts, and what is told when that fails."""

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

from holdfast.agent.host import flushes
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.starting import CommandSpec
from holdfast.resources import paths
from holdfast.resources.context import Report
from holdfast.resources.paths.place import SafeDirectory


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens: directories that are flushed, and commands that are run."""
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
    """A real one."""
    async with LocalHost(states=top, var_dir=top / "var", durable=durable) as one:
        yield one


async def write(one: LocalHost, path: Path, *, leaf: bool = True) -> None:
    """As a resource does on which another depends, or none does."""
    ctx = one.context("x")
    ctx.report = Report(leaf=leaf)
    path.parent.mkdir(exist_ok=True)
    await ctx.write_file(str(path), b"text", mode=0o644)


async def test_a_directory_is_flushed_once_for_many_files_before_a_command(tmp_path: Path, told: list[str]) -> None:
    """And not again when nothing was written since."""
    async with host(tmp_path) as one:
        for name in ("a", "b", "c"):
            await write(one, tmp_path / "d" / name)
        assert told == []
        for _ in range(2):
            await one.context("y").run("true")
        assert told == ["flush d", "run true", "run true"]


async def test_what_others_depend_on_is_flushed_at_once(tmp_path: Path, told: list[str]) -> None:
    """Before `write_file` returns."""
    async with host(tmp_path) as one:
        await write(one, tmp_path / "d/a", leaf=False)
        assert told == ["flush d"]
    assert told == ["flush d"]


async def test_the_end_flushes_what_is_left(tmp_path: Path, told: list[str]) -> None:
    """However it comes."""
    with contextlib.suppress(KeyboardInterrupt):
        async with host(tmp_path) as one:
            await write(one, tmp_path / "d/a")
            await write(one, tmp_path / "e/a")
            raise KeyboardInterrupt
    assert sorted(told) == ["flush d", "flush e"]


async def test_a_directory_is_flushed_soon_if_nothing_else_happens(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an agent that has nothing more to do."""
    monkeypatch.setattr(flushes, "DELAY", 0.001)
    async with host(tmp_path) as one:
        await write(one, tmp_path / "d/a")
        async with asyncio.timeout(10):
            while not told:
                await asyncio.sleep(0)
    assert told == ["flush d"]


async def test_nothing_is_flushed_where_nothing_has_to_last(tmp_path: Path, told: list[str]) -> None:
    """`durable: false`."""
    async with host(tmp_path, durable=False) as one:
        await write(one, tmp_path / "d/a")
        await write(one, tmp_path / "d/b", leaf=False)
    assert told == []


async def test_a_flush_that_fails_is_told_until_it_works(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broken disk does not keep commands from being run, nor other directories from being flushed."""
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
            == f"cannot flush {tmp_path}/d: Input/output error; what was written there may be lost with the power"
        )

        await write(one, tmp_path / "e/b")
        await one.flushes.done()
        assert one.health.conditions == (condition,)
        broken = False
        await write(one, tmp_path / "d/b")
        await one.flushes.done()
        assert one.health.conditions == ()


async def test_a_directory_that_is_gone_has_nothing_to_be_flushed(tmp_path: Path, told: list[str]) -> None:
    """It went with all that was in it."""
    async with host(tmp_path) as one:
        await write(one, tmp_path / "d/a")
        (tmp_path / "d/a").unlink()
        (tmp_path / "d").rmdir()
    assert (told, one.flushes.trouble) == ([], "")


async def test_a_disk_that_does_not_answer_holds_up_nobody_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits goes on after a while; it is told, and what was written elsewhere since is flushed."""
    go, others = threading.Event(), []

    def sync(directory: SafeDirectory) -> None:
        if directory.path.endswith("/d"):
            go.wait(20)
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


async def test_who_waits_sees_the_flush_that_is_under_way_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the one who began it has given up."""
    go, ended = threading.Event(), []

    def sync(_: SafeDirectory) -> None:
        go.wait(20)
        ended.append(True)

    monkeypatch.setattr(SafeDirectory, "sync", sync)
    async with host(tmp_path) as one:
        one.flushes.owe(paths.directory(str(tmp_path)))
        first, second = asyncio.create_task(one.flushes.done()), asyncio.create_task(one.flushes.done())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert not second.done()
        go.set()
        await second
        assert ended == [True]
