"""The exporter answers by HTTP and writes a file; it refuses wrong requests and limits clients."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.health import Health
from holdfast.agent.insight import exporter as module
from holdfast.agent.insight.exporter import UNAVAILABLE, UNWRITTEN, Exporter
from holdfast.agent.settings import MetricsSettings


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def asked(port: int, data: bytes) -> bytes:
    """Send bytes and return the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.fixture
def health() -> Health:
    """Return health without conditions."""
    return Health()


@pytest.fixture
async def server(health):
    """Serve one metric, and return the port."""
    port = free_port()
    exporter = Exporter(lambda: "up 1\n", health)
    await exporter.use(MetricsSettings(listen=f"127.0.0.1:{port}"))
    yield port
    await exporter.stop()


async def test_get_and_head(server):
    """GET returns the page; HEAD returns only its header."""
    head, _, body = (await asked(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert body == b"up 1\n"
    assert await asked(server, b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n") == head + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metricsx HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"\x00\xff\r\n\r\n", b"405"),
        (b"GET " + b"x" * 20_000, b"400"),
    ],
    ids=["root", "other page", "method", "nonsense", "long"],
)
async def test_other_requests_are_refused(server, data, status):
    """Only one page exists, and only GET and HEAD are answered."""
    assert (await asked(server, data)).split()[1] == status


async def test_a_silent_client_is_disconnected(server, monkeypatch):
    """A client that sends nothing keeps a connection for a few seconds at most."""
    monkeypatch.setattr(module, "TIMEOUT", 0.01)
    assert await asked(server, b"") == b""


async def test_silent_clients_exclude_no_scraper(server):
    """At the limit, the exporter disconnects the client that has been silent for longest, with a message."""
    silent = [await asyncio.open_connection("127.0.0.1", server) for _ in range(3 * module.CLIENTS)]
    answer = await asked(server, b"GET /metrics HTTP/1.1\r\n\r\n")
    first = await silent[0][0].read()
    for _, writer in silent:
        writer.close()

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert first.startswith(b"HTTP/1.1 503 ")


async def test_a_port_in_use_is_a_health_condition(server, health):
    """The agent continues; the condition ends with usable settings."""
    second = Exporter(str, health)
    await second.use(MetricsSettings(listen=f"127.0.0.1:{server}"))
    assert [each.code for each in health.conditions] == [UNAVAILABLE]
    await second.use(MetricsSettings())
    assert not health.conditions


async def test_the_file_for_the_collector_is_replaced_atomically(tmp_path, health):
    """The file is replaced repeatedly, all users can read it, and no temporary file is left."""
    path, told = tmp_path / "x.prom", iter(range(1000))
    exporter = Exporter(lambda: f"up {next(told)}\n", health)
    await exporter.use(MetricsSettings(textfile=path, period=1))
    async with asyncio.timeout(DEADLINE):
        while not path.exists() or path.read_text() == "up 0\n":
            await asyncio.sleep(0.01)
    await exporter.stop()

    assert path.read_text() == "up 1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", ["none/x.prom", "taken.prom"])
async def test_a_file_that_cannot_be_written_is_a_health_condition(tmp_path, health, path):
    """The agent continues, and no temporary file is left."""
    (tmp_path / "taken.prom" / "full").mkdir(parents=True)
    exporter = Exporter(str, health)
    await exporter.use(MetricsSettings(textfile=tmp_path / path))
    async with asyncio.timeout(DEADLINE):
        while not health.conditions:
            await asyncio.sleep(0)

    assert health.conditions[0].code == UNWRITTEN
    await exporter.stop()
    assert not health.conditions
    assert [each.name for each in tmp_path.iterdir()] == ["taken.prom"]


@pytest.mark.parametrize(
    "listen", ["9464", ":9464", "localhost", "localhost:x", "localhost:0", "localhost:70000", "[::1]", "a:\u0661"]
)
def test_an_address_is_checked_when_settings_are_read(listen):
    """An invalid address is not left to the listener."""
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9464"):
        MetricsSettings(listen=listen)


def test_a_file_name_that_the_collector_ignores_is_refused():
    """The collector reads only *.prom."""
    with pytest.raises(ValueError, match=r"end in \.prom"):
        MetricsSettings(textfile=Path("/x/metrics"))
    assert MetricsSettings(listen="[::1]:9464", textfile=Path("/x/y.prom")).listen
