"""From the records to a real broker: in order, nothing lost, and nothing twice without need."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mosquitto
from deadline import DEADLINE
from holdfast.agent.publishing import publisher, session
from holdfast.agent.publishing.publishing import GAP, UNAVAILABLE
from holdfast.agent.records.models import Note, Published
from holdfast_process import environment
from mqtt_listener import Listener
from publishing_bench import caught_up, change, conditions, position, publishing, told
from record_desk import Desk

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Try again soon."""
    monkeypatch.setattr(session, "RETRY", 0.05)
    monkeypatch.setattr(publisher, "RETRY", 0.05)
    monkeypatch.setattr(publisher, "PAUSE", 0.05)


async def begun(listener: Listener, times: int = 1) -> None:
    """Wait until publishing has begun."""
    await listener.until(lambda: len(listener.of("gap")) == times, "the begin")


async def test_publishing_begins_with_what_is_present_and_says_so(desk, broker, prefix, heard):
    """Earlier records are not published, because no subscriber has requested them."""
    await change(desk)
    await conditions(desk, "a", "b")
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        new = await change(desk)
        await heard.until(lambda: heard.of("changes"))
    assert heard.of("presence")[0]["state"] == "online"
    assert [each["id"] for each in heard.of("conditions")[0]["conditions"]] == ["a", "b"]
    assert heard.of("gap")[0]["from"] is None
    assert heard.ids("changes") == new


async def test_everything_is_published_in_its_order(desk, broker, prefix, heard):
    """More messages than wait for their acknowledgement at once."""
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        new = [each for _ in range(5) for each in await change(desk, 50)]
        await heard.until(lambda: len(heard.of("changes")) >= len(new))
    assert heard.ids("changes") == new
    assert len({each["id"] for each in heard.of("changes")}) == len(new)


async def test_conditions_that_begin_and_end_are_messages_and_change_the_retained_one(desk, broker, prefix, heard):
    """The list is what holds now; the messages are what happened."""
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        await conditions(desk, "a")
        await conditions(desk)
        await heard.until(lambda: len(heard.of("conditions/changed")) == 2)
        await heard.until(lambda: heard.of("conditions")[-1]["conditions"] == [])
    begin, end = heard.of("conditions/changed")
    assert (begin["record"]["id"], "ended" in begin) == ("a", False)
    assert (end["record"]["id"], end["ended"]) == ("a", True)


async def test_a_condition_that_begins_while_publishing_begins_is_in_the_list(desk, broker, prefix, heard, monkeypatch):
    """After the first list was published, and before changes are watched."""
    find = publisher.Publisher._find_position

    async def slowly(self):
        await conditions(desk, "a")
        await find(self)

    monkeypatch.setattr(publisher.Publisher, "_find_position", slowly)
    async with publishing(desk, broker.port, prefix):
        await heard.until(lambda: [each["conditions"] for each in heard.of("conditions") if each["conditions"]])


async def test_a_disk_that_hangs_does_not_hold_up_the_stop(desk, broker, prefix, heard, monkeypatch):
    """The last messages are repeated after the next start then."""
    monkeypatch.setattr(publisher, "LEAVE", 0.05)
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        await change(desk)
        await caught_up(desk)
        hanging = asyncio.Event()

        async def hang(*_, **__):
            hanging.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(await desk.records.api(), "update", hang)
        await change(desk)
        await asyncio.wait_for(hanging.wait(), DEADLINE)
        until = asyncio.get_running_loop().time() + DEADLINE
    assert asyncio.get_running_loop().time() < until


async def test_a_restart_loses_nothing_and_repeats_nothing(desk, broker, prefix, heard):
    """The position was written at the end of the block before."""
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        first = await change(desk)
        await caught_up(desk)
    between = await change(desk, 3)
    async with publishing(desk, broker.port, prefix):
        await heard.until(lambda: len(heard.of("changes")) == 4)
        last = await change(desk)
        await heard.until(lambda: len(heard.of("changes")) == 5)
    assert heard.ids("changes") == first + between + last
    assert len(heard.of("gap")) == 1


