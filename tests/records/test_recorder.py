"""What the recorder writes down of the engine's events, and how it survives a database that cannot be written."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.engine.model.events import Interrupted, PassEnded, PassRecord, PassStarted
from holdfast.agent.engine.model.tally import Tally
from holdfast.agent.northbound.drivers import sqlite
from holdfast.agent.northbound.drivers.base import DbTransaction, Limits, Put
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.records import recorder as module
from holdfast.agent.records import write_queue
from holdfast.agent.records.models import Change, Condition, Host, Note, Pass, ResourceStatus
from holdfast.resources.author import Author
from holdfast.resources.effects import Effect
from holdfast.resources.replaced import ReplacedFile
from holdfast.resources.secrets import Redactor
from record_desk import FILE, Desk, failure, outcome


async def test_a_check_without_a_difference_writes_nothing(desk: Desk) -> None:
    """Neither does a run that a guard prevented."""
    api = await desk.written(outcome(changes={}), outcome(changes={}, ran=False, reason="onlyif"))

    assert (await desk.records.driver.read()).rows == []
    assert await api.page(Change) == []


async def test_outcomes_are_written_in_words(desk: Desk) -> None:
    """Changed, failed, blocked, would change, and recovered after a failure."""
    found = await desk.changes(
        outcome(cause="start", effect=Effect(("create",), "x")),
        outcome(),
        outcome(result=None),
        outcome(result=False, changes={}, ran=False, reason="requisite_failed"),
        failure(),
        outcome(changes={}),
        outcome(changes={}),
    )

    assert [each.what for each in found] == ["recovered", "failed", "blocked", "would repair", "repaired", "created"]
    assert [each.origin for each in found] == ["drift"] * 5 + ["start"]
    assert [each.review for each in found] == ["", "", "", "new", "new", ""]


async def test_what_an_interrupted_run_had_changed_is_written(desk: Desk) -> None:
    """Otherwise the change would be lost, because the next run finds it done. A lasting failure continues."""
    done = failure(comment="its run was interrupted; created note web", changes={"a": 1})
    found = await desk.changes(failure(), Interrupted(done), failure())

    assert [(each.what, each.result, each.times) for each in found] == [
        ("interrupted", "failed", 1),
        ("failed", "failed", 2),
    ]
    assert (found[0].comment, found[0].changes) == ("its run was interrupted; created note web", {"a": 1})


async def test_a_failure_that_is_retried_all_night_is_one_record(desk: Desk) -> None:
    """The record counts the attempts, and has the time of the first and of the last one."""
    retries = [failure(cause=cause) for cause in ("retry", "retry", "recheck")] * 300
    found = await desk.changes(outcome(), failure(cause="states changed"), *retries)

    assert [(each.what, each.times, each.origin) for each in found] == [
        ("failed", 901, "states"),
        ("repaired", 1, "drift"),
    ]
    assert found[0].first < found[0].at


async def test_a_resource_has_a_status_as_long_as_it_is_not_as_declared(desk: Desk) -> None:
    """The record appears with the failure and disappears with the repair, or with the resource."""
    api = await desk.written(failure(), failure("file.managed[y]"), outcome("file.managed[z]"))
    assert {each.id: each.result for each in await api.get_all(ResourceStatus)} == {
        FILE: "failed",
        "file.managed[y]": "failed",
    }

    await desk.written(outcome(), PassEnded(PassRecord(1, "drift", 0.0)))
    assert [each.id for each in await api.get_all(ResourceStatus)] == ["file.managed[y]"]

    desk.declared = {FILE}
    desk.recorder.swapped(Path("/srv/states"), {})
    await desk.written(PassEnded(PassRecord(2, "states changed", 0.0)))
    assert await api.get_all(ResourceStatus) == []


async def test_a_restarted_agent_removes_what_an_earlier_one_has_left(desk: Desk) -> None:
    """These are statuses of resources that are as declared now, and conditions that have ended."""
    desk.recorder.state.conditions([desk.health.set("watch-polling", "slow") or desk.health.conditions[0]])
    api = await desk.written(failure())
    assert len(await api.get_all(Condition)) == 1

    desk.health.clear("watch-polling")
    desk.recorder = desk.new_recorder()
    assert await desk.recorder.queue.flush()
    await desk.written(outcome(changes={}))

    assert await api.get_all(ResourceStatus) == []
    assert await api.get_all(Condition) == []


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "no longer declared"])
async def test_a_status_ends_if_the_first_pass_ends_before_the_database_is_read(desk: Desk, *, declared: bool) -> None:
    """A small configuration is quicker than the disk."""
    await desk.written(failure(), failure("file.managed[y]"))
    desk.recorder = desk.new_recorder()
    desk.declared = {FILE, "file.managed[y]"} if declared else {"file.managed[y]"}
    desk.recorder.swapped(Path("/srv/states"), {})
    outcomes = [outcome(changes={})] if declared else []
    events = [desk.ran(each) for each in (*outcomes, failure("file.managed[y]"))]
    api = await desk.written(PassStarted(1, "start"), *events, PassEnded(PassRecord(1, "start", 0.0)))

    assert [each.id for each in await api.get_all(ResourceStatus)] == ["file.managed[y]"]


async def restarted(desk: Desk) -> None:
    """Let a new recorder continue, as after a restart of the agent."""
    desk.recorder = desk.new_recorder()
    assert await desk.recorder.queue.flush()


@pytest.mark.parametrize("values", [{}, {"ran": False, "reason": "requisite_failed"}], ids=["failed", "blocked"])
async def test_a_failure_that_lasts_over_a_restart_is_one_record(desk: Desk, values: dict[str, Any]) -> None:
    """A long comment, its diff and its status stay as they are; the end of the failure is recorded."""
    wrong = failure(comment="no " * 2000, diff="+a", ended="killed", cause="states changed", **values)
    api = await desk.written(PassStarted(1, "start"), wrong)
    (before,) = await api.page(Change)
    status = await api.get_all(ResourceStatus)
    await restarted(desk)
    (after,) = await desk.changes(wrong._replace(cause="start"))

    assert after.times == 2
    same = {"at": after.at, "times": 2}
    assert before.model_dump() | same == after.model_dump()
    assert await api.get_all(ResourceStatus) == status
    await restarted(desk)
    assert [each.what for each in await desk.changes(outcome(changes={}))] == ["recovered", after.what]
    assert await api.get_all(ResourceStatus) == []


@pytest.mark.parametrize("same", [True, False], ids=["same", "another"])
async def test_a_failure_that_is_reported_before_the_database_is_read_is_continued(desk: Desk, *, same: bool) -> None:
    """A small configuration is faster than the disk. Another failure of the resource has a record of its own."""
    api = await desk.written(PassStarted(1, "start"), failure(comment="no " * 2000))
    (before,), (status,) = await api.page(Change), await api.get_all(ResourceStatus)
    desk.recorder = desk.new_recorder()
    found = failure(comment="no " * 2000 if same else "never", cause="start")
    changes = await desk.changes(found, found)

    assert [each.times for each in changes] == ([3] if same else [2, 1])
    assert changes[-1].model_dump() == before.model_dump() | ({"at": changes[0].at, "times": 3} if same else {})
    assert [each.since for each in await api.get_all(ResourceStatus)] == [status.since]
    assert [each.what for each in await desk.changes(outcome(changes={}))][:1] == ["recovered"]


@pytest.mark.parametrize("data", [b"no JSON", b"[]", b'{"what": "failed"}', b'{"what": "failed", "resource": 1}'])
async def test_a_record_of_a_failure_that_cannot_be_read_is_not_continued(desk: Desk, data: bytes) -> None:
    """The failure gets a new record."""
    api = await desk.written(failure())
    (change,) = await api.page(Change)
    await desk.records.driver.commit(DbTransaction([Put("changes", change.id, data), Put("resources", FILE, data)]))
    await restarted(desk)
    desk.recorder.tell(module.Ran(1, failure()))
    assert await desk.recorder.queue.flush()

    assert len(await desk.records.driver.scan("changes")) == 2


async def test_a_status_is_as_old_as_its_result(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another comment, of another attempt, does not make it newer."""
    monkeypatch.setattr(module.time, "time", lambda: 2000.0)
    await desk.written(failure(comment="pid 1"))
    monkeypatch.setattr(module.time, "time", lambda: 3000.0)
    await restarted(desk)
    api = await desk.written(failure(comment="pid 2"))

    (status,) = await api.get_all(ResourceStatus)
    assert (status.since, status.comment) == (2000.0, "pid 2")


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that soon sees the damage of its database."""
    monkeypatch.setattr(sqlite, "AGENT_POLL", 0.05)


@pytest.mark.usefixtures("polled")
async def test_what_is_true_is_written_again_after_the_database_was_lost(desk: Desk) -> None:
    """These are the host, conditions and statuses. Records of earlier events are lost."""
    desk.recorder.swapped(Path("/srv/states"), {"os": "Debian"})
    desk.health.set("watch-polling", "slow")
    desk.recorder.state.conditions(desk.health.conditions)
    await desk.written(failure(), outcome("file.managed[y]"))
    desk.records.path.write_bytes(b"garbage" * 10_000)

    async with asyncio.timeout(DEADLINE):
        while not desk.records.driver.renewed:
            await desk.written(outcome("file.managed[z]"))
    api = await desk.written()
    assert [each.id for each in await api.page(Host)] == ["web1"]
    assert "watch-polling" in [each.id for each in await api.page(Condition)]
    assert [each.id for each in await api.page(ResourceStatus)] == [FILE]


async def test_a_secret_in_the_name_of_a_resource_is_not_recorded(desk: Desk) -> None:
    """Neither in changes, statuses, calls nor notes; the history of the resource is found by its real name."""
    desk.recorder = desk.new_recorder(redact=Redactor({"password": "hunter2hunter2"}))
    name = "file.managed[/srv/hunter2hunter2]"
    desk.declared = {name}
    desk.recorder.called(name, "pkg.install hunter2hunter2", 0.1, {"pid": 1})
    desk.recorder.note("pause", [name], "hunter2hunter2", None)
    await desk.written(outcome(name), failure(name), PassEnded(PassRecord(1, "drift", 0.0)))
    everything = await desk.records.driver.read()

    assert not [each for each in everything.rows if "hunter2" in each.id or b"hunter2" in each.data]
    assert len([each for each in everything.rows if each.table == "resources"]) == 1
    assert [each["what"] for each in await desk.recorder.history(name)] == ["failed", "repaired", "called"]


async def test_a_pass_is_written_if_it_brought_news(desk: Desk) -> None:
    """The changes of the pass refer to it."""
    tally = Tally([outcome(), failure("file.managed[y]")])
    api = await desk.written(
        PassStarted(7, "drift"), outcome(), PassEnded(PassRecord(7, "drift", 5.0, 0.5, counted=tally))
    )
    await desk.written(PassStarted(8, "poll"), outcome(changes={}), PassEnded(PassRecord(8, "poll", 6.0)))

    (found,) = await api.page(Pass)
    (change,) = await api.page(Change)
    assert (found.number, found.counts) == (7, {"checked": 2, "changed": 1, "failed": 1})
    assert change.run is not None
    assert change.run.id == found.id


async def test_who_asked_is_written_with_the_change_and_the_pass(desk: Desk) -> None:
    """The request is for one resource (`trigger`) or for all (`recheck`)."""
    desk.recorder.asked({"pid": 7, "uid": 1000, "way": "socket"}, FILE)
    (first,) = await desk.changes(outcome(cause="command"))
    assert first.by is not None
    assert (first.by.pid, first.by.uid, first.origin) == (7, 1000, "command")

    desk.recorder.asked({"pid": 8, "uid": 0, "way": "socket"})
    api = await desk.written(
        PassStarted(2, "command"), outcome(cause="command"), PassEnded(PassRecord(2, "command", 5.0))
    )
    (found,) = await api.page(Pass)
    assert found.by is not None
    assert found.by.pid == 8


async def test_who_caused_a_drift_is_written_with_the_change(desk: Desk) -> None:
    """The change also says how a service had ended."""
    vim = Author(7, "vim", "vim /etc/motd", 0, "root", "deploy", "session-3.scope")
    (first,) = await desk.changes(outcome(by=vim, ended="killed by signal 9 (SIGKILL)"))
    assert first.by is not None
    assert Author.of(first.by.model_dump()) == vim
    assert (first.by.way, first.ended) == ("host", "killed by signal 9 (SIGKILL)")
    (entry,) = await desk.recorder.history(FILE)
    assert (entry["by"], entry["ended"]) == (vim.fields(), first.ended)


async def test_ids_sort_by_time_also_after_the_clock_was_set_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted agent continues after the greatest ID of the database."""
    monkeypatch.setattr(module.time, "time", lambda: 2000.0)
    await desk.changes(outcome(comment="first"), outcome(comment="second"))
    desk.recorder = desk.new_recorder()
    assert await desk.recorder.queue.flush()
    monkeypatch.setattr(module.time, "time", lambda: 1000.0)
    found = await desk.changes(outcome(comment="third"))

    assert [each.comment for each in found] == ["third", "second", "first"]


