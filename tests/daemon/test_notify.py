"""The protocol of the service manager, with a real socket."""

import contextlib
import os
import socket
import time

import pytest

from deadline import DEADLINE
from holdfast.agent.notify import Notifier


@pytest.fixture
def manager(tmp_path):
    """The end of the notification socket that the service manager reads."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(str(tmp_path / "notify"))
    server.settimeout(DEADLINE)
    yield server
    server.close()


def notifier(server, **environment):
    """Return a notifier that writes to this socket."""
    return Notifier({"NOTIFY_SOCKET": server.getsockname(), **environment})


def test_the_messages_of_a_service_in_order(manager):
    """The order is: ready, reloading with its time, stopping."""
    before = time.monotonic_ns() // 1000
    agent = notifier(manager)
    agent.ready()
    agent.reloading()
    agent.stopping()
    agent.close()

    ready, reloading, stopping = (manager.recv(200).decode() for _ in range(3))

    assert (ready, stopping) == ("READY=1", "STOPPING=1")
    word, _, stamp = reloading.partition("\nMONOTONIC_USEC=")
    assert word == "RELOADING=1"
    assert before <= int(stamp) <= time.monotonic_ns() // 1000


def test_a_status_is_sent_only_if_it_is_new(manager):
    """A status has one line."""
    agent = notifier(manager)
    for text in ("converged", "converged", "two\nlines"):
        agent.status(text)
    agent.close()

    assert [manager.recv(200) for _ in range(2)] == [b"STATUS=converged", b"STATUS=two lines"]
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(200)


async def test_the_event_loop_sends_watchdog_messages(manager):
    """The loop sends two in each period. A loop that hangs sends none."""
    import asyncio

    agent = notifier(manager, WATCHDOG_USEC="100000", WATCHDOG_PID=str(os.getpid()))
    loop = asyncio.get_running_loop()
    manager.setblocking(False)
    agent.start_watchdog()
    async with asyncio.timeout(DEADLINE):
        for _ in range(3):
            assert await loop.sock_recv(manager, 200) == b"WATCHDOG=1"
    with contextlib.suppress(BlockingIOError):
        while manager.recv(200):
            pass  # on a busy machine, a fourth message may have arrived
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        pass  # the event loop hangs
    with pytest.raises(BlockingIOError):
        manager.recv(200)
    agent.close()


@pytest.mark.parametrize(
    "values",
    [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}],
    ids=["none", "off", "not us"],
)
async def test_no_watchdog_message_of_a_child_process(manager, values):
    """The watchdog of the parent process must not get messages of its child."""
    agent = notifier(manager, **values)
    agent.start_watchdog()
    agent.close()
    manager.setblocking(False)

    with pytest.raises(BlockingIOError):
        manager.recv(200)


def test_without_a_service_manager_nothing_fails(tmp_path):
    """The agent may run on a terminal, or systemd may be unavailable for a moment."""
    for environment in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone")}):
        agent = Notifier(environment)
        agent.ready()
        agent.status("x")
        agent.close()


def test_an_abstract_socket_works():
    """Service managers may use the abstract namespace."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(f"\0holdfast-test-{os.getpid()}")
    agent = Notifier({"NOTIFY_SOCKET": f"@holdfast-test-{os.getpid()}"})
    agent.ready()
    agent.close()

    assert server.recv(100) == b"READY=1"
    server.close()
