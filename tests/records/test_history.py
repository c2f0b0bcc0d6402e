"""`holdfast history`: what it reads from the records, without the agent and beside it."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from holdfast.agent.control.log_filter import names
from holdfast.agent.engine.model.events import PassEnded, PassRecord, PassStarted
from holdfast.agent.engine.model.tally import Tally
from holdfast.agent.northbound.drivers.base import DbTransaction, Put
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.records import history, models, recorder, rows
from holdfast.agent.records.drifts import find
from holdfast.agent.records.history import Chosen, newest_first
from holdfast.agent.records.ids import DIGITS, TimeIds, time_of
from holdfast.agent.records.log_lines import OlderLines
from holdfast.agent.records.reading import RecordReader
from holdfast.agent.records.rows import readable
from holdfast.agent.verbs.history import ORIGINS
from holdfast.agent.widths import columns
from holdfast.resources.author import Author
from holdfast.resources.errors import Permanent
from holdfast_process import COMMAND, Agent, Tree, environment, holdfast
from record_desk import FILE, Desk, failure, outcome
from strangers import UID, as_a_stranger, open_directory
from terminal import Terminal

BY = {"pid": 4242, "name": "vim", "login": "deploy", "command": "vim /etc/motd"}


class Site:
    """A configuration with records, written by a recorder."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root)
        (root / "state").mkdir(mode=0o700)
        self.desk = Desk(root / "state")

    async def a_pass(self, *outcomes: Any, number: int = 1, by: Any = None, **values: Any) -> None:
        """Write a pass with these outcomes."""
        if by:
            self.desk.recorder.asked(by)
        record = PassRecord(number, "drift", time.time(), 0.5, converged=True, counted=Tally(list(outcomes)), **values)
        await self.desk.written(PassStarted(number, "drift"), *outcomes, PassEnded(record))

    def text(self, *words: str) -> str:
        """Return the text with times, spans of time and IDs left out."""
        said: str = self.tree("history", *words, check=0).stdout
        said = re.sub(rf"(?m)^(\d\d:\d\d:\d\d) [{DIGITS}]{{12}} ", r"\1 ID ", said)
        return re.sub(r"(?m)^\d\d:\d\d:\d\d", "00:00:00", re.sub(r"(?m)^\w+day \d{4}-\d\d-\d\d$", "DAY", said))

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """Return the rows of the JSON output."""
        found: list[dict[str, Any]] = self.tree.json("history", *words, check=0)["history"]
        return found


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A configuration with an empty database."""
    found = Site(tmp_path)
    await found.desk.records.open()
    yield found
    await found.desk.records.close()


async def test_a_pass_is_shown_with_its_changes_below(site: Site) -> None:
    """Newest first, with who, why and how long; notes of operators and missing records are between them."""
    await site.a_pass(outcome(duration=0.003), failure("cmd.run[x]", cause="start", comment="it said no"), number=7)
    site.desk.recorder.note("pause", ["file.*"], "file.* is paused", {"pid": 9, "name": "holdfast", "login": "ann"})
    site.desk.recorder.note("lost", (), "3 records were lost", None)
    await site.a_pass(
        outcome("pkg.installed[nginx]", cause="command", undone="undone by file.managed[y]"), number=8, by=BY
    )

    assert site.text() == (
        "DAY\n"
        "00:00:00 pass 8 (drift) in 500 ms: 1 checked, 1 changed\n"
        "         asked by vim /etc/motd, pid 4242, login user deploy\n"
        "00:00:00 ID changed    pkg.installed[nginx] in <0.1 ms (command, undone by file.managed[y])\n"
        "00:00:00 records are missing: 3 records were lost\n"
        "00:00:00 file.* is paused\n"
        "         asked by holdfast, pid 9, login user ann\n"
        "00:00:00 pass 7 (drift) in 500 ms: 2 checked, 1 changed, 1 failed\n"
        "00:00:00 ID failed     cmd.run[x] in <0.1 ms (start)\n"
        "           it said no\n"
        "00:00:00 ID repaired   file.managed[x] in 3 ms (drift)\n"
    )


async def test_the_id_of_a_drift_leads_to_its_details(site: Site) -> None:
    """The ID has the form that the history prints."""
    await site.a_pass(outcome(), failure("file.managed[y]"))
    (key,) = re.findall(rf"([{DIGITS}]{{12}}) repaired", site.tree("history", check=0).stdout)

    assert "file.managed[x]" in (await asyncio.to_thread(site.tree, "drift", "show", key, check=0)).stdout


async def test_only_what_may_be_asked_for_is_parsed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a list takes depends on what it shows, and hardly on how much was recorded."""
    many = [outcome(f"file.managed[/srv/{number}]") for number in range(300)]
    await site.desk.changes(outcome("file.managed[/etc/motd]"), *many, failure("cmd.run[x]"))
    read = []
    monkeypatch.setattr(history, "read", lambda row: read.append(row.id) or rows.read(row))

    def parsed(*words: str) -> int:
        read.clear()
        assert site.tree(*words, check=0).stdout
        return len(read)

    assert parsed("drift", "list", "--limit", "3") == 4
    assert parsed("drift", "list", "--resource", "motd") == 1
    assert parsed("drift", "list", "--resource", "*/mot?") == 1
    assert parsed("history", "--failed") == 1
    assert parsed("history", "--kind", "cmd.run") == 1
    assert parsed("history", "--resource", "file.managed[/etc/motd]") == 1


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\tb", "ä", "a[1]", "\udce4", "\x7f\x1f"])
@pytest.mark.parametrize("pattern", ["{}", "{}*", "*{}", "file.managed[[]{}]"])
async def test_resources_with_any_character_are_found(site: Site, name: str, pattern: str) -> None:
    """The records may have other characters in their place."""
    await site.desk.changes(outcome(f"file.managed[{name}]"))
    word = pattern.format(name)
    named = names(readable(word), readable(f"file.managed[{name}]"))

    with RecordReader(site.desk.records.path) as reader:
        assert len([*newest_first(reader, Chosen(resource=word))]) == named


