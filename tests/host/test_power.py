"""Logind and systemd signal shutdown and sleep over a real bus; the tests play both."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator

import pytest
from dbus_fast import BusType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from deadline import DEADLINE
from holdfast.agent.health import Health
from holdfast.agent.host import power
from holdfast.agent.host.dbus import DAEMON, SystemBus
from holdfast.agent.host.power import LOGIND, SYSTEMD, Power
from holdfast.agent.tasks import Tasks

pytestmark = pytest.mark.skipif(
    shutil.which("dbus-daemon") is None, reason="dbus-daemon is not installed: apt-get install dbus-daemon"
)


class System:
    """Plays logind and systemd, and records what the agent is notified of."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self.state, self.preparing = "running", False
        self.told: list[str] = []
        self.news = asyncio.Event()
        self.asked = asyncio.Event()
        """Start with one query of the state, because the agent has subscribed before."""
        bus.add_message_handler(self._answer)

    def _answer(self, message: Message) -> bool:
        if message.message_type is not MessageType.METHOD_CALL or message.member not in ("Get", "Subscribe"):
            return False
        values = {"SystemState": Variant("s", self.state), "PreparingForShutdown": Variant("b", self.preparing)}
        body = [values[message.body[1]]] if message.member == "Get" else []
        if message.member == "Get":
            self.asked.set()
        self._bus.send(Message.new_method_return(message, "v" if body else "", body))
        return True

    def logind(self, member: str, begins: bool) -> None:
        """Send a signal of logind."""
        self._bus.send(Message.new_signal(LOGIND[1], LOGIND[2], member, "b", [begins]))

    def job(self, member: str, unit: str) -> None:
        """Send a signal of systemd."""
        body = [7, "/org/freedesktop/systemd1/job/7", unit]
        signature = "uos" if member == "JobNew" else "uoss"
        self._bus.send(
            Message.new_signal(
                SYSTEMD[1], SYSTEMD[2], member, signature, body if member == "JobNew" else [*body, "done"]
            )
        )

    def tell(self, what: str) -> None:
        """Record a notification."""
        self.told.append(what)
        self.news.set()

    async def until(self, *told: str) -> None:
        """Wait until these were all notifications."""
        async with asyncio.timeout(DEADLINE):
            while self.told != list(told):
                self.news.clear()
                await self.news.wait()


@pytest.fixture
async def address(tmp_path) -> AsyncIterator[str]:
    """Start a bus for this test."""
    address = f"unix:path={tmp_path}/bus"
    argv = ("dbus-daemon", "--session", f"--address={address}", "--nofork", "--nosyslog", "--print-address")
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    await process.stdout.readline()
    yield address
    process.kill()
    await process.wait()
    process._transport.close()


@pytest.fixture
async def system(address) -> AsyncIterator[System]:
    """Put logind and systemd on the bus."""
    bus = await MessageBus(bus_address=address, bus_type=BusType.SYSTEM).connect()
    for service in (LOGIND, SYSTEMD):
        await bus.call(Message(*DAEMON, "RequestName", signature="su", body=[service[0], 0]))
    yield System(bus)
    bus.disconnect()


@pytest.fixture
async def following(address, system) -> AsyncIterator[Power]:
    """Follow the power state, with all subscriptions armed."""
    health = Health()
    bus = SystemBus(Tasks(health), health, address=address)
    followed = Power(bus, lambda down: system.tell("down" if down else "up"), lambda: system.tell("awake"))
    task = asyncio.create_task(followed.run())
    await system.asked.wait()
    yield followed
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bus.close()


async def test_a_shutdown_begins_and_is_cancelled(system, following):
    """Signals of logind begin and cancel a shutdown."""
    system.logind("PrepareForShutdown", True)
    await system.until("down")
    system.logind("PrepareForShutdown", False)

    await system.until("down", "up")


async def test_a_shutdown_without_logind_is_noticed(system, following):
    """`systemctl reboot` without logind, or Ctrl-Alt-Del, queues a job for shutdown.target. Other jobs are ignored."""
    system.job("JobNew", "cron.service")
    system.state = "stopping"
    system.job("JobNew", power.SHUTDOWN)
    await system.until("down")
    system.state = "running"
    system.job("JobRemoved", power.SHUTDOWN)

    await system.until("down", "up")


async def test_logind_cannot_cancel_a_shutdown_of_systemd(system, following):
    """The shutdown of logind has ended, but the system is still stopping."""
    system.logind("PrepareForShutdown", True)
    await system.until("down")
    system.state = "stopping"
    system.logind("PrepareForShutdown", False)
    system.logind("PrepareForSleep", False)

    await system.until("down", "awake")


async def test_a_shutdown_whose_end_is_not_reported_ends(system, following, monkeypatch):
    """If logind is killed meanwhile, the agent keeps asking for the state."""
    monkeypatch.setattr(power, "PERIOD", 0.01)
    system.preparing = True
    system.logind("PrepareForShutdown", True)
    await system.until("down")
    system.preparing = False

    await system.until("down", "up")


async def test_the_end_of_a_sleep_is_reported(system, following):
    """The start of a sleep is not reported."""
    system.logind("PrepareForSleep", True)
    system.logind("PrepareForSleep", False)

    await system.until("awake")


async def test_an_agent_that_starts_during_a_shutdown_knows_it(address, system):
    """No signal reports the shutdown again."""
    system.state = "stopping"
    health = Health()
    bus = SystemBus(Tasks(health), health, address=address)
    task = asyncio.create_task(Power(bus, lambda down: system.tell("down" if down else "up"), lambda: None).run())

    await system.until("down")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bus.close()
