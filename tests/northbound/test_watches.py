"""Watches report what happened, and what the cache holds and follows, on each database."""

from __future__ import annotations

import asyncio
import weakref

import pytest

from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.base import DbTransaction, Put
from holdfast.agent.northbound.drivers.memory import MemoryDriver
from holdfast.agent.northbound.errors import AlreadyExists, Invalid, NotFound
from holdfast.agent.northbound.events import Event
from holdfast.agent.northbound.ref import Ref
from holdfast.agent.northbound.store.indexed import IndexedStore
from holdfast.agent.northbound.values import ANY, MISSING
from northbound_models import Hooked, Machine, Part, Site, Tenant
from northbound_world import World, caught_up, settle, watching

# -- events ----------------------------------------------------------------------------------------------------


async def test_events_tell_what_happened(api: NbApi) -> None:
    """An event has the old and the new state, the changed fields, and the revision."""
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
    """The watch begins with the differences from a view, so no change is lost."""
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
    """The last state of each record is right. Other subscribers are not delayed."""
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
    """Other handlers are not affected."""
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
    """The subscriber gets the error; the cache and other subscribers continue."""

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
    """The filter is refused before the watch starts."""
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
    """The index of the test uses a key of a dictionary."""
    await api.create(Machine(id="a", facts={"os": None}))
    await api.create(Machine(id="b", facts={}))
    await api.create(Machine(id="c", facts={"os": "debian"}))
    found = {
        name: [each.id for each in await api.get_all(Machine, "os", os=value)]
        for name, value in {"none": None, "missing": MISSING, "any": ANY, "two": {None, "debian"}}.items()
    }
    assert found == {"none": ["a"], "missing": ["b"], "any": ["a", "b", "c"], "two": ["a", "c"]}


async def test_a_record_that_cannot_be_read_is_told_and_harms_nothing(world: World, api: NbApi) -> None:
    """The record is missing in the cache; all others are in it."""
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
    """They are in the order of their IDs. All methods except `get_all` work with them."""
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
    """Writes are not merged. A consumer continues from the revision that it has stored."""
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
    """It can then store a revision that the database still has, although nothing changes in its tables."""
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
