"""An etcd that cannot be used: what hosts read, what they cannot do, what health says, and that everything goes on."""

from __future__ import annotations

import asyncio
import socket

import pytest

import etcd_server
from broken_line import BrokenLine
from certificates import make_certificates
from deadline import DEADLINE
from holdfast import Temporary
from holdfast.agent.northbound.drivers.etcd import EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access
from holdfast.agent.shared import world_database
from sharing import SharingHost, item, until_string

pytestmark = pytest.mark.skipif(not etcd_server.installed(), reason="etcd is not installed (Debian: etcd-server)")


async def written(host: SharingHost, key: str, value: str) -> None:
    """Set a string, again while it fails for now, as the engine does."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return await host.world.set_string(key, value)
            except Temporary:
                await asyncio.sleep(0.02)


async def test_an_etcd_that_is_not_there_at_the_start_is_used_when_it_comes(make, etcd, prefix):
    """Until then, calls fail at once with the reason, and a watch is armed: it reports when the strings are there."""
    async with BrokenLine(etcd.members[0].port) as line:
        line.up = False
        host = await make("web1").share(f"127.0.0.1:{line.port}", prefix=prefix)
        watch = host.world.watch_string("x")
        for _ in range(2):
            with pytest.raises(Temporary, match=rf"cannot read the shared strings: cannot reach etcd: .*{line.port}"):
                await host.world.string("x")
        with pytest.raises(Temporary, match="cannot reach etcd"):
            await host.world.set_string("x", "y")
        await item(watch)
        await host.until(lambda: host.trouble)
        assert "strings that hosts share cannot be read" in host.trouble
        line.up = True
        await item(watch)
        assert await host.world.string("x") is None
        await host.until(lambda: not host.trouble)
        await host.world.set_string("x", "y")
        await item(watch)
        await host.local.__aexit__(None, None, None)


async def test_an_etcd_that_hangs_at_the_start_holds_calls_for_a_moment_only(make, prefix, monkeypatch):
    """A server accepts the connection and never answers."""
    monkeypatch.setattr(world_database, "START", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = await make("web1").share(f"127.0.0.1:{server.getsockname()[1]}", prefix=prefix)
        with pytest.raises(Temporary, match="etcd has not answered yet"):
            await host.world.string("x")
        await item(host.world.watch_string("x"))
        assert "etcd has not answered yet" in host.trouble


async def test_a_reason_that_is_known_stays_while_the_next_try_lasts(make, etcd, prefix, monkeypatch):
    """Health would change its mind with each try otherwise."""
    monkeypatch.setattr(world_database, "START", 0.0)
    monkeypatch.setattr(world_database, "RETRIES", (0.0,))
    host, told = make("web1"), []
    monkeypatch.setattr(host.health, "set", lambda _code, text, *_: (told.append(text), host.health.listen()))
    async with BrokenLine(etcd.members[0].port) as line:
        line.up = False
        await host.share(f"127.0.0.1:{line.port}", prefix=prefix)
        await host.until(lambda: sum("cannot reach etcd" in text for text in told) > 3)

    first = next(at for at, text in enumerate(told) if "cannot reach etcd" in text)
    assert not [text for text in told[first:] if "has not answered yet" in text]


async def test_a_call_that_waits_for_etcd_follows_other_settings(make, etcd, prefix):
    """The settings change to another cluster, and to the database of the host."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = f"127.0.0.1:{server.getsockname()[1]}"
        for endpoints in (etcd.endpoints, ()):
            host = await make(f"web{len(endpoints)}").share(*endpoints, prefix=prefix)
            await host.world.set_string("x", "1")
            await host.share(silent, prefix=prefix)
            waiting = asyncio.create_task(host.world.string("x"))
            await asyncio.sleep(0)
            await host.share(*endpoints, prefix=prefix)
            assert await waiting == "1"


async def test_a_connection_that_is_lost_leaves_what_was_last_seen(make, etcd, prefix):
    """It can be read, not changed; when the connection is back, a watch reports what has changed meanwhile."""
    async with BrokenLine(etcd.members[0].port) as line:
        host = await make("web1").share(f"127.0.0.1:{line.port}", prefix=prefix)
        other = await make("web2").share(*etcd.endpoints, prefix=prefix)
        await host.world.set_string("x", "1")
        watch = host.world.watch_string("x")
        await item(watch)
        line.up = False
        line.cut()
        await host.until(lambda: host.trouble)
        assert "cannot be changed, and are read as they were last seen" in host.trouble
        await other.world.set_string("x", "2")
        assert await host.world.string("x") == "1"
        with pytest.raises(Temporary, match=r"cannot change the shared strings: .*etcd"):
            await host.world.set_string("x", "3")
        line.up = True
        await item(watch)
        await until_string(host, "x", "2")
        await host.until(lambda: not host.trouble)
        await host.local.__aexit__(None, None, None)


async def test_a_history_that_is_compacted_meanwhile_hides_no_change(make, etcd, prefix):
    """Values, removals and new entries: the strings are listed anew."""
    async with BrokenLine(etcd.members[0].port) as line:
        host = await make("web1").share(f"127.0.0.1:{line.port}", prefix=prefix)
        other = await make("web2").share(*etcd.endpoints, prefix=prefix)
        for key in ("changed", "removed"):
            await other.world.set_string(key, "1")
            await until_string(host, key, "1")
        line.up = False
        line.cut()
        await host.until(lambda: host.trouble)
        await other.world.set_string("removed", None)
        await other.world.set_string("new", "1")
        await other.world.set_string("changed", "2")
        driver = EtcdDriver(Access(etcd.endpoints), prefix)
        await driver.compact((await driver.read([])).revision)
        await driver.close()
        line.up = True
        for key, value in (("changed", "2"), ("removed", None), ("new", "1")):
            await until_string(host, key, value)
        await host.local.__aexit__(None, None, None)


