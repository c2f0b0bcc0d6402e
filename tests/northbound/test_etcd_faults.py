"""etcd with three members, of which some die, hang or come back; users, certificates and compaction."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

import etcd_server
from cancelling import cancelled_at
from certificates import make_certificates
from deadline import DEADLINE
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers import etcd_connection
from holdfast.agent.northbound.drivers.base import ConditionFailed, DbTransaction, Expect, Put, WatchBatch
from holdfast.agent.northbound.drivers.etcd import TXN, EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access, Tls
from holdfast.agent.northbound.drivers.etcd_messages import message
from holdfast.agent.northbound.errors import Compacted, Invalid, NorthboundError, Unavailable
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Machine

pytestmark = pytest.mark.skipif(not etcd_server.installed(), reason="etcd is not installed (Debian: etcd-server)")


@pytest.fixture(scope="module")
def members() -> Iterator[etcd_server.Cluster]:
    """Three members, all of which run when a test begins."""
    with etcd_server.Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(members: etcd_server.Cluster) -> Iterator[etcd_server.Cluster]:
    """The cluster; what a test has killed or stopped runs again afterwards."""
    yield members
    for each in members.members:
        each.signal(signal.SIGCONT)
        if not each.running:
            members.start(each)
        each.wait()


def access(cluster: etcd_server.Cluster, *first: int) -> Access:
    """Return how to reach the members, those with these numbers first."""
    order = [*first, *(number for number in range(len(cluster.members)) if number not in first)]
    return Access([cluster.endpoints[number] for number in order], connect=5, answer=3)


async def count_up(driver: EtcdDriver, key: str, stop: asyncio.Event) -> tuple[int, int]:
    """Raise a counter until told to stop; return how often that was confirmed, and how often it may have happened."""
    sure = unsure = 0
    while not stop.is_set():
        try:
            row = await driver.get("counters", key)
            value, revision = (int(row.data), row.revision) if row else (0, 0)
            await driver.commit(
                DbTransaction([Put("counters", key, str(value + 1).encode())], [Expect("counters", key, revision)])
            )
            sure += 1
        except ConditionFailed:
            continue
        except Unavailable as error:
            unsure += error.unsure
            await asyncio.sleep(0.02)
    return sure, unsure


async def revision(driver: EtcdDriver) -> int:
    """Return the database's revision, as soon as a majority answers."""
    async with asyncio.timeout(DEADLINE):
        while True:
            with suppress(Unavailable):
                return (await driver.read()).revision


async def test_members_that_die_one_after_the_other_lose_and_repeat_nothing(cluster: etcd_server.Cluster) -> None:
    """Counters of several writers, and a watch, while each member (the leader is one) is killed and comes back.

    A counter is at least what was confirmed, and at most that and what was unsure. The watch shows each revision once,
    in order, and ends with what the database has. Takes five seconds, because three elections take most of it.
    """
    prefix = f"/{uuid.uuid4()}/"
    drivers = [EtcdDriver(access(cluster, number % 3), prefix) for number in range(4)]
    for each in drivers:
        await each.open()
    seen: list[WatchBatch] = []

    async def follow() -> None:
        async for batch in drivers[3].watch(start):
            seen.append(batch)  # noqa: PERF401 - the list is read meanwhile

    start = (await drivers[3].read()).revision
    following, stop = asyncio.create_task(follow()), asyncio.Event()
    writing = [asyncio.create_task(count_up(each, str(number % 2), stop)) for number, each in enumerate(drivers[:3])]
    for member in cluster.members:
        reached = await revision(drivers[3]) + 5
        member.kill()
        while await revision(drivers[3]) < reached:
            await asyncio.sleep(0.02)
        cluster.start(member)
        await asyncio.to_thread(member.wait)
    stop.set()
    results = await asyncio.gather(*writing)
    snapshot = await drivers[3].read()
    async with asyncio.timeout(DEADLINE):
        while not seen or seen[-1].revision < max(row.revision for row in snapshot.rows):
            await asyncio.sleep(0.02)
    for number in range(2):
        row = next(row for row in snapshot.rows if row.id == str(number))
        sure = sum(results[each][0] for each in range(3) if each % 2 == number)
        unsure = sum(results[each][1] for each in range(3) if each % 2 == number)
        assert sure <= int(row.data) <= sure + unsure
    changes = [change for batch in seen for change in batch.changes]
    revisions = [change.row.revision for change in changes]
    assert all(before < after for before, after in pairwise(revisions))
    assert {change.id: change.row for change in changes} == {row.id: row for row in snapshot.rows}
    for each in drivers:
        await each.close()
    await asyncio.wait([following], timeout=DEADLINE)
    assert following.done()


