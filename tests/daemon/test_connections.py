"""The number of clients of the agent is limited, so that descriptors remain for repairs."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent import connections as module
from holdfast.agent.connections import BACKLOG, NO_DESCRIPTORS, Connections, Exhaustion, affordable
from holdfast.agent.health import Health


@pytest.fixture
def few_descriptors():
    """A function that leaves this process a number of free descriptors, until the end of the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave(more):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        spare = [os.open("/dev/null", os.O_RDONLY) for _ in range(more)]
        top = os.open("/dev/null", os.O_RDONLY)
        resource.setrlimit(resource.RLIMIT_NOFILE, (top, hard))  # the lowest free number equals the limit, or is above
        for descriptor in (*spare, top):
            os.close(descriptor)

    yield leave
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Served:
    """A server on a local port that answers its clients once `answer` is set."""

    def __init__(self, most):
        self.asked, self.clients, self.answer = [], [], asyncio.Event()
        self.connections = Connections(lambda reader: reader.readline(), self.talk, lambda: b"no\n", most)

    async def talk(self, request, _, writer):
        """Answer a request once the test allows it."""
        if not request:
            return
        self.asked.append(request)
        await self.answer.wait()
        writer.write(b"yes\n")

    async def __aenter__(self):
        """Start to listen."""
        self.server = await asyncio.start_server(self.connections.take, "127.0.0.1", 0, backlog=BACKLOG)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        """Close all connections, on both sides."""
        for writer in self.clients:
            writer.close()
        self.server.close()
        await self.connections.stop()

    async def client(self, text=""):
        """Connect and send a text. Return the reader of the answer."""
        return await self.talked(host="127.0.0.1", port=self.port, text=text)

    async def talked(self, *, text, **where):
        """Do the same with given arguments of `open_connection`."""
        reader, writer = await asyncio.open_connection(**where)
        self.clients.append(writer)
        writer.write(text.encode())
        return reader


def descriptors():
    """Return the number of open descriptors of this process."""
    return len([*Path("/proc/self/fd").iterdir()])


async def until(holds):
    """Let other tasks run until a condition holds."""
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0)


async def test_a_client_above_the_limit_is_refused_at_once():
    """Clients that have sent a request keep their connections."""
    async with Served(2) as served:
        first, second = await served.client("a\n"), await served.client("b\n")
        await until(lambda: len(served.asked) == 2)
        third = await served.client()
        refused = await third.read()
        served.answer.set()

        assert refused == b"no\n"
        assert await first.read() == await second.read() == b"yes\n"


async def test_a_lost_connection_makes_room_for_another_client():
    """Three clients abort their connection before."""
    async with Served(1) as served:
        for _ in range(3):
            await served.client()
            served.clients[-1].transport.abort()
        client = await served.client("a\n")
        served.answer.set()

        assert await client.read() == b"yes\n"


async def test_thousands_of_idle_clients_take_few_descriptors():
    """The agent has those of the clients that it serves, and for a short time those that it is about to refuse."""
    async with Served(4) as served:
        before, most = descriptors(), 0
        for number in range(1, 300):
            await served.client()
            most = max(most, descriptors() - before - number)

        assert most <= 4 + BACKLOG


@pytest.mark.parametrize(("soft", "clients"), [(1024, 64), (256, 32), (16, 2), (4, 1), (resource.RLIM_INFINITY, 64)])
def test_the_limit_of_clients_follows_that_of_descriptors(monkeypatch, soft, clients):
    """Most descriptors are kept for repairs."""
    monkeypatch.setattr(module.resource, "getrlimit", lambda _: (soft, soft))

    assert affordable(64) == clients


async def test_a_lack_of_descriptors_is_reported_once_and_clients_are_served_later(
    few_descriptors, caplog, monkeypatch
):
    """A health problem replaces the traceback that asyncio would log each second.

    The test takes a second, the time that asyncio waits before it accepts again.
    """
    monkeypatch.setattr(module, "CALM", 0.01)
    health = Health()
    asyncio.get_running_loop().set_exception_handler(Exhaustion(health).handle)
    changes = []
    health.listen = lambda: changes.append([each.code for each in health.conditions])
    async with Served(4) as served:
        served.answer.set()
        client = socket.socket()
        client.setblocking(False)
        few_descriptors(0)
        client.connect_ex(("127.0.0.1", served.port))
        await until(lambda: changes == [[NO_DESCRIPTORS], []])
        few_descriptors(20)
        reader = await served.talked(sock=client, text="a\n")

        assert await reader.read() == b"yes\n"
        assert not caplog.records


async def test_other_errors_of_the_event_loop_are_logged(caplog):
    """Such an error is a bug, so it is logged with its traceback."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(Exhaustion(Health()).handle)
    loop.call_soon(lambda: 1 / 0)
    await until(lambda: caplog.records)

    assert "ZeroDivisionError" in caplog.text