def circle() -> list[Any]:
    """Return a list that contains itself."""
    found: list[Any] = []
    found.append(found)
    return found


class Strange:
    """A value that has no text."""

    def __str__(self) -> str:
        """Raise an error."""
        raise LookupError


async def test_what_cannot_be_written_is_counted_and_holds_up_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records before and after it are written."""
    monkeypatch.setattr(desk.records.driver, "limits", Limits(1000, 50_000))
    api = await desk.written(
        outcome(comment="before"),
        outcome(changes={"a": Strange()}),
        outcome(diff="x" * 60_000),
        outcome(comment="after"),
    )
    await desk.recorder.queue.flush()

    assert [each.text for each in await api.page(Note)] == ["1 record was lost: it could not be written"]
    assert [each.comment for each in await api.page(Change)] == ["before", "", "after"]


async def test_long_and_strange_values_are_cut_and_can_be_read(desk: Desk) -> None:
    """Nothing that a kind reports makes a record unreadable."""
    strange: dict[str, Any] = {
        "text": "x" * 100_000,
        "deep": {"a": [{"b": 1}] * 10_000},
        "number": 10**30,
        "nan": float("nan"),
        "infinite": float("inf"),
        "name": "caf\udce9",
        "pair": {"old": None, "new": "0644"},
        "bytes": b"\xff",
        "keys": {("a", "b"): 1},
        "circle": circle(),
    }
    (found,) = await desk.changes(outcome("file.managed[caf\udce9]", changes=strange, diff="d\n" * 100_000))
    api = await desk.records.api()

    assert api.problems() == []
    assert found.resource == "file.managed[caf\\udce9]"
    assert len(found.diff) < 70_000
    assert all(len(str(each)) < 3000 for each in found.changes.values())
    assert found.changes["pair"] == {"old": None, "new": "0644"}
    assert (await desk.recorder.history("file.managed[caf\udce9]"))[0]["what"] == "repaired"


async def test_the_history_of_a_resource_is_that_of_no_other(desk: Desk) -> None:
    """Another resource may have a name that begins with the whole identity of the first."""
    other = f"{FILE} b]"
    await desk.changes(*(outcome(comment=str(number)) for number in range(15)), *(outcome(other) for _ in range(15)))

    assert [each["comment"] for each in await desk.recorder.history(FILE)] == [str(14 - number) for number in range(10)]


async def test_records_that_cannot_be_opened_are_a_condition_until_they_can(tmp_path: Path) -> None:
    """The text has the file and the reason; new records wait."""
    with closing(sqlite3.connect(tmp_path / "records.db")) as newer:
        newer.execute("pragma user_version = 999")
    desk = Desk(tmp_path)
    desk.recorder.tell(module.Ran(1, outcome()))
    assert not await desk.recorder.queue.flush()

    (condition,) = desk.health.conditions
    assert condition.code == "records-unopened"
    assert condition.text.startswith(f"{tmp_path}/records.db was written by a newer version (layout 999; ")
    assert condition.text.endswith("; repairs continue")
    (tmp_path / "records.db").unlink()
    assert await desk.recorder.queue.flush()
    assert not desk.health.conditions
    await desk.records.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_the_last_room_on_a_disk_is_left_to_the_journal(tmp_path: Path) -> None:
    """The records stop first, health says so, and they are written when there is room."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", tmp_path], check=True)  # noqa: ASYNC221
    try:
        desk = Desk(tmp_path)
        await desk.records.open()
        filler = tmp_path / "filler"
        filler.write_bytes(b"x" * (5 << 19))
        while await desk.recorder.queue.flush():
            desk.recorder.tell(module.Ran(1, outcome(diff="x" * 60_000)))
        info = os.statvfs(tmp_path)
        assert info.f_bavail * info.f_frsize > 1 << 19
        assert [each.code for each in desk.health.conditions] == ["records-unwritable"]

        filler.unlink()
        assert await desk.recorder.queue.flush()
        assert not desk.health.conditions
        await desk.records.close()
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)  # noqa: ASYNC221