async def test_an_etcd_that_hangs_later_fails_writes_within_the_timeout(make, etcd, prefix, monkeypatch):
    """The error says that there is no answer. Reads succeed."""
    async with BrokenLine(etcd.members[0].port) as line:
        host = await make("web1").share(f"127.0.0.1:{line.port}", prefix=prefix)
        await host.world.set_string("x", "1")
        monkeypatch.setattr(world_database, "TIMEOUT", 0.2)
        line.flows.clear()
        with pytest.raises(Temporary, match=r"no answer from the database within 0\.2 s"):
            await host.world.set_string("x", "2")
        assert await host.world.string("x") == "1"
        line.flows.set()
        await written(host, "x", "3")
        await host.local.__aexit__(None, None, None)


async def test_a_majority_that_is_lost_stops_writes_and_a_single_member_does_not(make, prefix):
    """Of three members, one and then another is killed. The test takes a few seconds, because of elections."""
    with etcd_server.Cluster(3) as cluster:
        one = await make("web1").share(*cluster.endpoints, prefix=prefix)
        two = await make("web2").share(*reversed(cluster.endpoints), prefix=prefix)
        await written(one, "x", "1")
        cluster.members[0].kill()
        await written(one, "x", "2")
        await until_string(two, "x", "2")
        cluster.members[1].kill()
        for host in (one, two):
            await host.until(lambda host=host: host.trouble)
            assert await host.world.string("x") == "2"
            with pytest.raises(Temporary, match="cannot change the shared strings: "):
                await host.world.set_string("x", "3")
        for member in cluster.members[:2]:
            cluster.start(member)
            await asyncio.to_thread(member.wait)
        await written(one, "x", "4")
        await until_string(two, "x", "4")
        for host in (one, two):
            await host.until(lambda host=host: not host.trouble)
            await host.local.__aexit__(None, None, None)


async def test_a_wrong_password_is_told_and_a_new_one_is_used_without_a_restart(make, prefix, tmp_path):
    """The password may also change in etcd while the agent runs. No text has the password."""
    password = tmp_path / "password"
    password.write_text("hunter22\n")
    password.chmod(0o600)
    with etcd_server.Cluster(options=["--auth-token-ttl", "1"]) as cluster:
        await asyncio.to_thread(cluster.demand_users, "correct")
        host = make("web1")
        await host.share(*cluster.endpoints, prefix=prefix, user="root", password_file=password)
        with pytest.raises(Temporary, match=r"etcd refuses the user 'root': .*authentication failed") as told:
            await host.world.string("x")
        assert "hunter22" not in host.trouble + str(told.value)
        password.write_text("correct\n")
        await host.until(lambda: not host.trouble)
        await host.world.set_string("x", "1")
        token = await asyncio.to_thread(lambda: cluster.post("auth/authenticate", name="root", password="correct"))
        await asyncio.to_thread(
            lambda: cluster.post("auth/user/changepw", token["token"], name="root", password="new one")
        )
        password.write_text("new one\n")
        await written(host, "x", "2")
        password.chmod(0o644)
        cluster.members[0].kill()
        await host.until(lambda: host.trouble)
        cluster.start(cluster.members[0])
        await host.until(lambda: "everybody can read it" in host.trouble)
        assert await host.world.string("x") == "2"
        password.chmod(0o600)
        await host.until(lambda: not host.trouble)
        await host.local.__aexit__(None, None, None)


async def test_a_wrong_authority_is_told_and_the_right_one_is_used_without_a_restart(make, prefix, tmp_path):
    """The test uses client certificates. The reason is that of TLS."""
    at = make_certificates(tmp_path)
    ca = tmp_path / "used.pem"
    ca.write_bytes((at / "other.pem").read_bytes())
    (at / "own.key").chmod(0o600)
    options = ["--cert-file", f"{at}/own.pem", "--key-file", f"{at}/own.key", "--trusted-ca-file", f"{at}/ca.pem",
               "--client-cert-auth"]  # fmt: skip
    with etcd_server.Cluster(options=options, scheme="https") as cluster:
        host = make("web1")
        await host.share(*cluster.endpoints, prefix=prefix, ca=ca, cert=at / "own.pem", key=at / "own.key")
        with pytest.raises(Temporary, match="CERTIFICATE_VERIFY_FAILED"):
            await host.world.string("x")
        ca.write_bytes(b"no certificate\n")
        await host.until(lambda: "it contains no certificates in PEM format" in host.trouble)
        ca.write_bytes((at / "ca.pem").read_bytes())
        await host.until(lambda: not host.trouble)
        await host.world.set_string("x", "1")
        assert await host.world.string("x") == "1"
        await host.local.__aexit__(None, None, None)


async def test_a_stop_does_not_wait_for_an_etcd_that_hangs(make, etcd, prefix, monkeypatch):
    """Other hosts know it when the lease has ended."""
    monkeypatch.setattr(world_database, "END", 0.1)
    async with BrokenLine(etcd.members[0].port) as line:
        host = await make("web1").share(f"127.0.0.1:{line.port}", prefix=prefix, told=True)
        await host.world.set_string("x", "1")
        line.flows.clear()
        async with asyncio.timeout(DEADLINE):
            await host.local.__aexit__(None, None, None)
