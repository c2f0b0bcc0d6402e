"""Strings and host maps in etcd: what hosts see of each other, and what moves with the settings."""

from __future__ import annotations

import asyncio
import sys

import pytest

from broken_line import BrokenLine
from holdfast import Permanent, Temporary
from holdfast.agent.northbound.drivers.base import DbTransaction, Delete
from holdfast.agent.northbound.drivers.etcd import EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access
from holdfast.agent.records import rows, world_records
from holdfast.agent.shared import etcd_session, world_database
from sharing import item, stored, until_string


async def test_a_string_that_one_host_sets_is_told_to_another(make, etcd, prefix):
    """The removal and a new value are reported, too."""
    one, two = [await make(name).share(*etcd.endpoints, prefix=prefix) for name in ("web1", "web2")]
    watch = two.world.watch_string("color")
    await item(watch)
    for value in ("red", "blue", None):
        await one.world.set_string("color", value)
        await item(watch)
        assert await two.world.string("color") == value


async def test_hosts_write_one_map_at_once_and_keep_each_others_entries(make, etcd, prefix):
    """Each has an entry of its own; only a host itself removes it."""
    hosts = [await make(f"web{number}").share(*etcd.endpoints, prefix=prefix) for number in range(4)]
    watch = hosts[0].world.watch_hosts("addresses")
    await item(watch)

    async def write(host):
        for count in range(5):
            await host.world.set_host("addresses", f"10.0.0.{count}")

    await asyncio.gather(*map(write, hosts))
    while await hosts[0].world.hosts("addresses") != dict.fromkeys(["web0", "web1", "web2", "web3"], "10.0.0.4"):
        await item(watch)
    await hosts[1].world.set_host("addresses", None)
    while len(await hosts[0].world.hosts("addresses")) > 3:
        await item(watch)
    assert {*await hosts[0].world.hosts("addresses")} == {"web0", "web2", "web3"}


async def test_hosts_that_set_one_string_at_once_agree_on_the_last_value(make, etcd, prefix):
    """No write fails because of another."""
    one, two = [await make(name).share(*etcd.endpoints, prefix=prefix) for name in ("web1", "web2")]
    await asyncio.gather(*(each.world.set_string("x", f"{each.name}-{n}") for n in range(20) for each in (one, two)))
    last = (await stored(etcd.endpoints, prefix, "world_strings"))["x"].data.decode()
    value = await one.world.string("x")
    assert value in last
    await until_string(two, "x", value)


async def test_hosts_with_other_prefixes_share_nothing(make, etcd, prefix):
    """With prefixes, one cluster can serve several fleets."""
    one = await make("web1").share(*etcd.endpoints, prefix=prefix)
    two = await make("web2").share(*etcd.endpoints, prefix=f"{prefix}two/")
    await one.world.set_string("color", "red")
    assert await two.world.string("color") is None


async def test_strings_of_the_host_and_of_etcd_are_kept_apart_when_the_settings_change(make, etcd, prefix):
    """A watch goes over to the other database, and reports that what it sees may differ."""
    host = make("web1")
    watch = host.world.watch_string("color")
    await item(watch)
    await host.world.set_string("color", "local")
    await item(watch)
    for endpoints, value in ((etcd.endpoints, None), ((), "local"), (etcd.endpoints, "shared")):
        await host.share(*endpoints, prefix=prefix)
        await item(watch)
        assert await host.world.string("color") == value
        if value is None:
            await host.world.set_string("color", "shared")
            await item(watch)
    other = await make("web2").share(*etcd.endpoints, prefix=prefix)
    await other.world.set_string("color", "new")
    await until_string(host, "color", "new")
    await item(watch)


async def test_the_entries_of_a_host_that_is_gone_are_together(make, etcd, prefix):
    """They stay when its agent stops: a host that is restarted is still there. One range of keys removes them all."""
    one = make("web1")
    async with await one.share(*etcd.endpoints, prefix=prefix):
        for namespace in ("addresses", "ssh keys"):
            await one.world.set_host(namespace, "x")
    assert {*await stored(etcd.endpoints, prefix, "world_hosts")} == {"web1/addresses", "web1/ssh keys"}
    two = await make("web10").share(*etcd.endpoints, prefix=prefix)
    await two.world.set_host("addresses", "y")
    watch = two.world.watch_hosts("addresses")
    await item(watch)
    driver = EtcdDriver(Access(etcd.endpoints), prefix)
    rows = await driver.scan("world_hosts", after="web1/", before="web10")
    await driver.commit(DbTransaction([Delete(row.table, row.id) for row in rows]))
    await driver.close()
    await item(watch)
    assert await two.world.hosts("addresses") == {"web10": "y"}