async def test_a_member_that_hangs_is_left_for_another(cluster: etcd_server.Cluster) -> None:
    """A write that it may have made is unsure; the next one goes elsewhere."""
    driver = EtcdDriver(access(cluster, 0), f"/{uuid.uuid4()}/")
    await driver.open()
    cluster.members[0].signal(signal.SIGSTOP)
    with suppress(Unavailable):
        await driver.commit(DbTransaction([Put("t", "a", b"1")]))
    async with asyncio.timeout(DEADLINE):
        while True:
            with suppress(Unavailable):
                await driver.commit(DbTransaction([Put("t", "b", b"2")]))
                break
    assert (await driver.get("t", "b")).data == b"2"
    await driver.close()


async def test_without_a_majority_writes_fail_clearly_and_reads_of_the_cache_go_on(
    cluster: etcd_server.Cluster,
) -> None:
    """Health says so. When the majority is back, everything works again by itself."""
    api = NbApi(EtcdDriver(access(cluster, 0), f"/{uuid.uuid4()}/"), IndexedStore())
    async with api:
        await api.create(Machine(id="a", note="x"))
        for member in cluster.members[1:]:
            member.kill()
        with pytest.raises(Unavailable):
            await api.create(Machine(id="b"))
        assert api.view.get(Machine, "a").note == "x"
        async with asyncio.timeout(DEADLINE):
            while not api.problems():
                await asyncio.sleep(0.02)
        for member in cluster.members[1:]:
            cluster.start(member)
            await asyncio.to_thread(member.wait)
        async with asyncio.timeout(DEADLINE):
            while True:
                with suppress(NorthboundError):
                    await api.update(Machine(id="a", note="y"))
                    break
                await asyncio.sleep(0.05)
        assert api.view.get(Machine, "a").note == "y"
        async with asyncio.timeout(DEADLINE):
            while api.problems():
                await asyncio.sleep(0.02)


async def test_a_watch_whose_history_is_gone_says_so_and_the_cache_lists_again(cluster: etcd_server.Cluster) -> None:
    """Subscribers get the differences."""
    prefix = f"/{uuid.uuid4()}/"
    driver = EtcdDriver(access(cluster), prefix)
    await driver.open()
    first = await driver.commit(DbTransaction([Put("t", "a", b"1")]))
    last = await driver.commit(DbTransaction([Put("t", "a", b"2")]))
    await driver.compact(last)
    await driver.compact(last)
    with pytest.raises(Compacted):
        async for _ in driver.watch(first - 1):
            pass
    with pytest.raises(Invalid, match="cannot compact"):
        await driver.compact(last + 1000)
    await driver.close()


async def test_keys_of_others_below_the_prefix_are_left_alone(cluster: etcd_server.Cluster) -> None:
    """No text, or without a table: they are neither read nor told, and nothing stops."""
    prefix = f"/{uuid.uuid4()}/"
    driver = EtcdDriver(access(cluster), prefix)
    await driver.open()
    watch = aiter(driver.watch((await driver.read()).revision))
    await anext(watch)
    for number, key in enumerate((b"t/\xff", b"\xff", b"alone", b"$lease/x")):
        put = message["PutRequest"](key=prefix.encode() + key, value=b"strange")
        await driver._connection.ask(TXN, message["TxnRequest"](success=[message["RequestOp"](request_put=put)]))
        last = await driver.commit(DbTransaction([Put("t", str(number), b"")]))
    known = [str(number) for number in range(4)]
    assert [row.id for row in (await driver.read()).rows] == known
    assert [row.id for row in await driver.scan("t", limit=2)] == known[:2]
    assert [row.id for row in await driver.scan("t", limit=4, newest=True)] == known[::-1]
    told: list[str] = []
    async for batch in watch:
        told += [change.id for change in batch.changes]
        if batch.revision >= last:
            break
    assert told == known
    async with NbApi(driver, IndexedStore()) as api:
        await api.create(Machine(id="a"))


