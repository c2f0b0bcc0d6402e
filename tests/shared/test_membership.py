"""What etcd knows about a host: which agents run, and with which problems."""

from __future__ import annotations

import asyncio
import base64

import pytest

import etcd_server
from broken_line import BrokenLine
from holdfast import Temporary
from holdfast.agent.records.models import Host
from holdfast.agent.shared import membership
from holdfast.agent.shared.membership import UNWRITTEN, PresentAgent
from sharing import stored, until_rows

pytestmark = pytest.mark.skipif(not etcd_server.installed(), reason="etcd is not installed (Debian: etcd-server)")

TEXT = "cannot watch /srv/private-name"


async def test_a_host_is_present_while_its_agent_runs(make, etcd, prefix):
    """The record of the host stays; the one of the running agent goes at once when it stops."""
    one = make("web1")
    await one.share(*etcd.endpoints, prefix=prefix, told=True)
    found = await until_rows(etcd.endpoints, prefix, "presence", lambda rows: rows)
    assert found["web1"]["conditions"] == []
    await one.local.__aexit__(None, None, None)
    assert await stored(etcd.endpoints, prefix, "presence") == {}
    row = (await stored(etcd.endpoints, prefix, "hosts"))["web1"]
    host = Host.decode(row.data, None)  # type: ignore[arg-type] # it has no references
    assert (host.id, host.version, host.states, host.facts) == ("web1", "1", "/srv/states", {"os": "Debian"})


async def test_problems_are_told_by_code_and_without_their_text(make, etcd, prefix, monkeypatch):
    """Texts may name files that only this host knows."""
    monkeypatch.setattr(membership, "REST", 0)
    one = make("web1")
    await one.share(*etcd.endpoints, prefix=prefix, told=True)
    await until_rows(etcd.endpoints, prefix, "presence", lambda rows: rows)
    one.health.set("watch-polling", TEXT)
    await until_rows(etcd.endpoints, prefix, "presence", lambda rows: rows["web1"]["conditions"])
    row = (await stored(etcd.endpoints, prefix, "presence"))["web1"]
    presence = PresentAgent.decode(row.data, None)  # type: ignore[arg-type] # it has no references
    assert [(each.code, each.severity) for each in presence.conditions] == [("watch-polling", "warning")]
    assert TEXT.encode() not in row.data
    one.health.clear("watch-polling")
    await until_rows(etcd.endpoints, prefix, "presence", lambda rows: not rows["web1"]["conditions"])


async def test_an_agent_that_is_lost_is_gone_after_its_lease_and_comes_back(make, etcd, prefix, monkeypatch):
    """Its connection is held up, as if it were killed. Takes two seconds: a lease of etcd lasts one at least."""
    monkeypatch.setattr(membership, "TTL", 1)
    monkeypatch.setattr(membership, "RETRY", 0.1)
    async with BrokenLine(etcd.members[0].port) as line:
        one = make("web1")
        await one.share(f"127.0.0.1:{line.port}", prefix=prefix, told=True)
        await until_rows(etcd.endpoints, prefix, "presence", lambda rows: rows)
        line.up = False
        line.cut()
        await until_rows(etcd.endpoints, prefix, "presence", lambda rows: not rows)
        line.up = True
        await until_rows(etcd.endpoints, prefix, "presence", lambda rows: rows)
        await one.until(lambda: not one.health.conditions)
        await one.local.__aexit__(None, None, None)


def rights(host: str, prefix: str) -> list[tuple[str, str, str]]:
    """Return what docs/etcd.md gives to a host: whether it may write, the first key, and the end of the range."""
    return [
        ("READ", prefix, prefix[:-1] + "0"),
        *(
            ("READWRITE", f"{prefix}{name}/", f"{prefix}{name}0")
            for name in ("world_strings", f"world_hosts/{host}", "$lease")
        ),
        *(("READWRITE", f"{prefix}{table}/{host}", "") for table in ("hosts", "presence")),
    ]


async def test_a_host_with_rights_of_its_own_cannot_speak_for_another(make, prefix, tmp_path):
    """It has what the documentation says. Without the right for its own record, a condition says so; strings work."""
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    with etcd_server.Cluster() as cluster:

        def users() -> None:
            for user, granted in {"web1": rights("web1", prefix), "web2": rights("web2", prefix)[:-1]}.items():
                cluster.post("auth/role/add", name=user)
                for kind, key, end in granted:
                    permission = {"permType": kind, "key": encoded(key), "range_end": encoded(end)}
                    cluster.post("auth/role/grant", name=user, perm=permission)
                cluster.post("auth/user/add", name=user, password="secret")
                cluster.post("auth/user/grant", user=user, role=user)
            cluster.demand_users("secret")

        await asyncio.to_thread(users)
        for name in ("web1", "web2"):
            host = make(name)
            await host.share(*cluster.endpoints, prefix=prefix, told=True, user=name, password_file=password)
            await host.world.set_string("color", name)
            await host.world.set_host("addresses", "10.0.0.1")
            assert await host.world.hosts("addresses")
            if name == "web2":
                await host.until(lambda host=host: UNWRITTEN in {each.code for each in host.health.conditions})
            other = make(f"{name}0")
            await other.share(*cluster.endpoints, prefix=prefix, user=name, password_file=password)
            with pytest.raises(Temporary, match=r"etcd refuses access: .*permission denied"):
                await other.world.set_host("addresses", "10.0.0.2")
            for each in (host, other):
                await each.local.__aexit__(None, None, None)


def encoded(text: str) -> str:
    """Return a key as the JSON gateway takes it."""
    return base64.b64encode(text.encode()).decode()