async def test_nothing_is_lost_while_the_broker_is_away(desk, own_broker):
    """Nothing is lost even if the broker is killed in the middle, without stored state."""
    with Listener(own_broker.port) as before:
        async with publishing(desk, own_broker.port):
            await begun(before)
            await conditions(desk, "a")
            new = await change(desk, 3)
            await before.until(lambda: len(before.of("changes")) == 3)
            own_broker.kill()
            await before.until(lambda: UNAVAILABLE in told(desk))
            new += await change(desk, 30)
            own_broker.start()
            with Listener(own_broker.port) as after:
                both = lambda: set(before.ids("changes") + after.ids("changes"))  # noqa: E731
                await after.until(lambda: both() == set(new))
                await after.until(lambda: not told(desk))
                assert after.of("presence")[-1]["state"] == "online"
                assert [each["id"] for each in after.of("conditions")[0]["conditions"]] == ["a"]
                assert not after.of("gap")


async def test_kill_9_repeats_what_was_not_noted_and_loses_nothing(desk, own_broker, tmp_path, monkeypatch):
    """The process dies after messages were acknowledged and before the position was written."""
    with Listener(own_broker.port) as heard:
        async with publishing(desk, own_broker.port):
            await begun(heard)
        new = await change(desk, 3)
        await desk.records.close()
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(own_broker.port)]
        env = {**environment(), "PYTHONPATH": f"{SUPPORT}:src"}
        with subprocess.Popen(command, env=env) as process:  # noqa: ASYNC220 - it starts at once
            try:
                await heard.until(lambda: len(heard.of("changes")) == 3)
            finally:
                process.send_signal(signal.SIGKILL)
        await heard.until(lambda: heard.of("presence")[-1]["state"] == "offline")
        later = Desk(tmp_path)
        await later.records.open()
        async with publishing(later, own_broker.port):
            await heard.until(lambda: len(heard.of("changes")) >= 6)
        await later.records.close()
    assert heard.ids("changes") == new + new
    first, second = heard.of("changes")[:3], heard.of("changes")[3:]
    assert first == second