async def test_records_wait_while_the_database_cannot_be_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written later, in order. Too many of them are lost, and a note says how many."""
    monkeypatch.setattr(write_queue, "ROOM", 10 * (write_queue.EACH + 100))
    commit = desk.records.driver.commit

    async def refuse(*_: object) -> int:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(desk.records.driver, "commit", refuse)
    for number in range(25):
        desk.recorder.tell(module.Ran(1, outcome(comment=str(number))))
    assert not await desk.recorder.queue.flush()
    assert [each.code for each in desk.health.conditions] == ["records-lost"]

    monkeypatch.setattr(desk.records.driver, "commit", commit)
    found = await desk.changes()
    assert [each.comment for each in found] == [str(24 - number) for number in range(10)]
    assert not desk.health.conditions
    (note,) = await (await desk.records.api()).page(Note)
    assert note.text.startswith("15 records")


async def test_the_report_of_lost_records_ends_also_if_their_note_has_to_wait(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails again while the note is written."""
    monkeypatch.setattr(write_queue, "ROOM", 2 * (write_queue.EACH + 100))
    commit, works = desk.records.driver.commit, iter((False, True, False))

    async def flaky(writes: DbTransaction) -> int:
        if not next(works, True):
            raise Unavailable("the disk is full")
        return await commit(writes)

    monkeypatch.setattr(desk.records.driver, "commit", flaky)
    for number in range(9):
        desk.recorder.tell(module.Ran(1, outcome(comment=str(number))))
    assert [await desk.recorder.queue.flush() for _ in range(3)] == [False, False, True]

    assert not desk.health.conditions
    assert len(await (await desk.records.api()).page(Note)) == 1


