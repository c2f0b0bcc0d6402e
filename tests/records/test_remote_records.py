"""What is remembered of remote resources: durable, without secrets, and the same for the agent and one-shot runs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.health import Health
from holdfast.agent.records.records import Records
from holdfast.agent.records.remote_records import CopiedMemory, RememberedResource, RemoteMemory
from holdfast.resources.errors import Temporary
from holdfast.resources.plugin import RemoteRecord
from holdfast_process import holdfast

TOKEN = "notes:note:Note"
STATE = b'{"name":"web","size":"5"}'
RECORD = RemoteRecord("n-7", STATE, 2, "41", unfinished=True, replaced=("n-5", "n-6"), hidden="salt$x", intent="t1")


@pytest.fixture
async def records(tmp_path: Path) -> Any:
    """The records of an agent."""
    found = Records(tmp_path, Health(), agent=True, durable=True)
    yield found
    await found.close()


async def test_a_record_is_remembered_by_other_processes_and_after_a_restart(records, tmp_path):
    """The processes are the agent, a one-shot run beside it, and a plan."""
    mine = RemoteMemory(records.api)
    await mine.put(TOKEN, "web", RECORD)
    beside = Records(tmp_path, Health(), agent=False, durable=True)
    theirs = RemoteMemory(beside.api)
    assert await theirs.get(TOKEN, "web") == RECORD
    await theirs.put(TOKEN, "web", RECORD._replace(id="n-8"))

    assert (await mine.get(TOKEN, "web")).id == "n-8"
    assert (await CopiedMemory(tmp_path / "records.db").get(TOKEN, "web")).id == "n-8"
    assert await mine.get(TOKEN, "mail") is None
    await beside.close()


async def test_records_that_are_wanted_together_are_read_together(records):
    """The first record is read alone, the others in pages. Missing records are answered, too."""
    memory = RemoteMemory(records.api)
    for number in range(70):
        await memory.put(TOKEN, f"n{number}", RECORD._replace(id=f"id{number}"))
    api, pages = await records.api(), []
    page = api.page

    async def counted(*args: Any, **more: Any) -> Any:
        pages.append(args)
        return await page(*args, **more)

    api.page = counted
    found = await asyncio.gather(*(memory.get(TOKEN, f"n{number}") for number in range(80)))

    assert [each.id if each else "" for each in found] == [*(f"id{number}" for number in range(70)), *[""] * 10]
    assert len(pages) == 1


@pytest.mark.parametrize(("replaced", "found"), [("n-6", ("n-6",)), ("", ())])
def test_a_record_of_an_older_version_is_read(replaced: str, found: tuple[str, ...]) -> None:
    """The older version had at most one identifier of a replaced resource."""
    older = {"$v": 1, "id": f"{TOKEN} web", "token": TOKEN, "name": "web", "identifier": "n-7", "replaced": replaced}

    assert RememberedResource.decode(json.dumps(older).encode()).remembered() == RemoteRecord(
        "n-7", b"", 1, replaced=found
    )


async def test_a_record_can_be_forgotten_twice(records):
    """The second call changes nothing."""
    memory = RemoteMemory(records.api)
    await memory.put(TOKEN, "web", RECORD)
    await memory.put(TOKEN, "web", None)
    await memory.put(TOKEN, "web", None)

    assert await memory.get(TOKEN, "web") is None


async def test_a_secret_of_a_state_is_not_written(records, tmp_path):
    """A provider may have put it there: the records are shown, exported and copied."""
    state = {"name": "web", "key": {"$secret": "correct horse"}, "parts": [{"pin": {"$secret": "1234"}, "n": "1"}]}
    memory = RemoteMemory(records.api)
    await memory.put(TOKEN, "web", RECORD._replace(state=json.dumps(state).encode()))

    assert json.loads((await memory.get(TOKEN, "web")).state) == {"name": "web", "parts": [{"n": "1"}]}
    assert b"correct horse" not in b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


async def test_a_database_that_cannot_be_opened_is_a_failure_for_now(tmp_path):
    """No resource is created whose identifier could not be recorded."""
    records = Records(tmp_path / "gone", Health(), agent=True, durable=True)
    with pytest.raises(Temporary, match="cannot record what is known about web"):
        await RemoteMemory(records.api).put(TOKEN, "web", RECORD)


async def test_a_run_that_only_looks_writes_nothing(tmp_path):
    """A plan keeps records in memory until its end, also without a database."""
    memory = CopiedMemory(tmp_path / "records.db")
    assert await memory.get(TOKEN, "web") is None
    await memory.put(TOKEN, "web", RECORD)

    assert await memory.get(TOKEN, "web") == RECORD
    assert [*tmp_path.iterdir()] == []


async def test_a_run_that_changes_nothing_keeps_what_its_resources_find_at_the_same_time(records, tmp_path):
    """The records are read once: a second reading would overwrite what the first resource has found meanwhile."""
    await RemoteMemory(records.api).put(TOKEN, "web", RECORD)
    memory = CopiedMemory(tmp_path / "records.db")

    async def found(name: str) -> None:
        await memory.get(TOKEN, name)
        await memory.put(TOKEN, name, RECORD._replace(id=name))

    await asyncio.gather(*(found(f"n{number}") for number in range(20)))

    assert [(await memory.get(TOKEN, f"n{number}")).id for number in range(20)] == [
        f"n{number}" for number in range(20)
    ]
    assert (await memory.get(TOKEN, "web")).id == "n-7"


async def test_the_verb_db_shows_exports_and_imports_them(records, tmp_path):
    """A host that is set up again knows its remote resources."""
    await RemoteMemory(records.api).put(TOKEN, "web", RECORD)
    await records.close()
    (tmp_path / "agent.yaml").write_text(f"state_dir: {tmp_path}\n")
    copy = tmp_path / "copy.jsonl"
    config = ("--config", tmp_path / "agent.yaml")
    await asyncio.to_thread(holdfast, "db", "export", *config, "-o", copy, check=0)
    assert '"table":"remote_resources"' in copy.read_text()
    shown = await asyncio.to_thread(holdfast, "db", "remote", *config, check=0)
    assert shown.stdout == "notes:note:Note web: n-7 (unfinished)\n"
    (row,) = json.loads((await asyncio.to_thread(holdfast, "db", "remote", *config, "--format", "json")).stdout)
    assert (row["state"], "hidden" in row) == ({"name": "web", "size": "5"}, False)
    (tmp_path / "records.db").unlink()
    await asyncio.to_thread(holdfast, "db", "import", copy, *config, check=0)

    again = Records(tmp_path, Health(), agent=True, durable=True)
    assert await RemoteMemory(again.api).get(TOKEN, "web") == RECORD
    await again.close()


async def test_a_run_that_changes_nothing_knows_all_records_but_a_damaged_one(records, tmp_path):
    """Records after the damaged one are read, too."""
    for name in ("a", "b", "c"):
        await RemoteMemory(records.api).put(TOKEN, name, RECORD)
    await records.close()
    with closing(sqlite3.connect(tmp_path / "records.db", isolation_level=None)) as db:
        db.execute("update rows set data = 'damaged' where id = ?", (f"{TOKEN} b",))
    memory = CopiedMemory(tmp_path / "records.db")

    assert [await memory.get(TOKEN, name) for name in ("a", "b", "c")] == [RECORD, None, RECORD]


async def test_a_state_that_is_not_json_is_shown_as_text(records, tmp_path):
    """It was imported from a file that a person has edited; nothing is known of another one."""
    await RemoteMemory(records.api).put(TOKEN, "odd", RECORD._replace(state=b"{"))
    await RemoteMemory(records.api).put(TOKEN, "unknown", RECORD._replace(state=b""))
    await records.close()
    words = ("db", "remote", "--state-dir", tmp_path, "--format", "json")
    shown = json.loads((await asyncio.to_thread(holdfast, *words, check=0)).stdout)

    assert [each["state"] for each in shown] == ["{", None]
