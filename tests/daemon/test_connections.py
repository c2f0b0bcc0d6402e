"""Those who ask the agent something are bounded in number, and leave descriptors for repairs."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from pathlib import Path

import pytest

from holdfast.agent import connections as module
from holdfast.agent.connections import BACKLOG, NO_DESCRIPTORS, Connections, Exhaustion, affordable
from holdfast.agent.health import Health


@pytest.fixture
def few_descriptors():
    """A function that leaves this process so many more descriptors; undone after the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave(more):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        spare = [os.open("/dev/null", os.O_RDONLY) for _ in range(more)]
        top = os.open("/dev/null", os.O_RDONLY)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (top, hard)
        )  # the lowest free number is what the limit allows, or more
        for descriptor in (*spare, top):
            os.close(descriptor)

    yield leave
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Served:
    """A server on a port of this host whose clients are answered when `answer` is set."""

    def __init__(self, most):
        self.asked, self.clients, self.answer = [], [], asyncio.Event()
        self.connections = Connections(lambda reader: reader.readline(), self.talk, lambda: b"no\n", most)

    async def talk(self, request, _, writer):
        """Answer when the test says so; to those that are still there."""
        if not request:
            return
        self.asked.append(request)
        await self.answer.wait()
        writer.write(b"yes\n")

    async def __aenter__(self):
        """Listen."""
        self.server = await asyncio.start_server(self.connections.take, "127.0.0.1", 0, backlog=BACKLOG)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        """End all connections, on both sides."""
        for writer in self.clients:
            writer.close()
        self.server.close()
        await self.connections.stop()

    async def client(self, text=""):
        """Connect, say this, and return what the answer can be read from."""
        return await self.talked(host="127.0.0.1", port=self.port, text=text)

    async def talked(self, *, text, **where):
        """The same over a socket of the test's."""
        reader, writer = await asyncio.open_connection(**where)
        self.clients.append(writer)
        writer.write(text.encode())
        return reader


def descriptors():
    """How many this process has open."""
    return len([*Path("/proc/self/fd").iterdir()])


async def until(holds):
    """Let the loop turn until something holds."""
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0)


async def test_clients_that_have_asked_keep_their_places_and_a_new_one_is_told_so():
    """Nobody waits in vain: what cannot be served is refused at once."""
    async with Served(2) as served:
        first, second = await served.client("a\n"), await served.client("b\n")
        await until(lambda: len(served.asked) == 2)
        third = await served.client()
        refused = await third.read()
        served.answer.set()

        assert refused == b"no\n"
        assert await first.read() == await second.read() == b"yes\n"


async def test_a_place_is_free_again_when_its_client_has_gone():
    """However it went."""
    async with Served(1) as served:
        for _ in range(3):
            await served.client()
            served.clients[-1].transport.abort()
        client = await served.client("a\n")
        served.answer.set()

        assert await client.read() == b"yes\n"


async def test_thousands_of_idle_clients_take_few_descriptors():
    """The agent has those of the clients that it serves, and for a moment those that it is about to refuse."""
    async with Served(4) as served:
        before, most = descriptors(), 0
        for number in range(1, 300):
            await served.client()
            most = max(most, descriptors() - before - number)

        assert most <= 4 + BACKLOG


@pytest.mark.parametrize(("soft", "clients"), [(1024, 64), (256, 32), (16, 2), (4, 1), (resource.RLIM_INFINITY, 64)])
def test_where_descriptors_are_few_so_are_clients(monkeypatch, soft, clients):
    """Most of them are for repairs."""
    monkeypatch.setattr(module.resource, "getrlimit", lambda _: (soft, soft))

    assert affordable(64) == clients


async def test_that_there_are_no_descriptors_is_told_once_and_serving_goes_on_later(
    few_descriptors, caplog, monkeypatch
):
    """A condition of health, no traceback for each second.

    It takes a second: so long asyncio waits before it accepts again.
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


async def test_other_errors_of_the_loop_are_logged_as_ever(caplog):
    """With their traceback: those are bugs."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(Exhaustion(Health()).handle)
    loop.call_soon(lambda: 1 / 0)
    await until(lambda: caplog.records)

    assert "ZeroDivisionError" in caplog.text
