"""The D-Bus connection against a real bus daemon of our own, which is killed and started again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from dbus_fast import BusType, Message
from dbus_fast.aio import MessageBus

from holdfast.agent.health import Health
from holdfast.agent.host import dbus
from holdfast.agent.host.dbus import DAEMON, SystemBus, message, rule
from holdfast.agent.tasks import Tasks
from holdfast.resources.interfaces.base import BusError, Match, Signal

pytestmark = pytest.mark.skipif(
    shutil.which("dbus-daemon") is None, reason="dbus-daemon is not installed: apt-get install dbus-daemon"
)

CHANGED = Match("", "org.example.Thing", "Changed", path="/thing/a", within="/thing")


class Daemon:
    """A bus daemon that can be stopped and started on one address."""

    def __init__(self, path: str) -> None:
        self.address = f"unix:path={path}"

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        argv = ("dbus-daemon", "--session", f"--address={self.address}", "--nofork", "--nosyslog", "--print-address")
        self.process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        await self.process.stdout.readline()

    async def stop(self) -> None:
        """Kill it."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        self.process._transport.close()

    async def emit(self, path: str, text: str, destination: str | None = None) -> None:
        """Send a signal from a connection of its own, to all or to one."""
        bus = await MessageBus(bus_address=self.address, bus_type=BusType.SYSTEM).connect()
        signal = Message.new_signal(path, "org.example.Thing", "Changed", "s", [text])
        signal.destination = destination
        await bus.send(signal)
        await bus.call(Message(*DAEMON, "GetId"))
        bus.disconnect()
        await bus.wait_for_disconnect()


@pytest.fixture
async def daemon(tmp_path) -> AsyncIterator[Daemon]:
    """A running bus daemon."""
    daemon = Daemon(str(tmp_path / "bus"))
    await daemon.start()
    yield daemon
    await daemon.stop()


@pytest.fixture
def health() -> Health:
    """The conditions that the bus reports."""
    return Health()


@pytest.fixture
async def bus(daemon, health) -> AsyncIterator[SystemBus]:
    """A bus of which the daemon is the system's."""
    bus = SystemBus(Tasks(health), health, address=daemon.address)
    yield bus
    await bus.close()


async def next_of(signals: AsyncIterator[Signal | None]) -> Signal | None:
    """The next signal, within a time."""
    async with asyncio.timeout(5):
        return await anext(signals)


async def test_call_returns_plain_values(bus):
    """Answers come as Python's own values."""
    names = (await bus.call(*DAEMON, "ListNames"))[0]
    credentials = (await bus.call(*DAEMON, "GetConnectionCredentials", "s", names[-1]))[0]

    assert "org.freedesktop.DBus" in names
    assert isinstance(credentials["ProcessID"], int)


async def test_thousands_of_calls_at_once_go_through(bus, health):
    """More than the socket takes at once: none is lost, and neither is the connection."""
    seen = []
    health.listen = lambda: seen.append(health.conditions)
    calls = (bus.call(*DAEMON, "GetNameOwner", "s", "long." * 400) for _ in range(3000))
    refusals = await asyncio.gather(*calls, return_exceptions=True)

    assert {refusal.name for refusal in refusals} == {"org.freedesktop.DBus.Error.NameHasNoOwner"}
    assert seen == []


async def test_refusal_has_the_name_of_the_error(bus):
    """What the other side says is passed on."""
    with pytest.raises(BusError, match=r"Nonsense of org.freedesktop.DBus was refused") as refusal:
        await bus.call(*DAEMON, "Nonsense")
    assert refusal.value.name == "org.freedesktop.DBus.Error.UnknownMethod"


async def test_missing_bus_is_said_at_once(tmp_path, health):
    """A host without D-Bus does not keep anybody waiting, and is no fault of its health."""
    bus = SystemBus(Tasks(health), health, address=f"unix:path={tmp_path}/none")
    async with asyncio.timeout(2):
        with pytest.raises(BusError, match=r"cannot reach D-Bus: .*No such file"):
            await bus.call(*DAEMON, "ListNames")
    assert health.conditions == ()
    await bus.close()


async def test_signals_come_to_those_who_asked(bus, daemon):
    """Only for their path; armed is said first; one rule serves all subscribers of a kind."""
    async with (
        aclosing(bus.signals(CHANGED)) as one,
        aclosing(bus.signals(Match("", "org.example.Thing", "Changed"))) as every,
    ):
        assert await next_of(one) is None
        assert await next_of(every) is None
        await daemon.emit("/thing/b", "other")
        await daemon.emit("/thing/a", "mine")

        assert await next_of(one) == Signal("org.example.Thing", "Changed", "/thing/a", ["mine"])
        assert [(await next_of(every)).body for _ in range(2)] == [["other"], ["mine"]]


