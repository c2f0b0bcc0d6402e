"""`holdfast db`: checks, compacts, exports and imports the records of a host."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.northbound.drivers.base import DbTransaction, Put
from holdfast.agent.records import copies
from holdfast.agent.records.models import Change, Note
from holdfast_process import COMMAND, Agent, Tree, environment, holdfast, in_process
from record_desk import Desk, failure, outcome

HOST = {"table": "hosts", "id": "web1", "values": {"$v": 1, "id": "web1", "version": "1", "states": "/s"}}


def in_a_thread(*words: Any, **options: Any) -> Any:
    """Run a verb in a thread: it has an event loop of its own, as in its process."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(partial(in_process, *words, **options)).result()


class Site:
    """A configuration with a database."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root, in_a_thread)
        (root / "state").mkdir(mode=0o700)
        self.desk = Desk(root / "state")
        self.path = self.desk.records.path

    async def put(self, table: str, key: str, data: bytes) -> None:
        """Write a row as it is."""
        await self.desk.records.driver.commit(DbTransaction([Put(table, key, data)]))

    def content(self) -> list[Any]:
        """Return all rows without their revisions."""
        db = sqlite3.connect(self.path)
        try:
            return db.execute("select tbl, id, data from rows order by tbl, id").fetchall()
        finally:
            db.close()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A configuration whose agent has written some records, and is open."""
    found = Site(tmp_path)
    await found.desk.records.open()
    found.desk.recorder.note("pause", ["x"], "tëxt", None)
    await found.desk.written(outcome(diff="-a\n+b\n"), failure("cmd.run[x]"))
    yield found
    await found.desk.records.close()


# -- check ------------------------------------------------------------------------------------------------------


async def test_sound_records_can_all_be_read(site: Site) -> None:
    """They can be read while an agent runs."""
    assert site.tree("db", "check", check=0).stdout == f"{site.path}: everything can be read\n"
    assert site.tree.json("db", "check", check=0)["problems"] == []


@pytest.mark.parametrize(
    ("table", "data", "why"),
    [
        ("strange", b"{}", "there is no table 'strange'"),
        ("notes", b"\xff", "cannot read a record of notes"),
        ("notes", b"[1]", "it is not a JSON object"),
        ("notes", b'{"id": "k"}', "lacks host, at, what"),
        ("resource_changes", b'{"id": "other"}', "its ID is 'other'"),
        ("resource_changes", b'{"$v": 7, "id": "k"}', "it has the schema version 7; this version knows 1"),
        ("resource_changes", b"[" * 100_000, "cannot read a record"),
    ],
    ids=["unknown table", "no text", "no object", "incomplete", "other ID", "newer", "deep"],
)
async def test_what_cannot_be_read_is_named(site: Site, table: str, data: bytes, why: str) -> None:
    """The error has table and ID; the other records are read, too."""
    await site.put(table, "k", data)
    done = site.tree("db", "check", check=1)

    assert done.stdout.startswith(f"{table} k: ")
    assert why in done.stdout
    assert done.stdout.endswith(f"{site.path}: 1 problem\n")
    found = site.tree.json("db", "check", check=1)
    assert found["path"] == str(site.path)
    assert [each.startswith(f"{table} k: ") and why in each for each in found["problems"]] == [True]


async def test_damage_of_the_file_is_found(site: Site) -> None:
    """SQLite finds damage in pages of records and in other pages."""
    await site.desk.changes(*(outcome(f"a[{number}]", diff="x" * 5000) for number in range(50)))
    await site.desk.records.close()
    data = bytearray(site.path.read_bytes())
    data[8192:12288] = os.urandom(4096)
    site.path.write_bytes(data)

    assert "malformed" in site.tree("db", "check", check=1).stdout


def test_without_a_database_nothing_is_created(tmp_path: Path) -> None:
    """Each verb that needs one says so."""
    tree = Tree(tmp_path)
    for words in (["check"], ["compact"], ["export"]):
        assert "there are no records" in tree("db", *words, check=1).stderr
    assert not (tmp_path / "state").exists()


# -- compact ----------------------------------------------------------------------------------------------------


async def test_old_records_are_removed_and_the_file_becomes_smaller(site: Site) -> None:
    """Younger records stay."""
    await site.desk.changes(*(outcome(f"a[{number}]", diff="x" * 9000) for number in range(200)))
    await site.desk.records.close()
    site.tree.settings("records: {days: 0.0000001}\n")
    size = site.path.stat().st_size
    done = site.tree("db", "compact", check=0)

    assert done.stdout.startswith("removed 203 records")
    assert site.path.stat().st_size < size
    assert {table for table, _, _ in site.content()} == {"resources"}
    assert site.tree("db", "check", check=0).returncode == 0


async def test_beside_an_agent_the_file_is_left_alone(site: Site) -> None:
    """Compacting and importing are refused, and nothing is written."""
    before = site.content()
    file = site.tree.root / "copy"
    file.write_text(json.dumps(HOST))
    for words in (["compact"], ["import", str(file)]):
        said = site.tree("db", *words, check=1).stderr
        assert f"belongs to a running agent (pid {os.getpid()}): stop that agent" in said
        assert "nothing was done" in said
    assert site.content() == before


# -- export and import -------------------------------------------------------------------------------------------


