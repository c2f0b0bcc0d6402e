"""The server for viewers: its group, its limits, and its share of the agent's time."""

from __future__ import annotations

import asyncio
import grp
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.control import connection as connection_module
from holdfast.agent.control import view_server as module
from holdfast.agent.control.turns import REST, Turns
from holdfast.agent.control.view_server import OF_ONE_USER, UNAVAILABLE, ViewServer
from holdfast.agent.health import Health
from holdfast.resources.secrets import Redactor
from strangers import open_directory
from view_client import rest_of, told

GROUP = grp.getgrgid(os.getegid()).gr_name


class Agent:
    """The parts of an agent that answer `status`."""

    def __init__(self) -> None:
        self.logs = SimpleNamespace(redactor=Redactor())
        self.status = self
        self.rows: list[dict[str, Any]] = [{"identity": "file.managed[x]", "comment": "x"}]

    def with_rows(self, _: object) -> dict[str, Any]:
        """Return the rows, which can be read only once."""
        rows, self.rows = self.rows, []
        return {"resources": iter(rows)}


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that only the user of the tests can change, with a short path."""
    with open_directory() as found:
        yield found / "run/view.sock"


@pytest.fixture
async def served(place: Path) -> AsyncIterator[tuple[Path, ViewServer, Health, Agent]]:
    """A server that listens."""
    health, agent = Health(), Agent()
    server = ViewServer(place, GROUP, agent, health)  # type: ignore[arg-type]
    await server.start()
    yield place, server, health, agent
    await server.stop()


async def ask(path: Path) -> Any:
    """Return the answer to `status`."""
    return await asyncio.to_thread(told, path, "status")


def codes(health: Health) -> list[str]:
    """Return the codes of the conditions."""
    return [each.code for each in health.conditions]


async def test_without_the_group_there_is_no_socket_and_health_says_so(place: Path) -> None:
    """Once the group exists, the check of the agent's own files creates the socket."""
    health = Health()
    server = ViewServer(place, "no-such-group", Agent(), health)  # type: ignore[arg-type]
    await server.start()

    assert codes(health) == [UNAVAILABLE]
    assert "there is no group no-such-group" in health.conditions[0].text
    assert "groupadd --system no-such-group" in health.conditions[0].text
    assert health.conditions[0].severity == "info"
    assert not place.exists()

    server._group = GROUP
    assert await server.renew() == ""
    assert codes(health) == []
    assert (await ask(place))["ok"]
    await server.stop()
    assert not place.exists()


async def test_a_place_that_others_can_change_is_refused(place: Path) -> None:
    """Other users could answer there instead of the agent."""
    place.parent.mkdir()
    place.parent.chmod(0o777)
    health = Health()
    server = ViewServer(place, GROUP, Agent(), health)  # type: ignore[arg-type]
    await server.start()

    assert codes(health) == [UNAVAILABLE]
    assert "set another 'view' in agent.yaml" in health.conditions[0].text
    await server.stop()


async def test_another_file_at_the_place_is_kept(place: Path) -> None:
    """The file is not a socket of a dead agent, so it is kept."""
    place.parent.mkdir()
    place.write_text("mine")
    health = Health()
    server = ViewServer(place, GROUP, Agent(), health)  # type: ignore[arg-type]
    await server.start()

    assert codes(health) == [UNAVAILABLE]
    assert place.read_text() == "mine"


async def test_a_socket_that_was_removed_is_made_again(served: tuple[Path, ViewServer, Health, Agent]) -> None:
    """The message is that of the check."""
    path, server, _, _ = served
    path.unlink()

    assert await server.renew() == f"{path} was removed or replaced"
    assert (await ask(path))["ok"]
    assert await server.renew() == ""


async def test_answers_are_masked(served: tuple[Path, ViewServer, Health, Agent]) -> None:
    """Rows that are made while the answer is sent are masked, too."""
    (row,) = (await ask(served[0]))["data"]["resources"]

    assert row == {"identity": "file.managed[x]", "comment": "[root only]"}