async def test_the_task_writes_within_the_delay(desk: Desk) -> None:
    """The task writes without a request, and before the agent ends."""
    running = asyncio.create_task(desk.recorder.run())
    api = await desk.records.api()
    desk.recorder.tell(module.Ran(1, outcome()))
    async for each in api.follow([Change], 0):
        assert each.id
        break
    running.cancel()
    await asyncio.wait([running])


async def test_the_live_view_has_the_last_changes_of_all_resources(desk: Desk) -> None:
    """Repeated failures do not displace the repairs of others; their number is limited."""
    await desk.changes(outcome("file.managed[y]"), *[failure(cause="retry")] * 100)
    recent = desk.recorder.recent.changes

    assert [(identity, what, each.times) for (identity, what), each in recent.items()] == [
        ("file.managed[y]", "repaired", 1),
        (FILE, "failed", 100),
    ]
    await desk.changes(*(outcome(f"file.managed[{number}]") for number in range(60)))
    assert len(recent) == 50


async def test_files_that_were_replaced_and_former_values_are_recorded(desk: Desk) -> None:
    """A file that is only counted has no path; names that are no Unicode can be read."""
    files = (
        ReplacedFile("/etc/motd", "ab" * 32, 7, 0o644, 1000, 1000),
        ReplacedFile("/etc/caf\udce9", link="/etc/x"),
        ReplacedFile("", lost="3 more files"),
    )
    (found,) = await desk.changes(outcome(replaced=files, before={"enabled": False, "long": "x" * 10_000}))

    assert [(each.path, each.sha256, each.size, each.link, each.lost) for each in found.replaced] == [
        ("/etc/motd", "ab" * 32, 7, "", ""),
        ("/etc/caf\\udce9", "", 0, "/etc/x", ""),
        ("", "", 0, "", "3 more files"),
    ]
    assert found.before["enabled"] is False
    assert len(found.before["long"]) < 3000


