"""The D-Bus connection, with a real bus daemon that the tests kill and restart."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from dbus_fast import BusType, Message
from dbus_fast.aio import MessageBus

from deadline import DEADLINE
from holdfast.agent.health import Health
from holdfast.agent.host import dbus
from holdfast.agent.host.dbus import CONNECT_TIMEOUT, DAEMON, SystemBus, message, rule
from holdfast.agent.tasks import Tasks
from holdfast.resources.interfaces.host import BusError, Match, Signal

pytestmark = pytest.mark.skipif(
    shutil.which("dbus-daemon") is None, reason="dbus-daemon is not installed: apt-get install dbus-daemon"
)

CHANGED = Match("", "org.example.Thing", "Changed", path="/thing/a", within="/thing")


class Daemon:
    """A bus daemon that can be stopped and started on one address."""

    def __init__(self, path: str) -> None:
        self.address = f"unix:path={path}"

    async def start(self) -> None:
        """Start the daemon, and wait until it listens."""
        argv = ("dbus-daemon", "--session", f"--address={self.address}", "--nofork", "--nosyslog", "--print-address")
        self.process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        await self.process.stdout.readline()

    async def stop(self) -> None:
        """Kill the daemon."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        self.process._transport.close()

    async def emit(self, path: str, text: str, destination: str | None = None) -> None:
        """Send a signal from a connection of its own, to all or to one recipient."""
        bus = await MessageBus(bus_address=self.address, bus_type=BusType.SYSTEM).connect()
        signal = Message.new_signal(path, "org.example.Thing", "Changed", "s", [text])
        signal.destination = destination
        await bus.send(signal)
        await bus.call(Message(*DAEMON, "GetId"))
        bus.disconnect()
        await bus.wait_for_disconnect()


@pytest.fixture
async def daemon(tmp_path) -> AsyncIterator[Daemon]:
    """Run a bus daemon."""
    daemon = Daemon(str(tmp_path / "bus"))
    await daemon.start()
    yield daemon
    await daemon.stop()


@pytest.fixture
def health() -> Health:
    """Return the health conditions of the connection."""
    return Health()


@pytest.fixture
async def bus(daemon, health) -> AsyncIterator[SystemBus]:
    """Return a connection that uses this daemon as the system bus."""
    bus = SystemBus(Tasks(health), health, address=daemon.address)
    yield bus
    await bus.close()


async def next_of(signals: AsyncIterator[Signal | None]) -> Signal | None:
    """Return the next signal, or fail after a timeout."""
    async with asyncio.timeout(DEADLINE):
        return await anext(signals)


async def test_a_call_returns_plain_values(bus):
    """Answers are converted to Python's own types."""
    names = (await bus.call(*DAEMON, "ListNames"))[0]
    credentials = (await bus.call(*DAEMON, "GetConnectionCredentials", "s", names[-1]))[0]

    assert "org.freedesktop.DBus" in names
    assert isinstance(credentials["ProcessID"], int)


async def test_thousands_of_calls_at_once_succeed(bus, health):
    """More calls than the socket accepts at once lose neither an answer nor the connection."""
    seen = []
    health.listen = lambda: seen.append(health.conditions)
    calls = (bus.call(*DAEMON, "GetNameOwner", "s", "long." * 400) for _ in range(3000))
    refusals = await asyncio.gather(*calls, return_exceptions=True)

    assert {refusal.name for refusal in refusals} == {"org.freedesktop.DBus.Error.NameHasNoOwner"}
    assert seen == []


async def test_a_refusal_has_the_name_of_the_error(bus):
    """The message of the other side is passed on."""
    with pytest.raises(BusError, match=r"Nonsense of org.freedesktop.DBus was refused") as refusal:
        await bus.call(*DAEMON, "Nonsense")
    assert refusal.value.name == "org.freedesktop.DBus.Error.UnknownMethod"


async def test_a_missing_bus_is_reported_at_once(tmp_path, health):
    """A host without D-Bus delays nothing, and its health is not affected."""
    bus = SystemBus(Tasks(health), health, address=f"unix:path={tmp_path}/none")
    async with asyncio.timeout(CONNECT_TIMEOUT / 2):
        with pytest.raises(BusError, match=r"cannot reach D-Bus: .*No such file"):
            await bus.call(*DAEMON, "ListNames")
    assert health.conditions == ()
    await bus.close()


