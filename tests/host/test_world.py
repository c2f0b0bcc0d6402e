"""`world` on one host: strings and host maps in a file, with watches."""

from __future__ import annotations

import asyncio
import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Permanent, Temporary
from holdfast.agent.host import world
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.world import LIMIT


@pytest.fixture
async def host(tmp_path: Path):
    """Return a host whose agent keeps its files in a directory of the test."""
    async with LocalHost(states=tmp_path, var_dir=tmp_path, facts={"id": "web1"}, durable=False) as host:
        yield host


async def test_strings_are_set_read_and_removed(host: LocalHost, tmp_path: Path):
    """Strings are set, read and removed, in a file that no other user can read."""
    world = host.world
    assert await world.string("color") is None
    await world.set_string("color", "red")
    await world.set_string("shape", "round")
    await world.set_string("shape", None)

    assert (await world.string("color"), await world.string("shape")) == ("red", None)
    assert (tmp_path / "world.json").stat().st_mode & 0o777 == 0o600


async def test_each_host_has_its_entry_in_a_host_map(host: LocalHost):
    """Here the entry is under the name of this host."""
    world = host.world
    await world.set_host("addresses", "10.0.0.1")
    assert await world.hosts("addresses") == {"web1": "10.0.0.1"}
    await world.set_host("addresses", None)

    assert await world.hosts("addresses") == {}


async def test_a_watch_reports_its_own_key_only(host: LocalHost):
    """A watch reports each new value of its key once, also after a change by this process."""
    world = host.world
    watch, hosts = world.watch_string("color"), world.watch_hosts("addresses")
    await anext(watch)
    await anext(hosts)
    waiting, also = asyncio.ensure_future(anext(watch)), asyncio.ensure_future(anext(hosts))
    await world.set_string("shape", "round")
    await world.set_string("color", "red")

    await asyncio.wait_for(waiting, 10)
    assert not also.done()
    await world.set_host("addresses", "10.0.0.1")
    await asyncio.wait_for(also, 10)


async def test_a_change_by_another_process_is_reported(host: LocalHost, tmp_path: Path):
    """A one-shot run beside the agent can change a value."""
    await host.world.set_string("color", "red")
    watch = host.world.watch_string("color")
    await anext(watch)
    waiting = asyncio.ensure_future(anext(watch))
    content = json.loads((tmp_path / "world.json").read_text())
    content["strings"]["color"] = "blue"
    script = (
        "import sys, os; open(sys.argv[1] + '.new', 'w').write(sys.argv[2]); "
        "os.rename(sys.argv[1] + '.new', sys.argv[1])"
    )
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script, str(tmp_path / "world.json"), json.dumps(content)], check=True
    )

    await asyncio.wait_for(waiting, 10)
    assert await host.world.string("color") == "blue"


async def test_concurrent_changes_are_all_kept(host: LocalHost):
    """No change is lost between reading and writing."""
    await asyncio.gather(*(host.world.set_string(f"key{n}", str(n)) for n in range(20)))

    assert [await host.world.string(f"key{n}") for n in range(20)] == [str(n) for n in range(20)]


@pytest.mark.parametrize("key", ["", "x" * 300])
async def test_names_are_limited(host: LocalHost, key: str):
    """An empty name and a long name are refused."""
    with pytest.raises(Permanent, match="a name has 1 to 256 characters"):
        await host.world.set_string(key, "x")


async def test_a_value_that_is_not_text_is_refused(host: LocalHost):
    """Bytes that are not UTF-8, for example from a file name, could not be read again."""
    with pytest.raises(Permanent, match="it is not text"):
        await host.world.set_string("x", "a\udcff")
    with pytest.raises(Permanent, match="it is not text"):
        await host.world.set_host("\udcff", "a")

    await host.world.set_string("x", "grün \U0001f331\n\0")
    assert await host.world.string("x") == "grün \U0001f331\n\0"


async def test_the_total_size_is_limited(host: LocalHost):
    """A value that would exceed the limit is refused, and nothing changes."""
    with pytest.raises(Permanent, match="may have"):
        await host.world.set_string("x", "x" * LIMIT)

    assert await host.world.string("x") is None


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
async def test_a_file_that_something_else_has_written_is_refused(host: LocalHost, tmp_path: Path, text: str):
    """The error says what to do."""
    (tmp_path / "world.json").write_text(text, errors="surrogateescape")

    for use in (host.world.string("x"), host.world.hosts("x"), host.world.set_string("y", "z")):
        with pytest.raises(Permanent, match="remove it to start again"):
            await use


async def test_a_watch_fails_at_such_a_file_and_can_start_again(host: LocalHost, tmp_path: Path):
    """The watch fails, and can be started again; a removed file has no values."""
    await host.world.set_string("color", "red")
    watch = host.world.watch_string("color")
    await anext(watch)
    (tmp_path / "world.json").write_text("{")
    with pytest.raises(Permanent, match="remove it to start again"):
        await asyncio.wait_for(anext(watch), 10)

    (tmp_path / "world.json").unlink()
    watch = host.world.watch_string("color")
    await anext(watch)
    await host.world.set_string("color", "blue")
    await asyncio.wait_for(anext(watch), 10)
    assert await host.world.string("color") == "blue"


async def test_waiting_for_a_lock_ends(host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """If another process keeps the lock, the wait ends, and no thread is blocked meanwhile."""
    monkeypatch.setattr(world, "PATIENCE", 0.2)
    with (tmp_path / "world.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tries = [asyncio.ensure_future(host.world.set_string(key, "x")) for key in "abc"]
        assert await asyncio.wait_for(host.blocking(int, "5"), 10) == 5
        for one in tries:
            with pytest.raises(Temporary, match="holds its lock"):
                await asyncio.wait_for(one, 10)

    await host.world.set_string("color", "red")
    assert await host.world.string("color") == "red"