async def test_a_difference_that_is_not_repaired_is_recorded_once(desk: Desk) -> None:
    """In noop or a pause, it is recorded again if it changes, if it was absent meanwhile, or if an operator asks."""
    first = outcome(result=None, diff="-a\n+b\n")
    found = await desk.changes(first, first, first._replace(cause="recheck"))
    assert [each.review for each in found] == ["new"]

    found = await desk.changes(first._replace(diff="-c\n+b\n"), first._replace(diff="-c\n+b\n", cause="command"))
    assert [each.review for each in found] == ["", "new", "new"]
    found = await desk.changes(outcome(changes={}), first._replace(diff="-c\n+b\n"))
    assert [each.review for each in found] == ["new", "", "new", "new"]


async def test_what_is_reported_during_a_write_waits_for_the_next_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a first pass would be written in thousands of small transactions."""
    commit, sizes = desk.records.driver.commit, []

    async def counted(transaction: Any) -> int:
        sizes.append(len(transaction.writes))
        desk.recorder.tell(module.Ran(1, outcome(f"a[{len(sizes)}]")))
        return await commit(transaction)

    monkeypatch.setattr(desk.records.driver, "commit", counted)
    monkeypatch.setattr(write_queue, "GROUP", 2)
    for number in range(5):
        desk.recorder.tell(module.Ran(1, outcome(f"b[{number}]")))
    assert await desk.recorder.queue.flush()
    assert sizes == [4, 4, 4]
    assert desk.recorder.queue.waits


async def test_ten_thousand_failures_that_are_retried_cost_one_record_each(desk: Desk) -> None:
    """Takes about a second: 30 000 events. A retry replaces the entry that waits, so nothing is lost."""
    for _ in range(3):
        for number in range(10_000):
            desk.recorder.tell(module.Ran(1, failure(f"file.managed[{number}]")))
    assert await desk.recorder.queue.flush()
    found = await desk.records.driver.scan("changes", limit=20_000)

    assert len(found) == 10_000
    assert all(b'"times":3' in each.data for each in found)
    assert len((await desk.records.driver.read(["resources"])).rows) == 10_000
    assert not desk.health.conditions


async def test_a_condition_about_the_database_stays_until_what_waited_is_written(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small write that succeeds on a full disk does not end it."""
    commit = desk.records.driver.commit

    async def refuse(*_: object) -> int:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(desk.records.driver, "commit", refuse)
    desk.recorder.tell(module.Ran(1, outcome()))
    assert not await desk.recorder.queue.flush()
    for trouble in ("the disk is full", "", "the disk is full", ""):
        desk.records.driver._tell_trouble(trouble)
        assert [each.code for each in desk.health.conditions] == ["records-unwritable"]

    monkeypatch.setattr(desk.records.driver, "commit", commit)
    assert await desk.recorder.queue.flush()
    assert not desk.health.conditions