async def test_programs_get_all_fields(site: Site) -> None:
    """The JSON has each record with table and ID, newest first, without internal fields of the store."""
    await site.a_pass(outcome(diff="-a\n+b\n"))
    change, run = site.rows()

    assert (change["table"], change["diff"], change["run"]) == ("changes", "-a\n+b\n", run["id"])
    assert (run["table"], run["counts"]) == ("passes", {"checked": 1, "changed": 1})
    assert "$v" not in change


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--resource", FILE], ["x", "x"]),
        (["--resource", "x"], ["x", "x"]),
        (["--resource", "file.*"], ["y", "x", "x"]),
        (["--resource", "nothing"], []),
        (["--kind", "cmd.run"], ["z"]),
        (["--cause", "start"], ["z"]),
        (["--origin", "drift"], ["y", "x", "x"]),
        (["--failed"], ["z", "x"]),
        (["--failed", "--resource", "x"], ["x"]),
        (["--limit", "2"], ["z", "y"]),
        (["--since", "1h", "--until", "0:00:00"], []),
    ],
    ids=" ".join,
)
async def test_what_is_asked_for_is_shown(site: Site, words: list[str], found: list[str]) -> None:
    """Changes of one resource, of those that match, of one kind, cause or origin, failures, a number."""
    await site.a_pass(outcome(), failure(), outcome("file.managed[y]"), failure("cmd.run[z]", cause="start"))
    names = [re.search(r"\[(.*)\]", row["resource"]) for row in site.rows(*words) if row["table"] == "changes"]

    assert [name and name[1] for name in names] == found