async def test_one_user_cannot_take_all_slots(served: tuple[Path, ViewServer, Health, Agent]) -> None:
    """The connections of a user above the limit are refused at once; each that ends makes room."""
    path, _, _, _ = served
    many = [await asyncio.open_unix_connection(str(path)) for _ in range(OF_ONE_USER)]
    refused = await ask(path)

    assert refused["code"] == "busy"
    assert f"more than {OF_ONE_USER} connections" in refused["error"]

    many.pop()[1].close()
    async with asyncio.timeout(DEADLINE):
        while not (await ask(path))["ok"]:
            pass
    for _, writer in many:
        writer.close()


async def test_all_slots_are_bounded(
    served: tuple[Path, ViewServer, Health, Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Viewers that send nothing are disconnected to make room for new ones."""
    path, server, _, _ = served
    monkeypatch.setattr(module, "OF_ONE_USER", 1000)
    many = [await asyncio.open_unix_connection(str(path)) for _ in range(module.CLIENTS + 3)]

    assert (await ask(path))["ok"]
    assert len(server._serving) <= module.CLIENTS
    for _, writer in many:
        writer.close()


async def test_a_viewer_that_does_not_read_is_dropped(
    served: tuple[Path, ViewServer, Health, Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptor and its output buffer are freed. Others are answered meanwhile."""
    path, server, _, agent = served
    monkeypatch.setattr("holdfast.agent.control.answers.TIMEOUT", 0.2)
    agent.rows = [{"identity": "x" * 1000}] * 2000
    slow = socket.socket(socket.AF_UNIX)
    slow.connect(str(path))
    slow.sendall(b'{"verb": "status"}\n')
    async with asyncio.timeout(DEADLINE):
        while agent.rows:
            await asyncio.sleep(0)
        assert (await ask(path))["ok"]
        while server._serving:
            await asyncio.sleep(0)

    slow.settimeout(DEADLINE)
    assert not rest_of(slow).endswith(b"\n")
    slow.close()


async def test_a_lack_of_descriptors_ends_by_itself(
    served: tuple[Path, ViewServer, Health, Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Viewers wait meanwhile, and the event loop's error handler sets the agent's health condition."""
    path, server, _, _ = served
    loop = asyncio.get_running_loop()
    told_of: list[Any] = []
    loop.set_exception_handler(lambda _, context: told_of.append(context["exception"]))
    monkeypatch.setattr(module, "PAUSE", 0.0)
    accept, failures = loop.sock_accept, [OSError(24, "Too many open files")]

    async def scarce(listener: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", scarce)
    await ask(path)

    assert (await ask(path))["ok"]
    assert [error.errno for error in told_of] == [24]
    assert server._accepting is not None


async def test_the_groups_of_a_peer_are_those_of_the_kernel() -> None:
    """Kernels without the option give no groups; for an answer that is too long, all groups are read again."""
    one, other = socket.socketpair()

    assert set(module._groups_of(one)) == set(os.getgroups())
    assert set(module._many_groups_of(one)) == set(os.getgroups())
    assert connection_module.peer_of(one) == (os.getpid(), os.geteuid(), os.getegid())
    one.close()
    assert module._many_groups_of(one) == ()
    other.close()
    assert module._groups_of(other) == ()


@pytest.mark.usefixtures("virtual_time")
async def test_viewers_take_turns_and_rest_after_each() -> None:
    """For any number of viewers, most of the time is left for repairs, also after an error of one viewer."""
    turns, begun, loop = Turns(), [], asyncio.get_running_loop()

    async def viewer() -> None:
        async with turns.turn():
            begun.append(loop.time())
            await asyncio.sleep(1.0)
            raise OSError

    await asyncio.gather(*(viewer() for _ in range(3)), return_exceptions=True)

    assert begun == [0.0, 1.0 + REST, 2 * (1.0 + REST)]