async def test_signal_of_a_user_to_the_agent_alone_is_dropped(bus, daemon):
    """The bus checks no rule for a signal that has a destination.

    Whoever is on the bus could say that the system goes down.
    """
    async with aclosing(bus.signals(CHANGED)) as signals:
        assert await next_of(signals) is None
        await daemon.emit("/thing/a", "forged", destination=bus._bus.unique_name)
        await daemon.emit("/thing/a", "real")
        assert (await next_of(signals)).body == ["real"]


async def test_subscriptions_leave_nothing_behind(bus):
    """When the last subscriber has gone, the bus is asked for nothing any more."""
    async with aclosing(bus.signals(CHANGED)) as one:
        await next_of(one)
        async with aclosing(bus.signals(CHANGED)) as two:
            await next_of(two)
            assert bus._rules == {rule(CHANGED): 2}

    assert (bus._rules, bus._queues, bus._asked) == ({}, {}, {})


async def test_bus_that_goes_and_comes_is_looked_at_again(bus, daemon, health):
    """Health says that it is gone; calls wait; subscribers are told to look again, and hear the next signal."""
    async with aclosing(bus.signals(CHANGED)) as signals:
        await next_of(signals)
        gone = asyncio.Event()
        health.listen = gone.set
        await daemon.stop()
        async with asyncio.timeout(5):
            await gone.wait()
        assert [condition.code for condition in health.conditions] == ["dbus-gone"]
        waiting = asyncio.create_task(bus.call(*DAEMON, "GetId"))
        await daemon.start()

        assert await next_of(signals) is None
        assert len(await waiting) == 1
        assert health.conditions == ()
        await daemon.emit("/thing/a", "again")
        assert (await next_of(signals)).body == ["again"]


async def test_call_gives_up_in_time(bus, daemon):
    """While the bus is away, a call ends at its deadline and says why."""
    await bus.call(*DAEMON, "GetId")
    await daemon.stop()

    with pytest.raises(
        BusError, match=r"cannot call GetId of org.freedesktop.DBus: (D-Bus (is away|went away)|no answer)"
    ):
        await bus.call(*DAEMON, "GetId", timeout=0.1)
    await daemon.start()


ALL = (CHANGED, Match("", "org.example.Thing", "Added"), Match("", "org.example.Thing", "Removed"))


async def rules_asked_for(bus, monkeypatch):
    """The rules requested from the connected bus from now on; after each, other tasks run."""
    asked, call = [], bus.call
    await call(*DAEMON, "GetId")

    async def slow(*arguments, **options):
        if arguments[3] == "AddMatch":
            asked.append(arguments[-1])
            await asyncio.sleep(0.01)
        return await call(*arguments, **options)

    monkeypatch.setattr(bus, "call", slow)
    return asked


async def test_subscribers_at_once_get_all_their_rules(bus, monkeypatch):
    """Concurrent callers wait for the first request; no rule is forgotten or requested twice."""
    asked = await rules_asked_for(bus, monkeypatch)
    async with aclosing(bus.signals(*ALL)) as one, aclosing(bus.signals(*ALL)) as two:
        await asyncio.gather(next_of(one), next_of(two))

        assert sorted(asked) == sorted(rule(match) for match in ALL)


async def test_first_subscriber_that_goes_takes_no_rule_from_the_second(bus, daemon, monkeypatch):
    """Cancelled while it asked the bus: who waits for the same rule is armed all the same, and hears."""
    await rules_asked_for(bus, monkeypatch)
    async with aclosing(bus.signals(CHANGED)) as one, aclosing(bus.signals(CHANGED)) as two:
        first, second = asyncio.create_task(next_of(one)), asyncio.create_task(next_of(two))
        async with asyncio.timeout(5):
            while bus._rules != {rule(CHANGED): 2}:
                await asyncio.sleep(0)
        first.cancel()
        assert await second is None
        await daemon.emit("/thing/a", "heard")

        assert (await next_of(two)).body == ["heard"]


async def test_no_rule_is_asked_for_twice_by_whoever_comes_before_the_connection(bus, daemon, monkeypatch):
    """The connection is made with the rules that are wanted by then.

    The bus counts them, and would keep the second for ever.
    """
    asked = []
    monkeypatch.setattr(
        dbus, "message", lambda *parts: asked.extend(parts[5] if parts[3] == "AddMatch" else ()) or message(*parts)
    )
    async with aclosing(bus.signals(*ALL)) as signals:
        await next_of(signals)

        assert sorted(asked) == sorted(rule(match) for match in ALL)
        await daemon.emit("/thing/a", "heard")
        assert (await next_of(signals)).body == ["heard"]