async def test_a_time_limits_what_is_shown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A span before now, a date, and the ID that the hint about older ones names."""
    for number, days in enumerate((40, 3, 1)):
        then = time.time() - days * 86_400
        monkeypatch.setattr(recorder, "time", SimpleNamespace(time=lambda then=then: then))
        await site.desk.changes(outcome(comment=str(number)))

    def shown(*words: str) -> list[str]:
        return [row["comment"] for row in site.rows(*words)]

    assert shown("--since", "4d") == ["2", "1"]
    assert shown("--until", "2d", "--since", "4d") == ["1"]
    assert shown("--since", "2000-01-01", "--until", "2100-01-01 12:00") == ["2", "1", "0"]
    told = site.tree("history", "--limit", "1", check=0).stderr
    assert shown("--before", told.split("--before ")[1].strip()) == ["1", "0"]
    assert shown("--before", site.tree.json("history", "--limit", "2")["older"].upper()) == ["0"]
    assert site.tree.json("history", "--limit", "3")["older"] is None


async def test_the_pass_of_the_last_change_is_not_left_for_the_next_list(site: Site) -> None:
    """It was shown above the change. Between two changes of one pass, both lists show the pass."""
    await site.a_pass(outcome("a"), number=1)
    await site.a_pass(outcome("b"), outcome("c"), number=2)
    lists, before = [], ["--limit", "1"]
    while len(lists) < 3:
        done = site.tree("history", *before, check=0)
        lists.append(re.findall(r"pass \d|file\.managed\[.\]|\b[abc]\b", done.stdout))
        before = ["--limit", "1", "--before", done.stderr.partition("--before ")[2].strip()]

    assert lists == [["pass 2", "c"], ["pass 2", "b"], ["pass 1", "a"]]
    assert done.stderr == ""


async def test_times_are_those_of_the_records_if_the_clock_was_ahead(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IDs then remain ahead, because they always grow: of changes, passes, notes and drifts, and in the log.

    The clock is two days ahead for the second change.
    """
    now = time.time()
    for number, then in enumerate((now - 7200, now + 2 * 86_400, now - 3600, now - 60)):
        monkeypatch.setattr(recorder, "time", SimpleNamespace(time=lambda then=then: then))
        site.desk.recorder.note("note", (), f"note {number}", None)
        await site.desk.changes(outcome(f"a[{number}]"))

    def shown(*words: str) -> list[str]:
        rows = site.rows(*words)
        tables = ["changes"] if "--origin" in words else ["changes", "notes"]
        assert [each["table"] for each in rows] == tables * (len(rows) // len(tables))
        return [each["resource"] for each in rows if each["table"] == "changes"]

    assert shown("--since", "30m", "--until", "10s") == ["a[3]"]
    assert shown("--until", "30m") == ["a[2]", "a[0]"]
    assert shown("--since", "90m") == ["a[3]", "a[2]", "a[1]"]
    assert shown("--resource", "a[2]", "--until", "30m", "--origin", "drift") == ["a[2]"]
    drifts = site.tree.json("drift", "list", "--since", "90m")["drifts"]
    assert [each["resource"] for each in drifts] == ["a[3]", "a[2]", "a[1]"]
    older = OlderLines(site.desk.recorder.queue, Chosen())
    lines = [each["event"] async for page in older.before(now - 1800, now - 5400, 9, 9) for each in page]
    assert lines == ["note 2", "repaired a[2] in <0.1 ms (drift)"]


@pytest.mark.parametrize("wrong", ["2026-11-23", "0" * 11, "u" * 12, "é" * 12])
def test_what_is_no_id_is_refused(tmp_path: Path, wrong: str) -> None:
    """IDs are those that `history` shows."""
    assert "is not the ID of a record" in Tree(tmp_path)("history", "--before", wrong, check=64).stderr


@pytest.mark.parametrize("wrong", ["tomorrow", "25:00", "2026-13-01", "1960-01-01", "9999-01-01", "-1h", ""])
def test_a_wrong_time_is_refused(tmp_path: Path, wrong: str) -> None:
    """The message shows the right forms."""
    told = Tree(tmp_path)("history", "--since", wrong, check=64).stderr
    assert "is not a span before now (2h) or a time (20:15" in told


async def test_notes_of_an_operator_appear_with_the_resources_they_are_about(site: Site) -> None:
    """A note about all resources appears with each resource, and a note about lost records always appears."""
    for about in ((), ("file.*",), ("cmd.run[z]",)):
        site.desk.recorder.note("pause", about, " ".join(about), None)
    site.desk.recorder.note("lost", (), "3 records", None)
    await site.desk.written()

    assert [row["text"] for row in site.rows("--resource", "cmd.run[z]")] == ["3 records", "cmd.run[z]", ""]
    assert [row["text"] for row in site.rows("--resource", "file.*")] == ["3 records", "file.*", ""]
    assert [row["text"] for row in site.rows("--failed")] == ["3 records"]


async def test_the_changes_of_one_resource_are_found_without_reading_those_of_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another resource may have a name that begins with the whole identity; several pages are read."""
    monkeypatch.setattr(history, "PAGE", 2)
    await site.desk.changes(*[outcome(), outcome(f"{FILE} b]"), outcome("file.managed[y]")] * 5)
    scanned = []
    scan = RecordReader.scan

    def counted(reader: RecordReader, table: str, **bounds: Any) -> Any:
        scanned.append(table)
        return scan(reader, table, **bounds)

    monkeypatch.setattr(RecordReader, "scan", counted)
    with RecordReader(site.desk.records.path) as reader:
        found = [each.values["resource"] for each in newest_first(reader, Chosen(FILE))]
    assert found == [FILE] * 5
    assert set(scanned) == {"resource_changes", "notes"}


@pytest.mark.parametrize("word", ["file.managed[/a/caf\udce9]", "/a/caf\udce9", "caf\udce9", "file.*[*caf\udce9]"])
async def test_a_name_that_is_not_utf_8_is_found(site: Site, word: str) -> None:
    """The records have its bytes escaped; a user may write it as the shell completes it."""
    await site.a_pass(outcome("file.managed[/a/caf\udce9]"), outcome("file.managed[/a/caf]"))
    site.desk.recorder.note("pause", ["file.managed[/a/caf\udce9]"], "it is paused", None)
    await site.desk.written()
    rows = site.rows("--resource", word)
    assert [each.get("about") or each["resource"] for each in rows] == [
        ["file.managed[/a/caf\\udce9]"],
        "file.managed[/a/caf\\udce9]",
    ]
    with RecordReader(site.desk.records.path) as reader:
        assert find(reader, word).values["resource"] == "file.managed[/a/caf\\udce9]"


async def test_a_word_as_long_as_an_id_that_is_not_utf_8_names_no_drift(site: Site) -> None:
    """The word is not an ID, so it is not searched as one."""
    await site.a_pass(outcome())
    with RecordReader(site.desk.records.path) as reader, pytest.raises(Permanent, match="there is no drift"):
        find(reader, "0123456789a\udce9")


async def test_a_pass_that_was_cut_off_is_shown_without_an_end(site: Site) -> None:
    """The agent was killed, or the pass is running; a change outside of a pass has none."""
    await site.desk.changes(outcome())
    await site.desk.written(PassStarted(1, "drift"), outcome("file.managed[y]"))

    assert [line.partition(" ")[2].split(" in ")[0] for line in site.text().splitlines()[1:]] == [
        "a pass without an end: it is running, or the agent was killed",
        "ID repaired   file.managed[y]",
        "ID repaired   file.managed[x]",
    ]


async def test_a_failure_that_lasts_and_differences_are_told(site: Site) -> None:
    """The text has the number of attempts and, with `--diff`, the differences, without control characters."""
    changes = {"mode": {"old": "0600", "new": "0644\x1b[2J"}}
    await site.desk.changes(*[failure()] * 3, outcome("file.managed[y]", changes=changes, diff="-a\n+b\x1b[2J\n"))
    text = site.text("--diff")

    assert "mode: 0600 -> 0644" in text
    assert "           -a\n           +b" in text
    assert "\x1b" not in text
    assert "3 times until" in text


async def test_a_record_that_cannot_be_read_is_named(site: Site) -> None:
    """All other records are shown."""
    broken = TimeIds(agent=True).new(time.time())
    await site.desk.records.driver.commit(DbTransaction([Put("changes", broken, b"\xff")]))
    await site.desk.changes(outcome())

    assert "a record of changes cannot be read: see `holdfast db check`" in site.text()


async def test_every_line_fits_a_terminal_of_80_columns(site: Site) -> None:
    """Long identities, comments and names of programs are wrapped."""
    name = "/srv/" + "a-long-name/" * 10
    await site.a_pass(
        failure(f"file.managed[{name}]", comment="because " * 40),
        outcome(f"file.managed[{name}y]", undone=f"undone by file.managed[{name}]", by=Author(7, "vim", "x " * 100)),
        by={**BY, "command": "x " * 100},
    )
    site.desk.recorder.note("note", (), "word " * 50, BY)
    await site.desk.written()

    for words, least in ((["history"], 20), (["drift", "list"], 6)):
        terminal = Terminal([*COMMAND, *words, "--config", str(site.tree.config)], environment())
        assert terminal.end() == 0, terminal.written.decode()
        lines = terminal.written.decode().replace("\r", "").split("\n")
        assert len(lines) > least
        assert max(map(columns, lines)) <= 80


async def test_many_records_take_little_memory(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are read in pages, and only as far as requested."""
    monkeypatch.setattr(history, "PAGE", 10)
    await site.desk.changes(*[outcome(comment=str(number)) for number in range(100)])
    with RecordReader(site.desk.records.path) as reader:
        pages = []
        scan = reader.scan
        monkeypatch.setattr(reader, "scan", lambda *a, **b: pages.append(1) or scan(*a, **b))
        found = newest_first(reader, Chosen())
        assert [next(found).values["comment"] for _ in range(5)] == ["99", "98", "97", "96", "95"]
    assert len(pages) == 3


def test_without_records_a_sentence_says_so(tmp_path: Path) -> None:
    """No file is created."""
    said = Tree(tmp_path)("history", check=1).stderr

    assert "there are no records" in said
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"x" * 5000, "file is not a database; the agent replaces it"), (b"", "no such table"), (None, "the layout 99")],
    ids=["no database", "empty", "newer layout"],
)
async def test_a_file_that_is_no_database_of_records_is_refused(site: Site, content: bytes | None, why: str) -> None:
    """The error is one line."""
    await site.desk.records.close()
    if content is None:
        with sqlite3.connect(site.desk.records.path) as db:
            db.execute("pragma user_version = 99")
        db.close()
    else:
        site.desk.records.path.write_bytes(content)

    assert why in site.tree("history", check=1).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
