"""`Context.world` on one host: strings and host maps in the database of records, with watches."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast import Permanent, Temporary
from holdfast.agent.health import Health
from holdfast.agent.host.host import LocalHost
from holdfast.agent.northbound.drivers import sqlite_groups
from holdfast.agent.northbound.drivers.base import DbTransaction, Put
from holdfast.agent.records.records import RENEWED, Records
from holdfast.agent.records.world import StoredWorld
from holdfast.agent.records.world_records import LIMIT, WorldRecords
from holdfast.agent.shared import world_database
from holdfast.agent.shared.world_database import WorldDatabase
from holdfast.agent.tasks import Tasks

ONE_SHOT = """
import asyncio, sys
from pathlib import Path
from holdfast.agent.host.host import LocalHost

async def main():
    directory = Path(sys.argv[1])
    async with LocalHost(states=directory, var_dir=directory, facts={"id": "web2"}) as host:
        for line in sys.stdin:
            key, _, value = line.strip().partition("=")
            before = await host.world.string(key)
            await host.world.set_string(key, value or None)
            print(before, flush=True)

asyncio.run(main())
"""
"""A process that is not the agent. For each line `key=value` it sets a string, and prints what it was before."""


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[LocalHost]:
    """Return a host without an agent."""
    async with LocalHost(states=tmp_path, var_dir=tmp_path, facts={"id": "web1"}, durable=False) as host:
        yield host


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LocalHost]:
    """Return the host of an agent, with the agent's database."""
    records = Records(tmp_path, Health(), agent=True, durable=False)
    await records.open()
    async with LocalHost(
        states=tmp_path, var_dir=tmp_path, facts={"id": "web1"}, durable=False, health=Health(), records=records
    ) as host:
        yield host
    await records.close()