KILLED = """
import asyncio, sys
from pathlib import Path
from holdfast.agent.publishing import publisher
from publishing_bench import publishing
from record_desk import Desk
async def never(self): await asyncio.Event().wait()
publisher.Publisher._keep_position = never
async def main():
    desk = Desk(Path(sys.argv[1]))
    await desk.records.open()
    async with publishing(desk, int(sys.argv[2])):
        await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_what_the_history_no_longer_holds_is_told_as_a_gap(desk, broker, prefix, heard):
    """What it still holds is published."""
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
    lost, kept = await change(desk, 2), None
    api = await desk.records.api()
    revision = api.view.revision
    kept = await change(desk, 2)
    await desk.records.driver.compact(revision + 1)
    before = await position(desk)
    async with publishing(desk, broker.port, prefix):
        await heard.until(lambda: len(heard.of("changes")) == 2)
        assert GAP in told(desk)
    assert heard.ids("changes") == kept
    assert not set(lost) & set(heard.ids("changes"))
    gap = heard.of("gap")[-1]
    assert (gap["from"], gap["id"]) == (before.at, f"{revision}/gap")
    assert gap["to"] >= before.at


async def test_a_database_that_was_lost_is_a_gap_too(desk, broker, prefix, heard, tmp_path):
    """When the last message was published is unknown. Its revisions go on, so the IDs of messages remain different."""
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        await change(desk)
        await caught_up(desk)
    await desk.records.close()
    desk.records.path.write_bytes(b"no database at all " * 1000)
    later = Desk(tmp_path)
    await later.records.open()
    async with publishing(later, broker.port, prefix):
        await begun(heard, 2)
        new = await change(later)
        await heard.until(lambda: heard.ids("changes")[-1:] == new)
    await later.records.close()
    assert heard.of("gap")[-1]["from"] is None
    assert len({each["id"] for each in heard.of("changes")}) == 2


async def test_a_position_that_was_lost_is_written_again(desk, broker, prefix, heard):
    """The database was recreated while the agent was running."""
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        await (await desk.records.api()).delete(Published(id=publisher.ID))
        await change(desk)
        await heard.until(lambda: heard.of("changes"))
        async with asyncio.timeout(DEADLINE):
            while await (await desk.records.api()).get(Published, publisher.ID) is None:
                await asyncio.sleep(0.01)
        await caught_up(desk)


async def test_an_idle_agent_writes_no_position(desk, broker, prefix, heard):
    """Writing it is a write itself, which must not lead to another one."""
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        await change(desk)
        await caught_up(desk)
        revision = (await desk.records.driver.read([])).revision
        await asyncio.sleep(4 * publisher.PAUSE)
        assert (await desk.records.driver.read([])).revision == revision


async def test_the_position_follows_writes_of_others(desk, broker, prefix, heard, monkeypatch):
    """Otherwise the history would be forgotten up to a later revision, as if messages had been lost."""
    monkeypatch.setattr(publisher, "AHEAD", 10)
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        before = await position(desk)
        for _ in range(12):
            desk.recorder.note("note", (), "text", None)
            await desk.written()
        while (await position(desk)).revision <= before.revision + 10:
            await asyncio.sleep(0.01)
    assert not heard.of("changes")
    assert len(await (await desk.records.api()).page(Note)) == 12


async def test_the_position_is_renewed_as_time_goes_by(desk, broker, prefix, heard, monkeypatch):
    """The history is bounded by age, too."""
    monkeypatch.setattr(publisher, "RENEW", 0.05)
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        before = await position(desk)
        while (await position(desk)).at == before.at:
            await asyncio.sleep(0.01)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[mosquitto.Mosquitto]:
    """A broker that does not accept changes."""
    acl = tmp_path / "acl"
    allowed = ("presence", "conditions/#", "gap")
    acl.write_text("".join(f"topic readwrite holdfast/+/{each}\n" for each in allowed) + "topic read #\n")
    acl.chmod(0o644)
    with mosquitto.Mosquitto(("allow_anonymous true", f"acl_file {acl}")) as running:
        yield running


async def test_what_the_broker_refuses_waits_and_is_told(desk, strict, tmp_path):
    """The message waits until an administrator of the broker permits it. Nothing is skipped."""
    with Listener(strict.port) as heard:
        async with publishing(desk, strict.port):
            await begun(heard)
            new = await change(desk, 3)
            await heard.until(lambda: told(desk))
            assert told(desk) == {
                UNAVAILABLE: "cannot publish messages: the broker refuses messages to holdfast/web1/changes: "
                "Not authorized"
            }
            (tmp_path / "acl").write_text("topic readwrite #\n")
            strict.reload()
            await heard.until(lambda: len(heard.of("changes")) >= 3)
            await heard.until(lambda: not told(desk))
    assert list(dict.fromkeys(heard.ids("changes"))) == new


async def test_a_refused_message_that_is_forgotten_is_told_as_a_gap(desk, strict):
    """It no longer waits."""
    with Listener(strict.port) as heard:
        async with publishing(desk, strict.port):
            await begun(heard)
            await change(desk)
            await heard.until(lambda: UNAVAILABLE in told(desk))
            await desk.records.driver.compact((await desk.records.driver.read([])).revision + 1)
            await begun(heard, 2)
            await heard.until(lambda: told(desk).keys() == {GAP})


async def test_a_position_that_cannot_be_written_is_written_later(desk, broker, prefix, heard, monkeypatch):
    """Messages continue meanwhile. The records report why they cannot be written."""
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        await change(desk)
        await caught_up(desk)
        api = await desk.records.api()
        update, failures = api.update, []

        async def full(*arguments, **options):
            if len(failures) < 3:
                failures.append(1)
                raise publisher.NorthboundError("the disk is full")
            return await update(*arguments, **options)

        monkeypatch.setattr(api, "update", full)
        await change(desk)
        await heard.until(lambda: len(heard.of("changes")) == 2)
        await heard.until(lambda: len(failures) == 3)
        await caught_up(desk)


async def test_a_store_that_is_closed_ends_publishing_without_noise(desk, broker, prefix, heard):
    """The order of the agent's stop must not matter."""
    async with publishing(desk, broker.port, prefix):
        await begun(heard)
        await desk.records.close()
        assert not told(desk)
