"""The five methods, transactions and events, on each database."""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers import sqlite
from holdfast.agent.northbound.drivers.base import DbTransaction, Driver, Put
from holdfast.agent.northbound.drivers.etcd import EtcdDriver
from holdfast.agent.northbound.drivers.etcd_connection import Access
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.northbound.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    Referenced,
    RefMissing,
)
from holdfast.agent.northbound.events import Event
from holdfast.agent.northbound.ref import Ref
from holdfast.agent.northbound.store.base import DbStore
from holdfast.agent.northbound.store.copying import CopyingStore
from holdfast.agent.northbound.store.indexed import IndexedStore
from holdfast.agent.northbound.values import ANY, MISSING
from northbound_models import Hooked, Machine, Part, Port, Service, Site, Tenant


class World:
    """One database, and as many APIs on it as a test opens."""

    def __init__(self, connect: Callable[[], Driver], store: Callable[[], DbStore]) -> None:
        self.driver, self._store = connect, store
        """`driver()` returns a new connection to the database."""

    def api(self, **options: Any) -> NbApi:
        """Return an API with a cache of its own."""
        return NbApi(self.driver(), self._store(), **options)


@pytest.fixture(params=["memory", "memory-copying", "sqlite", "etcd"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An empty database."""
    if request.param == "etcd":
        access = Access(request.getfixturevalue("etcd").endpoints)
        prefix = f"/{uuid.uuid4()}/"
        return World(lambda: EtcdDriver(access, prefix), IndexedStore)
    if request.param == "sqlite":
        monkeypatch.setattr(sqlite, "POLL", 0.01)
        return World(lambda: SqliteDriver(tmp_path / "northbound.db", durable=False), IndexedStore)
    memory = Memory()
    return World(lambda: MemoryDriver(memory), CopyingStore if request.param == "memory-copying" else IndexedStore)


@pytest.fixture
async def api(world: World) -> AsyncIterator[NbApi]:
    """An open API."""
    async with world.api() as opened:
        yield opened


async def caught_up(world: World, *apis: NbApi) -> None:
    """Wait until APIs have seen all that is in the database, and their subscribers, too."""
    driver = world.driver()
    await driver.open()
    revision = (await driver.read()).revision
    await driver.close()
    for each in apis:
        assert await each.shows(revision, DEADLINE)
    await settle()


@asynccontextmanager
async def watching(api: NbApi, *arguments, **options) -> AsyncIterator[list[Event]]:
    """Collect the events of a watch."""
    seen: list[Event] = []

    async def collect() -> None:
        async for event in api.watch(*arguments, **options):
            seen.append(event)  # noqa: PERF401 - the list is read meanwhile

    task = asyncio.create_task(collect())
    await asyncio.sleep(0)
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])


async def settle() -> None:
    """Let all tasks run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


# -- create, update, delete, get -------------------------------------------------------------------------------


async def test_a_created_record_can_be_read_at_once(api: NbApi) -> None:
    """From the cache, from the database, by class, name and table."""
    made = await api.create(Machine(id="web1", labels={"role": "web"}))
    assert made.version == 1
    assert api.view.get(Machine, "web1") == made
    assert await api.get(Machine, "web1") == await api.get("Machine", "web1") == await api.get("test-machines", "web1")
    assert await api.get_all(Machine, "role", role="web") == [made]
    assert await api.get(Machine, "web2") is None


async def test_create_does_not_replace(api: NbApi) -> None:
    """`AlreadyExists`; the record stays."""
    await api.create(Site(id="a", name="one"))
    with pytest.raises(AlreadyExists, match="cannot create test-sites 'a': it exists"):
        await api.create(Site(id="a", name="two"))
    assert api.view.get(Site, "a").name == "one"


async def test_update_changes_only_what_is_set_and_says_what_differed(api: NbApi) -> None:
    """None is a value, a field that is not given is left alone."""
    await api.create(Machine(id="a", note="old", labels={"role": "web"}))
    assert await api.update(Machine(id="a", note=None)) == {"note", "version"}
    assert api.view.get(Machine, "a").labels == {"role": "web"}
    assert await api.update(Machine(id="a", note="new", labels={"role": "web"})) == {"note", "version"}


async def test_an_update_that_changes_nothing_writes_nothing_and_tells_nobody(api: NbApi) -> None:
    """The revision stays, and hooks do not count a version."""
    await api.create(Machine(id="a", note="x"))
    before = api.view.stored(Machine, "a")
    async with watching(api, Machine) as seen:
        assert await api.update(Machine(id="a", note="x")) == frozenset()
        await settle()
    assert api.view.stored(Machine, "a") == before
    assert not seen


async def test_update_and_delete_of_what_does_not_exist(api: NbApi) -> None:
    """`NotFound` names the record."""
    with pytest.raises(NotFound, match="cannot update test-machines 'a': it does not exist"):
        await api.update(Machine(id="a", note="x"))
    with pytest.raises(NotFound, match="cannot delete test-machines 'a': it does not exist"):
        await api.delete(Machine(id="a"))


async def test_an_expected_revision_guards_update_and_delete(api: NbApi) -> None:
    """`Conflict` has the present revision."""
    await api.create(Machine(id="a"))
    first = api.view.stored(Machine, "a").revision
    await api.update(Machine(id="a", note="x"), expected=first)
    now = api.view.stored(Machine, "a").revision
    for write in (api.update(Machine(id="a", note="y"), expected=first), api.delete(Machine(id="a"), expected=first)):
        with pytest.raises(Conflict) as caught:
            await write
        assert caught.value.current == now
    await api.delete(Machine(id="a"), expected=now)
    assert not api.view.has(Machine, "a")


async def test_an_incomplete_record_is_refused_when_it_is_created(api: NbApi) -> None:
    """It may be built, and given to `update`; the error names all fields that are missing."""
    with pytest.raises(Invalid, match=r"Service lacks machine, state, ports\.0\.number"):
        await api.create(Service(id="s", ports=[Port(protocol="udp")]))


async def test_a_hook_that_raises_leaves_everything_as_it_was(api: NbApi) -> None:
    """Database, cache and subscribers, for create, update and delete."""
    await api.create(Hooked(id="a", text=" kept "))
    async with watching(api, Hooked) as seen:
        for write in (
            api.create(Hooked(id="b", text="bad")),
            api.update(Hooked(id="a", text="bad")),
            api.delete(Hooked(id="a")),
        ):
            with pytest.raises(ValueError, match="this"):
                await write
        await settle()
    assert [each.text for each in await api.get_all(Hooked)] == ["kept"]
    assert await api.get(Hooked, "b") is None
    assert not seen


# -- references ------------------------------------------------------------------------------------------------


async def test_a_reference_is_read_from_the_cache_and_the_database(api: NbApi) -> None:
    """`peek` and `await`; after the target has changed, both give the new one."""
    await api.create(Site(id="muc", name="Munich"))
    machine = await api.create(Machine(id="a", site="muc"))
    known = api.view.get(Machine, "a").site
    assert known.id == machine.site.id == "muc"
    assert known.peek().name == "Munich"
    await api.update(Site(id="muc", name="Minga"))
    assert (known.peek().name, (await known).name) == ("Minga", "Minga")
    assert (await api.get(known)).name == "Minga"


async def test_a_reference_of_a_record_that_was_not_read_says_so() -> None:
    """Its ID is there, its target is not."""
    with pytest.raises(Exception, match="belongs to no API"):
        Machine(id="a", site="muc").site.peek()


async def test_a_reference_to_nothing_is_refused(api: NbApi) -> None:
    """`RefMissing` names the target; a dangling one is allowed where the model says so."""
    with pytest.raises(RefMissing, match="refers to test-sites 'nowhere', which does not exist"):
        await api.create(Machine(id="a", site="nowhere"))
    await api.create(Machine(id="a"))
    await api.create(Service(id="s", machine="a", state="up", after=["gone"]))
    with pytest.raises(RefMissing) as caught:
        await api.view.get(Service, "s").after[0]
    assert (caught.value.table, caught.value.id) == ("test-machines", "gone")


async def test_what_others_refer_to_cannot_be_deleted(api: NbApi) -> None:
    """`Referenced` names those that do."""
    await api.create(Site(id="muc", name="Munich"))
    await api.create(Machine(id="a", site="muc"))
    with pytest.raises(Referenced, match="cannot delete test-sites 'muc': test-machines 'a' refer to it"):
        await api.delete(Site(id="muc"))
    async with api.transaction() as writing:
        writing.delete(Machine(id="a"))
        writing.delete(Site(id="muc"))
    assert not api.view.has(Site, "muc")


async def test_what_belongs_to_a_record_is_deleted_with_it(api: NbApi) -> None:
    """In the same transaction; events come in reverse order of dependency."""
    await api.create(Machine(id="a"))
    await api.create(Service(id="s", machine="a", state="up"))
    async with watching(api, Machine) as machines, watching(api, Service) as services:
        await api.delete(Machine(id="a"))
        await settle()
    assert not api.view.has(Service, "s")
    assert [each.revision for each in machines] == [each.revision for each in services]


async def test_a_target_that_is_deleted_meanwhile_prevents_the_reference(world: World, api: NbApi) -> None:
    """Two writers: whichever is first, no reference to nothing remains."""
    async with world.api() as other:
        for number in range(20):
            await api.create(Site(id=f"s{number}", name="x"))
            await caught_up(world, other)
            await asyncio.gather(
                other.delete(Site(id=f"s{number}")),
                api.create(Machine(id=f"m{number}", site=f"s{number}")),
                return_exceptions=True,
            )
            await caught_up(world, api)
            machine = api.view.get(Machine, f"m{number}")
            assert (machine is not None) == api.view.has(Site, f"s{number}")


# -- several records -------------------------------------------------------------------------------------------


async def test_a_transaction_is_made_whole_or_not_at_all(api: NbApi) -> None:
    """One write that fails prevents the others."""
    await api.create(Machine(id="a"))
    with pytest.raises(AlreadyExists):  # noqa: PT012 - it is the block's end that raises
        async with api.transaction() as writing:
            writing.create(Machine(id="b"))
            writing.create(Machine(id="a"))
    assert not api.view.has(Machine, "b")


async def test_a_transaction_may_state_what_it_does_not_write(api: NbApi) -> None:
    """`Conflict` if it does not hold."""
    await api.create(Machine(id="a"))
    with pytest.raises(Conflict):  # noqa: PT012 - it is the block's end that raises
        async with api.transaction() as writing:
            writing.expect(Machine, "a", 99)
            writing.create(Machine(id="b"))
    assert not api.view.has(Machine, "b")


async def test_put_creates_a_record_or_changes_the_given_fields(world: World, api: NbApi) -> None:
    """Hooks run, other fields keep their values, and writers at the same time do not fail."""
    async with api.transaction() as writing:
        writing.put(Machine(id="a", note="x"))
    async with api.transaction() as writing:
        writing.put(Machine(id="a"))
    assert [each.note for each in await api.get_all(Machine)] == ["x"]

    async def put(api: NbApi, number: int) -> None:
        async with api.transaction() as writing:
            writing.put(Machine(id=f"m{number % 3}", note=str(number)))

    async with world.api() as other:
        await asyncio.gather(*(put(each, number) for number in range(12) for each in (api, other)))
        await caught_up(world, api)
    assert {each.id for each in await api.get_all(Machine)} == {"a", "m0", "m1", "m2"}


async def test_mutations_of_many_writers_are_all_made(world: World, api: NbApi) -> None:
    """A counter that two APIs raise at the same time."""
    await api.create(Machine(id="a", facts={"count": 0}))
    async with world.api() as other:
        await asyncio.gather(
            *(
                each.mutate(Machine, "a", lambda it: it.replace(facts={"count": it.facts["count"] + 1}))
                for each in (api, other)
                for _ in range(20)
            )
        )
    assert (await api.get(Machine, "a")).facts["count"] == 40
    assert (await api.get(Machine, "a")).version == 41


async def test_unique_keys_are_distinct_under_concurrency(world: World, api: NbApi) -> None:
    """Numbers are not used again after their record is gone, and cannot be chosen."""
    async with world.api() as other:
        await asyncio.gather(
            *(
                each.create(Tenant(id=f"{name}{n}", topic="t"))
                for name, each in (("a", api), ("b", other))
                for n in range(20)
            )
        )
        await caught_up(world, api)
        await api.delete(Tenant(id="a0"))
        last = await api.create(Tenant(id="c", topic="t"))
        numbers = [each.unique_key for each in await api.get_all(Tenant)]
    assert len(numbers) == len(set(numbers)) == 40
    assert last.unique_key == 41
    with pytest.raises(Invalid, match="it cannot be chosen"):
        await api.create(Tenant(id="d", topic="t", unique_key=7))


async def test_a_record_disappears_with_its_lease(world: World, api: NbApi) -> None:
    """At the end of the block."""
    async with api.lease(5) as lease, watching(api, Machine) as seen:
        await api.create(Machine(id="a"), lease=lease)
        assert api.view.has(Machine, "a")
        await settle()
    await caught_up(world, api)
    assert not api.view.has(Machine, "a")
    assert [each.kind for each in seen] == ["created"]


@pytest.mark.usefixtures("virtual_time")
async def test_a_lease_that_ends_in_its_block_is_told_and_nothing_more_is_written_under_it() -> None:
    """Another process has revoked it, or the database was away for longer than its time."""
    driver = MemoryDriver()
    async with NbApi(driver, IndexedStore()) as api, api.lease(30) as lease:
        await api.create(Machine(id="a"), lease=lease)
        await asyncio.sleep(1000)  # it is kept alive
        assert api.view.has(Machine, "a")
        await driver.revoke(lease.number)
        await asyncio.wait_for(lease.ended.wait(), DEADLINE)
        assert not api.view.has(Machine, "a")
        with pytest.raises(Conflict, match="lease"):
            await api.create(Machine(id="b"), lease=lease)
        with pytest.raises(Conflict, match="lease"):
            async with api.transaction(require=lease) as writing:
                writing.create(Machine(id="c"))


# -- events ----------------------------------------------------------------------------------------------------


async def test_events_tell_what_happened(api: NbApi) -> None:
    """Old and new state, the changed fields, the revision."""
    async with watching(api, Machine) as seen:
        await api.create(Machine(id="a"))
        await api.update(Machine(id="a", note="x"))
        await api.delete(Machine(id="a"))
        await settle()
    assert [(each.kind, each.changed & {"note"}) for each in seen] == [
        ("created", {"note"}), ("updated", {"note"}), ("deleted", frozenset())
    ]  # fmt: skip
    assert (seen[1].old.note, seen[1].new.note, seen[2].new) == (None, "x", None)
    assert [each.revision for each in seen] == sorted({each.revision for each in seen})


async def test_a_filter_makes_arrivals_and_departures(api: NbApi) -> None:
    """A record that begins to match is created for the subscriber."""
    async with watching(api, Machine, note="x") as seen:
        await api.create(Machine(id="a"))
        await api.update(Machine(id="a", note="x"))
        await api.update(Machine(id="a", labels={"a": "b"}))
        await api.update(Machine(id="a", note="y"))
        await settle()
    assert [each.kind for each in seen] == ["created", "updated", "deleted"]


async def test_nothing_falls_between_a_listing_and_a_watch(api: NbApi) -> None:
    """The watch begins with the differences from a view."""
    await api.create(Machine(id="a"))
    await api.create(Machine(id="b"))
    view = api.view
    await api.delete(Machine(id="a"))
    await api.update(Machine(id="b", note="x"))
    await api.create(Machine(id="c"))
    async with watching(api, Machine, since=view) as seen:
        await settle()
    assert {each.id: each.kind for each in seen} == {"a": "deleted", "b": "updated", "c": "created"}


async def test_a_watch_from_a_view_reports_its_own_model_only_and_does_not_keep_the_view(api: NbApi) -> None:
    """An old view costs each write something as long as it is held."""
    held = weakref.ref(api.view)
    watch = api.watch(Machine, since=api.view)
    await api.create(Site(id="s", name="s"))
    await api.create(Machine(id="a"))
    assert held()

    assert (await anext(watch)).id == "a"
    assert held() is None
    await watch.aclose()


async def test_a_slow_subscriber_gets_merged_events_and_is_told(api: NbApi) -> None:
    """The last state of each record is right; others are not held up."""
    slow = api.watch(Machine)
    first = asyncio.ensure_future(anext(slow))
    await settle()
    await api.create(Machine(id="a"))
    assert (await first).kind == "created"
    for number in range(3000):
        await api.update(Machine(id="a", note=str(number)))
    events = []
    async for each in slow:
        events.append(each)
        if each.new.note == "2999":
            break
    assert len(events) <= 1001
    assert sum(each.merged for each in events) == 3000
    await slow.aclose()


@pytest.mark.usefixtures("virtual_time")
async def test_a_handler_that_raises_gets_its_event_again_and_shows_in_health() -> None:
    """Other handlers are not disturbed."""
    seen, others = [], []

    async def fails_twice(event: Event) -> None:
        seen.append(event.id)
        if len(seen) < 3:
            assert api.problems() == [] or "the handler first fails: OSError: no" in api.problems()
            raise OSError("no")

    async def works(event: Event) -> None:
        others.append(event.id)

    async with NbApi(MemoryDriver(), IndexedStore()) as api:
        api.handle(Machine, fails_twice, "first")
        api.handle(Machine, works, "second")
        await asyncio.sleep(0)
        await api.create(Machine(id="a"))
        await api.create(Machine(id="b"))
        await asyncio.sleep(0.05)
        assert others == ["a", "b"]
        assert "the handler first fails: OSError: no" in api.problems()
        await asyncio.sleep(1)
        assert seen == ["a", "a", "a", "b"]
        assert api.problems() == []


async def test_a_condition_that_raises_ends_its_own_watch_only(api: NbApi) -> None:
    """The subscriber gets the error; the cache and other subscribers go on."""

    def broken(machine: Machine) -> bool:
        raise ZeroDivisionError(machine.id)

    failing = asyncio.ensure_future(anext(api.watch(Machine, where=broken)))
    async with watching(api, Machine) as seen:
        await api.create(Machine(id="a"))
        await api.create(Machine(id="b"))
        await settle()
        assert [each.id for each in seen] == ["a", "b"]
    with pytest.raises(ZeroDivisionError):
        await failing


@pytest.mark.usefixtures("virtual_time")
async def test_an_internal_error_does_not_end_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """`problems` says so; the change appears, with its event, once the cause is gone."""
    async with NbApi(MemoryDriver(), IndexedStore()) as api, watching(api, Machine) as seen:
        with monkeypatch.context() as broken:
            broken.setattr(IndexedStore, "apply", lambda *_: 1 / 0)
            writing = asyncio.create_task(api.create(Machine(id="a")))
            await asyncio.sleep(3)
            assert "internal error: ZeroDivisionError" in api.problems()
            assert not seen
        await writing
        await settle()
        assert [each.id for each in seen] == ["a"]
        assert api.problems() == []


async def test_an_unknown_field_of_a_filter_is_refused(api: NbApi) -> None:
    """Before anything is watched."""
    with pytest.raises(Invalid, match="Machine has no field nope"):
        await anext(api.watch(Machine, nope=1))


# -- topics ----------------------------------------------------------------------------------------------------


async def test_a_cache_may_hold_some_topics_only(world: World, api: NbApi) -> None:
    """Taking one up and dropping it adds and removes its records, with events, and nothing else."""
    await api.create(Tenant(id="red", topic="r"))
    await api.create(Tenant(id="blue", topic="b"))
    async with world.api(topics={"r"}) as part, watching(part, Tenant) as seen:
        assert part.view.keys(Tenant) == ["red"]
        await part.take_topic("b")
        assert part.view.keys(Tenant) == ["blue", "red"]
        await part.drop_topic("r")
        assert part.view.keys(Tenant) == ["blue"]
        await settle()
        assert [(each.kind, each.id) for each in seen] == [("created", "blue"), ("deleted", "red")]
        with pytest.raises(AlreadyExists):
            await part.create(Tenant(id="red", topic="r"))


# -- queries ---------------------------------------------------------------------------------------------------


async def test_any_missing_and_none_are_different(api: NbApi) -> None:
    """In an index by a key of a dictionary."""
    await api.create(Machine(id="a", facts={"os": None}))
    await api.create(Machine(id="b", facts={}))
    await api.create(Machine(id="c", facts={"os": "debian"}))
    found = {
        name: [each.id for each in await api.get_all(Machine, "os", os=value)]
        for name, value in {"none": None, "missing": MISSING, "any": ANY, "two": {None, "debian"}}.items()
    }
    assert found == {"none": ["a"], "missing": ["b"], "any": ["a", "b", "c"], "two": ["a", "c"]}


async def test_parts_of_an_element_belong_together(api: NbApi) -> None:
    """The number of one port does not match the protocol of another."""
    await api.create(Machine(id="m"))
    ports = [Port(number=53, protocol="udp"), Port(number=80)]
    await api.create(Service(id="s", machine="m", state="up", ports=ports))
    assert len(await api.get_all(Service, "port", number=53, protocol="udp")) == 1
    assert await api.get_all(Service, "port", number=53, protocol="tcp") == []


async def test_a_record_that_cannot_be_read_is_told_and_harms_nothing(world: World, api: NbApi) -> None:
    """It is absent from the cache; the others are there."""
    await api.create(Machine(id="a"))
    driver = world.driver()
    await driver.open()
    await driver.commit(DbTransaction([Put("test-machines", "b", b'{"id": "b", "labels": 7}')]))
    await driver.close()
    await caught_up(world, api)
    assert api.view.keys(Machine) == ["a"]
    assert "cannot read test-machines 'b'" in api.problems()[0]


def test_a_reference_accepts_only_its_model() -> None:
    """An ID, a reference or a record of the target's model."""
    site = Site(id="muc", name="x")
    assert Machine(id="a", site=site).site == Machine(id="a", site="muc").site == Ref[Site]("muc")
    with pytest.raises(Invalid, match="it refers to Site, not to Machine"):
        Machine(id="a", site=Machine(id="b"))


# -- tables that are not in the cache --------------------------------------------------------------------------


async def test_records_that_the_cache_does_not_hold_are_read_in_pages(world: World) -> None:
    """In the order of their IDs; all methods but `get_all` work on them."""
    async with world.api(uncached=[Hooked]) as api:
        for number in range(5):
            await api.create(Hooked(id=f"h{number}", text="x"))
        with pytest.raises(AlreadyExists):
            await api.create(Hooked(id="h1", text="y"))
        await api.update(Hooked(id="h1", text="y"))
        await api.mutate(Hooked, "h2", lambda record: record.replace(text="z"))
        await api.delete(Hooked(id="h4"))
        with pytest.raises(NotFound):
            await api.delete(Hooked(id="h4"))
        assert [each.text for each in await api.page(Hooked)] == ["x", "y", "z", "x"]
        assert [each.id for each in await api.page(Hooked, limit=2, newest=True)] == ["h3", "h2"]
        assert [each.id for each in await api.page(Hooked, after="h0", before="h3")] == ["h1", "h2"]
        assert api.view.count(Hooked) == 0
        with pytest.raises(Invalid, match="use `page`"):
            await api.get_all(Hooked)


async def test_every_write_can_be_followed_from_a_revision(world: World) -> None:
    """None is merged; a consumer goes on from the revision that it noted."""
    async with world.api(uncached=[Hooked]) as api:
        start = api.view.revision
        for text in "abc":
            await api.create(Hooked(id=text, text=text))
        await api.delete(Hooked(id="a"))
        seen = []
        async for each in api.follow([Hooked], start):
            seen.append((each.id, each.record.text if each.record else None))
            if len(seen) == 4:
                break
        assert seen == [("a", "a"), ("b", "b"), ("c", "c"), ("a", None)]


async def test_a_consumer_learns_up_to_where_there_is_nothing_to_follow(world: World) -> None:
    """So it can note a revision that the database still keeps, though nothing happens in its tables."""
    async with world.api(uncached=[Hooked]) as api:
        start = api.view.revision
        await api.create(Hooked(id="a", text="a"))
        await api.create(Part(id="b", text="b"))
        batches = api.follow_batches([Hooked], start)
        seen: list[str] = []
        async for batch in batches:
            seen += [each.id for each in batch.writes]
            if batch.revision >= api.view.revision:
                break
        assert seen == ["a"]


async def test_references_between_cached_and_other_models_must_dangle(world: World) -> None:
    """Otherwise a deletion could not find what refers to its record."""
    with pytest.raises(Invalid, match=r"Machine refers to Site in site, and the cache does not hold both"):
        async with world.api(uncached=[Site]):
            pass