async def test_an_export_is_imported_elsewhere(site: Site, tmp_path: Path) -> None:
    """All records are the same, with any characters, and the models can read them."""
    copy = tmp_path / "copy"
    site.tree("db", "export", "-o", copy, check=0)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line).keys() for line in copy.read_text().splitlines()] == [{"table", "id", "values"}] * 6
    other = Site(tmp_path / "other")
    assert other.tree("db", "import", copy, check=0).stdout == "imported 6 records\n"

    assert [(*row[:2], json.loads(row[2])) for row in other.content()] == [
        (*row[:2], json.loads(row[2])) for row in site.content()
    ]
    assert other.tree("db", "export", check=0).stdout == copy.read_text()
    assert other.tree("history", check=0).stdout == site.tree("history", check=0).stdout
    api = await other.desk.records.api()
    assert len(await api.page(Change)) == 2
    assert [each.text for each in await api.page(Note)] == ["tëxt"]
    await other.desk.records.close()


async def test_a_record_that_exists_is_replaced_only_on_request(site: Site, tmp_path: Path) -> None:
    """Without `--replace`, nothing is imported; a watch then lists everything again."""
    await site.put("hosts", "web1", json.dumps({"$v": 1, "id": "web1", "version": "0"}).encode())
    await site.desk.records.close()
    values = {**HOST["values"], "id": "new"}  # type: ignore[dict-item]
    lines = [{"table": "hosts", "id": "new", "values": values}, HOST]
    (tmp_path / "copy").write_text("".join(json.dumps(each) + "\n" for each in lines))
    before = site.content()
    said = site.tree("db", "import", tmp_path / "copy", check=1).stderr

    assert "line 2: there is a record 'web1' in hosts already; nothing was imported; --replace replaces" in said
    assert site.content() == before
    site.tree("db", "import", "--replace", tmp_path / "copy", check=0)
    assert len(site.content()) == len(before) + 1
    assert b'"version":"1"' in next(data for _, key, data in site.content() if key == "web1")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object with table, id and values"),
        ('{"table": "hosts", "id": "x"}', "it is not a JSON object with table, id and values"),
        (json.dumps({**HOST, "more": 1}), "it is not a JSON object with table, id and values"),
        (json.dumps({**HOST, "id": 5}), "it is not a JSON object with table, id and values"),
        (json.dumps({**HOST, "id": "other"}), "its ID is 'web1'"),
        (json.dumps({**HOST, "table": "strange"}), "there is no table 'strange'"),
        (json.dumps({**HOST, "values": {"id": "web1"}}), "Host lacks version"),
        (json.dumps({**HOST, "table": "published"}), "the records of published are for one database only"),
        (json.dumps({**HOST, "id": "\udcff", "values": {"id": "\udcff", "version": "1"}}), "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("x" * 5000, "it has more than"),
    ],
    ids=lambda value: value[:20],
)
async def test_a_wrong_line_is_named_and_nothing_is_imported(
    site: Site, tmp_path: Path, line: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines before the wrong one are not imported either."""
    if len(line) == 5000:
        monkeypatch.setattr(copies, "LINE", 4000)
    await site.desk.records.close()
    before = site.content()
    good = json.dumps({"table": "hosts", "id": "new", "values": {"id": "new", "version": "1"}})
    said = site.tree("db", "import", "-", input=f"{good}\n\n{line}\n", check=1).stderr

    assert "-, line 3: " in said
    assert why in said
    assert "nothing was imported" in said
    assert site.content() == before


async def test_what_cannot_be_exported_is_named(site: Site, tmp_path: Path) -> None:
    """No file is left."""
    await site.put("notes", "zzz", b"\xff")
    said = site.tree("db", "export", "-o", tmp_path / "copy", check=1).stderr

    assert "cannot export notes zzz" in said
    assert not (tmp_path / "copy").exists()


async def test_an_export_replaces_no_file_and_follows_no_link(site: Site, tmp_path: Path) -> None:
    """The export does not write into a directory through a link of another user either."""
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    for name in ("there", "link"):
        assert "it exists; name a new file" in site.tree("db", "export", "-o", tmp_path / name, check=1).stderr
    assert (tmp_path / "there").read_text() == "old"
    assert not (tmp_path / "new").exists()


async def test_a_file_that_is_missing_is_a_sentence(site: Site, tmp_path: Path) -> None:
    """The error is one sentence, not a traceback."""
    assert "No such file" in site.tree("db", "import", tmp_path / "missing", check=1).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_leaves_no_half_export(tmp_path: Path) -> None:
    """There is neither a file nor a traceback."""
    tree = Tree(tmp_path)
    tree.sls("many", "".join(f"HOST/{each}:\n  file.managed:\n    - contents: {'x' * 3000}\n" for each in range(30)))
    tree("apply", check=0)
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=True)
    try:
        assert "No space left" in tree("db", "export", "-o", small / "copy", check=1).stderr
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_a_reader_that_leaves_ends_an_export(tmp_path: Path) -> None:
    """Takes over a second: a whole process. `| head` is no error."""
    tree = Tree(tmp_path)
    tree.file()
    tree("apply", check=0)
    command = [*COMMAND, "db", "export", "--config", str(tree.config)]
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -c 1', "sh", *command], env=environment(), capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("{", "")


def test_an_agent_works_on_imported_records(tmp_path: Path) -> None:
    """Takes over a second: an agent starts. It continues after the imported IDs; `why` shows what was before."""
    tree = Tree(tmp_path, holdfast)
    tree.file()
    tree("apply", check=0)
    tree("db", "export", "-o", tmp_path / "copy", check=0)
    for path in (tmp_path / "state").glob("records.db*"):
        path.unlink()
    tree("db", "import", tmp_path / "copy", check=0)
    with Agent(tree):
        history = tree.json("why", "motd", check=0)["history"]
        assert [each["what"] for each in history] == ["created"]
        tree("db", "check", check=0)