async def test_all_hosts_together_have_more_room_than_one(make, etcd, prefix, monkeypatch):
    """One value must fit into a request to etcd, and all together into the memory of each agent."""
    host = await make("web1").share(*etcd.endpoints, prefix=prefix)
    for number in range(3):
        await host.world.set_string(str(number), "x" * 1_000_000)
    with pytest.raises(Permanent, match=r"cannot change the shared strings: .* the database takes 128 with 1500000"):
        await host.world.set_string("large", "x" * 1_600_000)
    for number in range(3, 8):
        await host.world.set_string(str(number), "x" * 1_000_000)
    with pytest.raises(Permanent, match=f"may have at most {world_records.SHARED_LIMIT} bytes"):
        await host.world.set_string("too much", "x" * 1_000_000)


async def test_what_others_write_beyond_all_bounds_is_not_read(make, etcd, prefix, monkeypatch):
    """Something else than an agent writes it. The strings stay as they were last seen, and health says what to remove.

    The strings are read again as soon as there is less.
    """
    monkeypatch.setattr(etcd_session, "ROOM", 20_000)
    host = await make("web1").share(*etcd.endpoints, prefix=prefix)
    await host.world.set_string("before", "1")
    other = EtcdDriver(Access(etcd.endpoints), prefix)
    await other.open()
    large = [rows.row("world_strings", {"id": f"large{number}", "value": "x" * 5000}) for number in range(8)]
    for each in large:
        await other.commit(DbTransaction([each]))
    await host.until(lambda: host.trouble)

    assert f"etcd has more than 20000 bytes of records: remove some below {prefix}world_strings/" in host.trouble
    assert await host.world.string("before") == "1"
    strings = await host.database.records()
    assert sum(strings.string(each.id) is not None for each in large) < 5
    late = await make("web2").share(*etcd.endpoints, prefix=prefix)
    with pytest.raises(Temporary, match="etcd has more than 20000 bytes"):
        await late.world.string("before")

    await other.commit(DbTransaction([Delete("world_strings", each.id) for each in large[1:]]))
    await host.until(lambda: not host.trouble)
    await until_string(host, "large0", "x" * 5000)
    await late.until(lambda: not late.trouble)
    await until_string(late, "large0", "x" * 5000)
    await other.close()


async def test_without_the_extra_the_condition_names_the_package(make, prefix, monkeypatch):
    """Resources without shared strings work as before."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == "grpc" or name == "holdfast.agent.shared.etcd_session" or ".etcd" in name:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    host = await make("web1").share("127.0.0.1:1", prefix=prefix)
    with pytest.raises(Temporary, match=r"cannot use etcd: .*grpc.*pip install 'holdfast\[fleet\]'"):
        await host.world.string("x")
    assert "pip install 'holdfast[fleet]'" in host.trouble


async def test_a_bug_is_told_as_a_task_that_has_died_until_the_settings_change(make, etcd, prefix, monkeypatch):
    """The strings of the host itself can be used then."""

    def fails():
        raise RuntimeError("a bug")

    monkeypatch.setattr(world_database, "_load", fails)
    host = await make("web1").share(*etcd.endpoints, prefix=prefix)
    await host.until(lambda: host.health.conditions)
    assert [each.code for each in host.health.conditions] == ["task-died:etcd"]
    with pytest.raises(Temporary, match="etcd is not connected"):
        await host.world.string("x")

    await host.share()
    assert not host.health.conditions
    await host.world.set_string("x", "local")


async def test_a_connection_that_ends_again_and_again_loses_no_change(make, etcd, prefix):
    """One host's connection is cut while another one writes."""
    async with BrokenLine(etcd.members[0].port) as line:
        one = await make("web1").share(f"127.0.0.1:{line.port}", prefix=prefix)
        two = await make("web2").share(*etcd.endpoints, prefix=prefix)
        for number in range(10):
            await two.world.set_string("x", str(number))
            line.cut()
            await until_string(one, "x", str(number))
        await one.local.__aexit__(None, None, None)
