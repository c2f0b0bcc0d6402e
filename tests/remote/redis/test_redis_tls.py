"""The package redis over TLS, against a real server whose certificates are made for the tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import redis_server
from certificates import make_certificates
from deadline import DEADLINE
from etcd_server import free_port
from redis_server import RedisServer

KEY = {"name": "k", "text": "a"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, and a certificate of the first for 127.0.0.1. They take a second."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


class TlsServer:
    """A server with TLS, and the provider's configuration for it."""

    def __init__(self, server: RedisServer, port: int, certificates: Path) -> None:
        self.server = server
        self.access: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": port,
            "tls": True,
            "authority": certificates / "ca.pem",
        }
        self.own = {"certificate": certificates / "own.pem", "key": certificates / "own.key"}


@pytest.fixture(params=["no", "yes"])
def secure(request: pytest.FixtureRequest, certificates: Path) -> Iterator[TlsServer]:
    """A server that demands no certificate of its clients, or one (its default)."""
    port = free_port()
    files = [f"tls-{name}-file {certificates}/{file}" for name, file in FILES.items()]
    with redis_server.serving(f"tls-port {port}", f"tls-auth-clients {request.param}", *files) as server:
        yield TlsServer(server, port, certificates)


FILES = {"cert": "own.pem", "key": "own.key", "ca-cert": "ca.pem"}


async def test_a_key_is_managed_and_watched_over_tls(provider, secure):
    """The provider has a certificate if the server demands one. The server is given by name."""
    await provider.configure(**secure.access, **secure.own)
    await provider.settled("redis.key", **KEY)
    events = provider.watch("redis.key")
    assert (await asyncio.wait_for(anext(events), DEADLINE)).armed
    secure.server.ask("SET", "k", "damaged")

    assert (await asyncio.wait_for(anext(events), DEADLINE)).id == "0:k"
    assert await provider.differing("redis.key", **KEY) == ["text"]


async def failure(provider: Any, **config: Any) -> str:
    """Return the error of a read with this configuration; the error must be permanent."""
    await provider.configure(**config)
    refused = (await provider.read("redis.key", raw=True, **KEY)).failure
    assert refused.code == "permanent"
    return str(refused.message)


@pytest.mark.parametrize("secure", ["no"], indirect=True)
async def test_a_server_whose_certificate_another_authority_has_signed_is_refused(provider, secure, certificates):
    """It is refused with the authorities of Node.js, too, and so is a certificate for another name."""
    hint = "`authority` names the file with the trusted authorities"
    other = await failure(provider, **{**secure.access, "authority": certificates / "other.pem"})
    nodes = await failure(provider, **{name: value for name, value in secure.access.items() if name != "authority"})
    name = await failure(provider, **{**secure.access, "host": "localhost"})

    for told in (other, nodes, name):
        assert told.startswith("the certificate of the server is refused: ")
        assert told.endswith(hint)
    assert "certificate" in other.removeprefix("the certificate of the server is refused: ")
    assert "localhost" in name


@pytest.mark.parametrize("secure", ["yes"], indirect=True)
async def test_a_server_that_demands_a_certificate_says_so(provider, secure, certificates):
    """The error names the settings for the certificate. Files that do not fit together are named, too."""
    missing = await failure(provider, **secure.access)
    wrong = await failure(provider, **secure.access, **{**secure.own, "key": certificates / "ca.key"})

    assert missing == "the server demands a certificate: give `certificate` and `key`"
    assert wrong.startswith("cannot use the files for TLS (")
    assert f"{certificates}/ca.key" in wrong
    assert "key values mismatch" in wrong


async def test_a_port_without_tls_is_named_as_the_likely_cause_once_for_all_reads(provider):
    """The server does not answer, so three reads fail together after the five seconds of the connection timeout."""
    port = free_port()
    with redis_server.serving(f"port {port}"):
        await provider.configure(host="127.0.0.1", port=port, tls=True)
        begun = time.monotonic()
        reads = (provider.read("redis.key", raw=True, name=name, text="a") for name in "klm")
        found = [each.failure for each in await asyncio.gather(*reads)]

    assert {each.code for each in found} == {"retry"}
    assert {each.message for each in found} == {
        "cannot use the server: the server does not answer by TLS; is it a TLS port?"
    }
    assert time.monotonic() - begun < 9