@asynccontextmanager
async def one_shot(directory: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ONE_SHOT, str(directory), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def told(process: asyncio.subprocess.Process, line: str) -> str:
    """Let the process set a string, and return what it was before."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{line}\n".encode())
    return (await asyncio.wait_for(process.stdout.readline(), DEADLINE)).decode().strip()


def as_host(agent: LocalHost, name: str) -> StoredWorld:
    """Return the world of another host that uses the same store."""

    async def opened() -> WorldRecords:
        assert agent._records
        return WorldRecords(await agent._records.api())

    return StoredWorld(WorldDatabase(opened, Health(), Tasks(Health())), lambda: name)


async def until(watch: AsyncIterator[None]) -> None:
    """Wait for the next item."""
    await asyncio.wait_for(anext(watch), DEADLINE)


async def test_strings_are_set_read_and_removed(host: LocalHost, tmp_path: Path) -> None:
    """Strings are set, read and removed, in a file that no other user can read. To remove one twice is no error."""
    world = host.world
    assert await world.string("color") is None
    await world.set_string("color", "red")
    await world.set_string("shape", "round")
    await world.set_string("shape", None)
    await world.set_string("shape", None)
    await world.set_string("empty", "")

    assert [await world.string(key) for key in ("color", "shape", "empty")] == ["red", None, ""]
    assert {each.stat().st_mode & 0o777 for each in tmp_path.glob("records.db*")} == {0o600}


async def test_each_host_has_its_entry_in_a_host_map(host: LocalHost) -> None:
    """Here the entry is under the name of this host."""
    world = host.world
    await world.set_host("addresses", "10.0.0.1")
    assert await world.hosts("addresses") == {"web1": "10.0.0.1"}
    await world.set_host("addresses", None)

    assert await world.hosts("addresses") == {}


async def test_hosts_that_share_a_store_see_each_other_and_change_their_own_entry_only(agent: LocalHost) -> None:
    """Two hosts set and remove their entries in one store."""
    other = as_host(agent, "web2")
    await agent.world.set_host("addresses", "10.0.0.1")
    await other.set_host("addresses", "10.0.0.2")
    assert await agent.world.hosts("addresses") == {"web1": "10.0.0.1", "web2": "10.0.0.2"}

    await other.set_host("addresses", None)
    assert await agent.world.hosts("addresses") == {"web1": "10.0.0.1"}


async def test_names_with_slashes_and_percent_signs_are_kept_apart(agent: LocalHost) -> None:
    """The namespace and the host form one ID, which must not be that of another pair."""
    pairs = [("c", "a/b"), ("b/c", "a"), ("c", "a%2fb"), ("c", "a%252fb"), ("c/a", "b"), ("c%2fa", "b")]
    for namespace, host in pairs:
        await as_host(agent, host).set_host(namespace, f"{namespace} {host}")

    for namespace, host in pairs:
        assert (await agent.world.hosts(namespace))[host] == f"{namespace} {host}"


async def test_a_watch_reports_its_own_key_only(host: LocalHost) -> None:
    """A watch reports each new value of its key once, also after a change by this process."""
    world = host.world
    watch, hosts = world.watch_string("color"), world.watch_hosts("addresses")
    await anext(watch)
    await anext(hosts)
    waiting, also = asyncio.ensure_future(anext(watch)), asyncio.ensure_future(anext(hosts))
    await world.set_string("shape", "round")
    await world.set_host("names", "web")
    await world.set_string("color", "red")

    await asyncio.wait_for(waiting, DEADLINE)
    assert not also.done()
    again = asyncio.ensure_future(anext(watch))
    await world.set_string("color", "red")
    await world.set_host("addresses", "10.0.0.1")
    await asyncio.wait_for(also, DEADLINE)
    assert not again.done()
    await world.set_string("color", None)
    await asyncio.wait_for(again, DEADLINE)


async def test_a_change_right_after_a_watch_is_armed_is_reported(host: LocalHost) -> None:
    """The watch reports changes from the moment of its first item, before it is asked for the second."""
    watch = host.world.watch_string("color")
    await anext(watch)
    await host.world.set_string("color", "red")

    await until(watch)


async def test_a_change_by_a_one_shot_run_beside_the_agent_is_reported(agent: LocalHost, tmp_path: Path) -> None:
    """Each process sees what the other one has written. One of them is a new interpreter, which takes a second."""
    async with aclosing(agent.world.watch_string("color")) as watch, one_shot(tmp_path) as other:
        await anext(watch)
        await agent.world.set_string("color", "red")
        await until(watch)

        assert await told(other, "color=blue") == "red"
        await until(watch)
        assert await agent.world.string("color") == "blue"
        assert await told(other, "color=") == "blue"
        await until(watch)
        assert await agent.world.string("color") is None


async def test_one_shot_runs_without_an_agent_share_the_strings(host: LocalHost, tmp_path: Path) -> None:
    """Two processes, none of which is the agent. One of them is a new interpreter, which takes a second."""
    async with aclosing(host.world.watch_string("color")) as watch, one_shot(tmp_path) as other:
        await anext(watch)
        assert await told(other, "color=blue") == "None"
        await until(watch)
        assert await host.world.string("color") == "blue"


async def test_what_was_set_survives_kill_9(tmp_path: Path) -> None:
    """The value is there in the next process. One process is a new interpreter, which takes a second."""
    async with one_shot(tmp_path) as other:
        await told(other, "color=blue")
        os.kill(other.pid, signal.SIGKILL)

    async with LocalHost(states=tmp_path, var_dir=tmp_path, facts={"id": "web1"}, durable=False) as host:
        assert await host.world.string("color") == "blue"


async def test_concurrent_changes_are_all_kept(host: LocalHost) -> None:
    """No change is lost, also when the same string is set several times at once."""
    await asyncio.gather(*(host.world.set_string(f"key{n % 10}", str(n)) for n in range(40)))

    values = [await host.world.string(f"key{n}") for n in range(10)]
    assert all(value and int(value) % 10 == n for n, value in enumerate(values))


@pytest.mark.parametrize("key", ["", "x" * 300])
async def test_names_are_limited(host: LocalHost, key: str) -> None:
    """An empty name and a long name are refused."""
    with pytest.raises(Permanent, match="a name has 1 to 256 characters"):
        await host.world.set_string(key, "x")
    with pytest.raises(Permanent, match="a name has 1 to 256 characters"):
        await host.world.set_host(key, None)


async def test_a_value_that_is_not_text_is_refused(host: LocalHost) -> None:
    """Bytes that are not UTF-8, for example from a file name, could not be read again."""
    with pytest.raises(Permanent, match="it is not text"):
        await host.world.set_string("x", "a\udcff")
    with pytest.raises(Permanent, match="it is not text"):
        await host.world.set_host("\udcff", "a")

    await host.world.set_string("\0 \U0001f331", "grün \U0001f331\n\0")
    assert await host.world.string("\0 \U0001f331") == "grün \U0001f331\n\0"


async def test_the_total_size_is_limited(host: LocalHost) -> None:
    """A value that would exceed the limit is refused, and nothing changes; what is smaller replaces what is there."""
    big = "x" * (LIMIT - 600)
    with pytest.raises(Permanent, match="may have at most 1048576 bytes"):
        await host.world.set_string("x", "x" * LIMIT)
    assert await host.world.string("x") is None
    await host.world.set_string("x", big)
    with pytest.raises(Permanent, match="may have at most 1048576 bytes"):
        await host.world.set_host("y", "y" * 600)

    await host.world.set_string("x", big[:-1])
    await host.world.set_string("x", None)
    await host.world.set_host("y", big)


async def test_writes_at_the_same_time_do_not_exceed_the_limit_together(host: LocalHost) -> None:
    """Of two values that together are too large, one is stored."""
    results = await asyncio.gather(
        *(host.world.set_string(key, "x" * (LIMIT * 2 // 3)) for key in "ab"), return_exceptions=True
    )

    assert [type(each) for each in results] == [type(None), Permanent]


def test_the_models_are_not_imported_with_the_world() -> None:
    """They take long: a thread imports them, so that the event loop of the agent goes on. An idle agent has none."""
    script = "import sys, holdfast.agent.daemon, holdfast.agent.records.world; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "holdfast.agent.records.world" in done.stdout.split()
    assert "holdfast.agent.northbound.model" not in done.stdout.split()


async def test_strings_that_are_there_at_the_start_count(tmp_path: Path) -> None:
    """The limit holds across restarts."""
    for key in "ab":
        async with LocalHost(states=tmp_path, var_dir=tmp_path, durable=False) as host:
            if key == "a":
                await host.world.set_string(key, "x" * (LIMIT * 2 // 3))
            else:
                with pytest.raises(Permanent, match="may have at most"):
                    await host.world.set_string(key, "x" * (LIMIT * 2 // 3))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that fail soon while another program has locked the database."""
    monkeypatch.setattr(sqlite_groups, "TIMEOUT", 0.2)


@pytest.mark.usefixtures("impatient")
async def test_a_write_while_another_program_has_locked_the_database_fails_for_now(
    agent: LocalHost, tmp_path: Path
) -> None:
    """The error says why and may not recur; reads go on, and the next write works once the lock is gone."""
    await agent.world.set_string("color", "red")
    rival = sqlite3.connect(tmp_path / "records.db", isolation_level=None)
    rival.execute("begin immediate")
    with pytest.raises(Temporary, match=r"cannot change the shared strings: .* locked"):
        await agent.world.set_string("color", "blue")
    assert await agent.world.string("color") == "red"

    rival.close()
    await agent.world.set_string("color", "blue")
    assert await agent.world.string("color") == "blue"


async def test_a_database_that_does_not_answer_fails_for_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that hangs holds a call for a limited time only."""
    monkeypatch.setattr(world_database, "TIMEOUT", 0.01)
    database = WorldDatabase(asyncio.Event().wait, Health(), Tasks(Health()))  # type: ignore[arg-type] # never returns
    hanging = StoredWorld(database, lambda: "web1")

    for use in (hanging.string("x"), hanging.set_string("x", "y"), anext(hanging.watch_hosts("x"))):
        with pytest.raises(Temporary, match=r"no answer from the database within 0\.01 s"):
            await use  # type: ignore[misc]


async def test_a_database_that_cannot_be_opened_fails_for_now(tmp_path: Path) -> None:
    """The error names the file, and the next call tries again."""
    directory = tmp_path / "state"
    async with LocalHost(states=tmp_path, var_dir=directory, durable=False) as host:
        with pytest.raises(Temporary, match=f"cannot read the shared strings: .*{directory}"):
            await host.world.string("x")
        directory.mkdir()
        assert await host.world.string("x") is None


async def test_a_damaged_database_loses_the_strings_and_tells_the_watches(tmp_path: Path) -> None:
    """The database is recreated without them, health says so, and strings can be set again."""
    health = Health()
    for start in range(2):
        records = Records(tmp_path, health, agent=True, durable=False)
        async with LocalHost(states=tmp_path, var_dir=tmp_path, durable=False, records=records) as host:
            if not start:
                await asyncio.gather(*(host.world.set_string(f"key{n}", "x" * 1000) for n in range(200)))
            else:
                await _lose(host, tmp_path / "records.db")
                assert RENEWED in {each.code for each in health.conditions}
        await records.close()


async def _lose(host: LocalHost, path: Path) -> None:
    """Damage the open database of a host with 200 strings, write, and wait until the world has lost a string."""
    watch = host.world.watch_string("key0")
    await anext(watch)
    path.write_bytes(b"no database at all " * 1000)
    await asyncio.gather(*(host.world.set_string(f"key{n}", "y" * 1000) for n in range(1, 200)))

    await until(watch)
    assert await host.world.string("key0") is None
    await host.world.set_string("key0", "blue")
    await until(watch)
    assert await host.world.string("key0") == "blue"


async def test_a_record_that_cannot_be_read_is_no_string_and_is_not_replaced(agent: LocalHost) -> None:
    """Something else has written it. The error names it; other strings are not affected."""
    assert agent._records
    await agent._records.driver.commit(DbTransaction([Put("world_strings", "x", b"{}")]))

    assert await agent.world.string("x") is None
    with pytest.raises(Permanent, match=r"cannot change the shared strings: cannot read world_strings 'x'"):
        await agent.world.set_string("x", "y")
    await agent.world.set_string("y", "z")
