"""The file in which earlier versions kept strings and host maps is taken over once."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast import Permanent, Temporary
from holdfast.agent.host.host import LocalHost
from holdfast.agent.records import world_file
from holdfast.agent.records.world_file import LIMIT

UID = 12345
CONTENT = {"strings": {"color": "red", "shape": "rund ü"}, "hosts": {"a/b": {"web1": "10.0.0.1", "web2": "10.0.0.2"}}}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[LocalHost]:
    """Return a host without an agent."""
    async with LocalHost(states=tmp_path, var_dir=tmp_path, facts={"id": "web1"}, durable=False) as host:
        yield host


def files(directory: Path) -> set[str]:
    """Return the names of the files that are not of the database."""
    return {each.name for each in directory.iterdir() if not each.name.startswith("records.db")}


async def test_the_content_is_taken_over_and_the_file_is_set_aside(host: LocalHost, tmp_path: Path) -> None:
    """Strings and host maps are there; the file keeps its content under another name, and its lock is removed."""
    (tmp_path / "world.json").write_text(json.dumps(CONTENT))
    (tmp_path / "world.lock").touch()

    assert [await host.world.string(key) for key in ("color", "shape")] == ["red", "rund ü"]
    assert await host.world.hosts("a/b") == CONTENT["hosts"]["a/b"]
    assert files(tmp_path) == {"world.json.old"}
    assert json.loads((tmp_path / "world.json.old").read_text()) == CONTENT


async def test_it_is_taken_over_once(tmp_path: Path) -> None:
    """A string that was removed afterwards does not come back."""
    (tmp_path / "world.json").write_text(json.dumps(CONTENT))
    for before in ("red", None):
        async with LocalHost(states=tmp_path, var_dir=tmp_path, durable=False) as host:
            assert await host.world.string("color") == before
            await host.world.set_string("color", None)


async def test_a_process_that_died_on_the_way_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is still there, so the next process takes it over again, in several transactions."""
    monkeypatch.setattr(world_file, "GROUP", 1)
    (tmp_path / "world.json").write_text(json.dumps(CONTENT))
    with monkeypatch.context() as dying:
        dying.setattr(world_file, "_set_aside", lambda _: (tmp_path / "nowhere").stat())
        async with LocalHost(states=tmp_path, var_dir=tmp_path, durable=False) as host:
            with pytest.raises(FileNotFoundError):
                await host.world.string("color")
    assert files(tmp_path) == {"world.json", "world.lock"}

    async with LocalHost(states=tmp_path, var_dir=tmp_path, durable=False) as host:
        assert await host.world.string("color") == "red"
    assert files(tmp_path) == {"world.json.old"}


async def test_a_file_without_content_or_no_file_is_no_error(host: LocalHost, tmp_path: Path) -> None:
    """A host that never used the world has no file, and gets none."""
    assert await host.world.string("color") is None
    assert files(tmp_path) == set()


async def test_a_file_that_another_process_takes_over_meanwhile_is_left_to_it(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was seen and before it could be locked, it may be set aside."""
    monkeypatch.setattr(world_file, "_exists", lambda _: True)

    assert await host.world.string("color") is None
    assert files(tmp_path) == set()


FOREIGN = {
    "half of it": '{"strings": {"x": "on',
    "a list": "[]",
    "no strings": '{"strings": 1}',
    "a number for a text": '{"strings": {"x": 1}}',
    "no hosts": '{"hosts": {"x": 1}}',
    "no text of a host": '{"hosts": {"x": {"web1": []}}}',
    "very deep": "[" * 200_000,
    "not UTF-8": "\udcff",
    "huge": '{"strings": {"x": "' + "x" * LIMIT + '"}}',
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
async def test_a_file_that_something_else_has_written_is_refused(host: LocalHost, tmp_path: Path, text: str) -> None:
    """The error says what to do, and nothing is lost. After that, the world can be used."""
    (tmp_path / "world.json").write_text(text, errors="surrogateescape")

    for use in (host.world.string("x"), host.world.hosts("x"), host.world.set_string("y", "z")):
        with pytest.raises(Permanent, match=r"world\.json: .*; remove it to start without it"):
            await use
    with pytest.raises(Permanent, match="remove it to start without it"):
        await anext(host.world.watch_string("x"))

    (tmp_path / "world.json").unlink()
    await host.world.set_string("y", "z")


async def test_waiting_for_a_lock_ends(host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a process of an earlier version keeps the lock, the wait ends, and no thread is blocked meanwhile."""
    monkeypatch.setattr(world_file, "TIMEOUT", 0.2)
    (tmp_path / "world.json").write_text(json.dumps(CONTENT))
    with (tmp_path / "world.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        reading = asyncio.ensure_future(host.world.string("color"))
        assert await asyncio.wait_for(host.blocking(int, "5"), DEADLINE) == 5
        with pytest.raises(Temporary, match="holds its lock"):
            await asyncio.wait_for(reading, DEADLINE)

    assert await host.world.string("color") == "red"


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
@pytest.mark.parametrize("name", ["world.json", "world.lock"])
async def test_a_link_of_a_user_is_not_followed(tmp_path: Path, name: str) -> None:
    """Neither the file nor its lock is opened through a link in a directory of a user; the link leads nowhere new."""
    users, target = tmp_path / "users", tmp_path / "target"
    users.mkdir()
    (users / "world.json").write_text("{}")
    (users / name).unlink(missing_ok=True)
    (users / name).symlink_to(target)
    if name == "world.json":
        target.write_text('{"strings": {"color": "red"}}')
    for path in (users, users / name):
        os.chown(path, UID, -1, follow_symlinks=False)

    async with LocalHost(states=tmp_path, var_dir=users, durable=False) as host:
        with pytest.raises((Permanent, OSError), match=r"cannot follow|symbolic links"):
            await host.world.string("color")
    assert target.exists() is (name == "world.json")
