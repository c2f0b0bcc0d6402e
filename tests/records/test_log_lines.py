"""The log and the live view across restarts: older lines come from the records."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.records import history
from holdfast.agent.records.history import Chosen
from holdfast.agent.records.log_lines import OlderLines
from holdfast_process import Agent, Tree
from record_desk import Desk, failure, outcome


async def lines(
    desk: Desk, most: int = 100, *, since: float | None = None, before: float = 0, **asked: Any
) -> list[str]:
    """Return the sentences of the older lines."""
    older = OlderLines(desk.recorder.queue, Chosen(**asked))
    at = before or time.time() + 1
    return [entry["event"] async for page in older.before(at, since, most, 3) for entry in page]


async def test_older_lines_are_made_from_changes_failures_and_notes(desk: Desk) -> None:
    """Oldest first, as the log has them; also those that are not written yet."""
    desk.recorder.note("pause", (), "everything is paused", None)
    await desk.written(outcome(duration=0.003, diff="-a\n+b\n", changes={"mode": {"old": "1", "new": "2"}}))
    await desk.written(failure("cmd.run[x]", cause="start"))
    desk.recorder.tell(desk.ran(outcome("file.managed[y]", result=None, comment="would be other")))

    assert await lines(desk) == [
        "everything is paused",
        "repaired file.managed[x] in 3 ms (drift)",
        "failed cmd.run[x] in <0.1 ms (start): no",
        "would repair file.managed[y] in <0.1 ms (drift): would be other",
    ]
    older = OlderLines(desk.recorder.queue, Chosen("file.managed[x]"))
    (entry,) = [each async for page in older.before(time.time() + 1, None, 9, 9) for each in page if each.get("diff")]
    assert (entry["source"], entry["level"], entry["result"], entry["cause"]) == ("records", "info", "changed", "drift")
    assert entry["details"] == "-a\n+b\nmode: 1 -> 2"


async def test_the_last_lines_that_match_are_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several pages, no more than asked, and none from outside the time."""
    monkeypatch.setattr(history, "PAGE", 4)
    marks = []
    for number in range(20):
        marks.append(time.time())
        await desk.changes(failure(f"a[{number}]") if number % 2 else outcome(f"a[{number}]"))

    def numbers(found: list[str]) -> list[int]:
        return [int(each.partition("[")[2].partition("]")[0]) for each in found]

    assert numbers(await lines(desk, 3)) == [17, 18, 19]
    assert numbers(await lines(desk, 3, failed=True)) == [15, 17, 19]
    assert numbers(await lines(desk, since=marks[15], before=marks[18])) == [15, 16, 17]
    assert numbers(await lines(desk, 2, cause="drift", before=marks[2])) == [0, 1]
    assert numbers(await lines(desk, resource="a[7]")) == [7]
    assert await lines(desk, resource="nothing") == []


async def test_records_that_cannot_be_read_are_left_out(desk: Desk) -> None:
    """The log then has only the lines in memory."""
    await desk.changes(outcome())
    older = OlderLines(desk.recorder.queue, Chosen())
    assert await older.beginning() == pytest.approx(time.time(), abs=60)
    desk.records.path.write_bytes(b"x" * 100)

    assert await lines(desk) == []
    assert await older.beginning() is None


async def test_a_client_that_leaves_closes_the_file(desk: Desk) -> None:
    """No descriptor stays open."""
    await desk.changes(*(outcome(f"a[{number}]") for number in range(9)))
    pages = OlderLines(desk.recorder.queue, Chosen()).before(time.time() + 1, None, 100, 2)
    assert len(await anext(pages)) == 2
    opened = _descriptors(desk.records.path)
    await pages.aclose()

    assert _descriptors(desk.records.path) < opened


def _descriptors(path: Path) -> int:
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            found += str(each.readlink()).startswith(str(path))
        except FileNotFoundError:
            continue
    return found


def test_the_log_has_the_lines_from_before_a_restart_once(tmp_path: Path) -> None:
    """Takes over a second: the agent is restarted. Older lines are marked, and say since when there are records."""
    tree = Tree(tmp_path)
    tree.file()
    tree.sls("bad", "'false':\n  cmd.run: []\n")
    with Agent(tree):
        tree("pause", "nothing*", "--reason", "kernel", check=0)
    (tree.host / "motd").write_text("drifted")
    with Agent(tree) as agent:
        agent.wait_log(" checked, 1 changed")
        found = [json.loads(line) for line in tree("log", "--format", "json", check=0).stdout.splitlines()]
        text = tree("log", "--resource", "*motd]", check=0).stdout
        told = tree("log", "--since", "1h", check=0).stderr
        failed = tree("log", "--since", "1h", "--failed", check=0).stdout
        shown = tree("log", "--lines", "0", check=0).stdout
    recorded = [each["message"] for each in found if each.get("source") == "records"]
    kept = [each["message"] for each in found if "source" not in each]
    changes = [each.split(" in ")[0].split(" /")[0] for each in recorded]

    assert [each.partition(" ")[0] for each in changes] == ["failed", "created", "nothing*"]
    assert found[: len(recorded)] == [each for each in found if each.get("source")]
    assert "source=records" in text.splitlines()[0]
    assert text.count("source=records") == 1
    assert any(" file.managed[" in each for each in kept), kept
    assert "the log begins at " in told
    assert "the records have changes, failures and notes since " in told
    assert failed.count("failed cmd.run[false]") == 2
    assert shown == ""


async def test_the_live_view_begins_with_the_changes_of_an_earlier_agent(desk: Desk) -> None:
    """They come before those of this one, and their number is limited."""
    await desk.changes(
        *(outcome(f"a[{number}]") for number in range(60)),
        outcome("a[0]"),
        failure(ran=False, reason="requisite_failed"),
    )
    desk.recorder = desk.new_recorder()
    desk.recorder.tell(desk.ran(outcome("b[0]")))
    assert await desk.recorder.queue.flush()
    recent = [identity for identity, _ in desk.recorder.recent.changes]

    assert recent[-3:] == ["a[59]", "a[0]", "b[0]"]
    assert len(recent) == 50