async def test_rows_that_are_too_large_for_one_message_come_in_several(
    cluster: etcd_server.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of a thousand large rows does not fit; with a smaller limit, five rows do not."""
    small = [("grpc.max_receive_message_length", 100_000) if name.endswith("receive_message_length") else (name, value)
             for name, value in etcd_connection.OPTIONS]  # fmt: skip
    monkeypatch.setattr(etcd_connection, "OPTIONS", small)
    driver = EtcdDriver(access(cluster), f"/{uuid.uuid4()}/")
    await driver.open()
    keys = [str(number) for number in range(8)]
    for key in keys:
        await driver.commit(DbTransaction([Put("t", key, bytes(30_000))]))
    assert [row.id for row in (await driver.read()).rows] == keys
    assert [row.id for row in await driver.scan("t", limit=7)] == keys[:7]
    assert [row.id for row in await driver.scan("t", after="1", before="7", newest=True)] == keys[6:1:-1]
    await driver.commit(DbTransaction([Put("t", "large", bytes(200_000))]))
    with pytest.raises(Unavailable, match=r"etcd cannot read: .*larger than max"):
        await driver.read()
    with pytest.raises(Unavailable, match=r"etcd cannot read: .*larger than max"):
        await driver.scan("t", limit=100)
    await driver.close()


async def test_the_revision_is_that_of_the_majority(cluster: etcd_server.Cluster) -> None:
    """Every member tells a commit that another one has confirmed."""
    prefix = f"/{uuid.uuid4()}/"
    drivers = [EtcdDriver(Access([endpoint]), prefix) for endpoint in cluster.endpoints]
    for each in drivers:
        await each.open()
    for number in range(30):
        written = await drivers[number % 3].commit(DbTransaction([Put("t", "a", b"")]))
        assert [(await each.read([])).revision >= written for each in drivers] == [True] * 3
        assert await drivers[(number + 1) % 3].commit(DbTransaction(())) >= written
    for each in drivers:
        await each.close()


async def test_members_that_nobody_runs_are_named() -> None:
    """The error has each address."""
    ports = [etcd_server.free_port() for _ in range(2)]
    driver = EtcdDriver(Access([f"127.0.0.1:{port}" for port in ports], connect=0.2))
    with pytest.raises(Unavailable) as caught:
        await driver.open()
    assert all(f"127.0.0.1:{port}" in str(caught.value) for port in ports)
    await driver.close()


async def test_a_transaction_with_too_many_operations_is_refused_before_it_is_sent(
    cluster: etcd_server.Cluster,
) -> None:
    """The limits are those of etcd's own defaults."""
    async with NbApi(EtcdDriver(access(cluster), f"/{uuid.uuid4()}/"), IndexedStore()) as api:
        with pytest.raises(Invalid, match="the database takes 128"):  # noqa: PT012 - it is the block's end that raises
            async with api.transaction() as writing:
                for number in range(100):
                    writing.create(Machine(id=f"m{number}"))
        with pytest.raises(Invalid, match="bytes"):
            await api.create(Machine(id="a", note="x" * 2_000_000))


async def test_users_and_tokens() -> None:
    """A wrong password is told; a token that has ended is renewed without a word."""
    with etcd_server.Cluster(options=["--auth-token-ttl", "1"]) as cluster:
        await asyncio.to_thread(cluster.demand_users, "secret")
        wrong = EtcdDriver(Access(cluster.endpoints, user="root", password="wrong"))
        with pytest.raises(Unavailable, match=r"etcd refuses the user 'root': .*authentication failed"):
            await wrong.open()
        await wrong.close()
        nobody = EtcdDriver(Access(cluster.endpoints))
        with pytest.raises(Unavailable, match="etcd refuses"):
            await nobody.open()
        await nobody.close()
        known = EtcdDriver(Access(cluster.endpoints, user="root", password="secret"))
        await known.open()
        await known.commit(DbTransaction([Put("t", "a", b"1")]))
        await known.close()
        reached, number = True, 0
        while reached:  # cancelled while it connects or asks for a token
            number += 1
            await known.close()
            known._connection._token = ""
            reached = await cancelled_at(number, known.open())
            assert await known.get("t", "a")
        assert number > 2
        known._connection._token = "gone.1"
        await known.commit(DbTransaction([Put("t", "a", b"2")]))
        assert (await known.get("t", "a")).data == b"2"
        await known.close()


async def test_certificates(tmp_path: Path) -> None:
    """Both sides show one; without it, or with another authority, the error says that TLS may be the reason."""
    at = make_certificates(tmp_path)
    options = ["--cert-file", f"{at}/own.pem", "--key-file", f"{at}/own.key", "--trusted-ca-file", f"{at}/ca.pem",
               "--client-cert-auth"]  # fmt: skip
    own = {name: (at / file).read_bytes() for name, file in {"certificate": "own.pem", "key": "own.key"}.items()}
    with etcd_server.Cluster(options=options, scheme="https") as cluster:
        driver = EtcdDriver(Access(cluster.endpoints, tls=Tls((at / "ca.pem").read_bytes(), **own)))
        await driver.open()
        await driver.commit(DbTransaction([Put("t", "a", b"1")]))
        await driver.close()
        for tls in (Tls((at / "other.pem").read_bytes(), **own), Tls((at / "ca.pem").read_bytes()), None):
            stranger = EtcdDriver(Access(cluster.endpoints, tls=tls, connect=0.5, answer=0.5))
            with pytest.raises(Unavailable):
                await stranger.open()
            await stranger.close()