async def test_the_records_of_another_user_are_not_read(site: Site) -> None:
    """Root does not trust a file that others can replace."""
    os.chown(site.desk.records.path.parent, UID, -1)
    assert "let only root write there" in site.tree("history", check=1).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_only_root_reads_the_records_of_root() -> None:
    """The error says so to another user."""
    with open_directory() as directory:
        (directory / "state").mkdir(mode=0o700)
        (directory / "state/records.db").touch()
        reader = RecordReader(directory / "state/records.db")
        assert "ermission denied" in as_a_stranger(reader.__enter__)


async def test_it_works_on_a_file_system_that_cannot_be_written(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite then cannot make its files beside the database."""
    await site.desk.changes(outcome())
    await site.desk.records.close()
    for end in ("-wal", "-shm"):
        site.desk.records.path.with_name(f"records.db{end}").unlink(missing_ok=True)
    connect = sqlite3.connect

    def refused(name: str, **options: Any) -> sqlite3.Connection:
        if "immutable" not in name:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return connect(name, **options)

    monkeypatch.setattr(sqlite3, "connect", refused)
    with RecordReader(site.desk.records.path) as reader:
        assert len(list(newest_first(reader, Chosen()))) == 1


def test_the_history_of_a_running_agent_and_after_its_end(tmp_path: Path) -> None:
    """Takes over a second: an agent starts and ends. Nothing but the agent writes the file."""
    tree = Tree(tmp_path, holdfast)
    tree.file()
    with Agent(tree) as agent:
        running = agent.wait(lambda: tree.json("history")["history"], "records")
    after = tree.json("history")["history"]

    assert [row["what"] for row in running if row["table"] == "changes"] == ["created"]
    assert after[-len(running) :] == running or {row["id"] for row in running} <= {row["id"] for row in after}


def test_the_origins_of_the_verb_are_those_of_the_model() -> None:
    """The verb does not import the model, which takes long."""
    assert get_args(models.Origin) == ORIGINS


def test_an_id_has_its_time() -> None:
    """The time is exact to the microsecond. A text that is not an ID has none."""
    assert time_of(TimeIds(agent=True).new(1795467177.916064)) == 1795467177.916064
    assert time_of("nothing") == 0


async def test_a_reader_tells_that_the_file_is_locked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program has locked it for longer than the reader waits."""
    await site.desk.records.close()
    monkeypatch.setattr("holdfast.agent.records.reading.TIMEOUT", 0.01)
    db = sqlite3.connect(site.desk.records.path)
    db.execute("pragma locking_mode = exclusive")
    db.execute("begin exclusive")
    with pytest.raises(Unavailable, match="locked"), RecordReader(site.desk.records.path):
        pass
    db.close()