async def test_signals_reach_their_subscribers(bus, daemon):
    """Only signals of the path are reported, after the watch is armed; one rule serves all equal subscriptions."""
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


async def test_a_signal_to_the_agent_alone_is_dropped(bus, daemon):
    """The bus checks no policy for a signal with a destination.

    Any user of the bus could otherwise claim that the system is shutting down.
    """
    async with aclosing(bus.signals(CHANGED)) as signals:
        assert await next_of(signals) is None
        await daemon.emit("/thing/a", "forged", destination=bus._bus.unique_name)
        await daemon.emit("/thing/a", "real")
        assert (await next_of(signals)).body == ["real"]


async def test_closed_subscriptions_leave_nothing_behind(bus):
    """The rule is removed from the bus with the last subscriber."""
    async with aclosing(bus.signals(CHANGED)) as one:
        await next_of(one)
        async with aclosing(bus.signals(CHANGED)) as two:
            await next_of(two)
            assert bus._rules == {rule(CHANGED): 2}

    assert (bus._rules, bus._queues, bus._asked) == ({}, {}, {})


async def test_a_restarted_bus_triggers_a_check(bus, daemon, health):
    """Health reports that the bus is missing, and calls wait.

    Subscribers are told to check again, and get the next signal.
    """
    async with aclosing(bus.signals(CHANGED)) as signals:
        await next_of(signals)
        gone = asyncio.Event()
        health.listen = gone.set
        await daemon.stop()
        async with asyncio.timeout(DEADLINE):
            await gone.wait()
        assert [condition.code for condition in health.conditions] == ["dbus-gone"]
        waiting = asyncio.create_task(bus.call(*DAEMON, "GetId"))
        await daemon.start()

        assert await next_of(signals) is None
        assert len(await waiting) == 1
        assert health.conditions == ()
        await daemon.emit("/thing/a", "again")
        assert (await next_of(signals)).body == ["again"]


async def test_a_call_ends_at_its_deadline(bus, daemon):
    """While the bus is missing, a call ends at its deadline with the reason."""
    await bus.call(*DAEMON, "GetId")
    await daemon.stop()

    with pytest.raises(
        BusError, match=r"cannot call GetId of org.freedesktop.DBus: (D-Bus (is away|went away)|no answer)"
    ):
        await bus.call(*DAEMON, "GetId", timeout=0.1)
    await daemon.start()


ALL = (CHANGED, Match("", "org.example.Thing", "Added"), Match("", "org.example.Thing", "Removed"))


async def rules_asked_for(bus, monkeypatch):
    """Record the rules that are requested from now on; other tasks run after each."""
    asked, call = [], bus.call
    await call(*DAEMON, "GetId")

    async def slow(*arguments, **options):
        if arguments[3] == "AddMatch":
            asked.append(arguments[-1])
            await asyncio.sleep(0.01)
        return await call(*arguments, **options)

    monkeypatch.setattr(bus, "call", slow)
    return asked


async def test_concurrent_subscribers_get_all_their_rules(bus, monkeypatch):
    """Concurrent callers wait for the first request; each rule is requested exactly once."""
    asked = await rules_asked_for(bus, monkeypatch)
    async with aclosing(bus.signals(*ALL)) as one, aclosing(bus.signals(*ALL)) as two:
        await asyncio.gather(next_of(one), next_of(two))

        assert sorted(asked) == sorted(rule(match) for match in ALL)


async def test_a_cancelled_first_subscriber_does_not_affect_the_second(bus, daemon, monkeypatch):
    """If the first subscriber is cancelled during its request, the second one is armed and gets signals."""
    await rules_asked_for(bus, monkeypatch)
    async with aclosing(bus.signals(CHANGED)) as one, aclosing(bus.signals(CHANGED)) as two:
        first, second = asyncio.create_task(next_of(one)), asyncio.create_task(next_of(two))
        async with asyncio.timeout(DEADLINE):
            while bus._rules != {rule(CHANGED): 2}:
                await asyncio.sleep(0)
        first.cancel()
        assert await second is None
        await daemon.emit("/thing/a", "heard")

        assert (await next_of(two)).body == ["heard"]


async def test_subscribers_before_the_connection_request_each_rule_once(bus, daemon, monkeypatch):
    """The connection requests the rules that are wanted when it is made.

    The bus counts requests, and would keep the rule after the last subscriber has left.
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
