"""Writes that were computed from a cache that lags behind, or that does not hold the record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from deadline import DEADLINE
from holdfast.agent.northbound import commits
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.base import DbTransaction, WatchBatch
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    Referenced,
    RefMissing,
    Unavailable,
)
from holdfast.agent.northbound.ref import Ref
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Container, Folder, Hooked, Machine, Page, Part, Service, Site, Tenant


class LateDriver(MemoryDriver):
    """Its watch tells nothing before `go` is set."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.go = asyncio.Event()
        self.commits = 0

    async def watch(self, after: int, tables: Sequence[str] | None = None) -> AsyncIterator[WatchBatch]:
        """Wait before each batch."""
        async for batch in super().watch(after, tables):
            await self.go.wait()
            yield batch

    async def commit(self, transaction: DbTransaction) -> int:
        """Count."""
        self.commits += 1
        return await super().commit(transaction)


async def settle() -> None:
    """Let all tasks run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_error_is_not_raised_from_a_cache_that_lags_behind() -> None:
    """Each of these writes succeeds on the database as it is, and would fail on the cache as it was."""
    memory = Memory()
    late = LateDriver(memory)
    async with NbApi(MemoryDriver(memory), IndexedStore()) as first, NbApi(late, IndexedStore()) as second:
        await first.create(Site(id="old", name="x"))
        await first.create(Machine(id="gone", site="old"))
        await first.create(Hooked(id="h", text="kept"))
        late.go.set()
        assert await second.shows(memory.revision, DEADLINE)
        late.go.clear()

        await first.create(Site(id="new", name="x"))
        await first.create(Machine(id="a"))
        await first.delete(Machine(id="gone"))
        await first.update(Hooked(id="h", text="free"))
        revision = first.view.stored(Machine, "a").revision
        writes = [
            second.update(Machine(id="a", note="x"), expected=revision),  # not: NotFound, Conflict
            second.create(Machine(id="gone")),  # not: AlreadyExists
            second.create(Machine(id="b", site="new")),  # not: RefMissing
            second.delete(Site(id="old")),  # not: Referenced
            second.delete(Hooked(id="h")),  # not: what its hook raises
        ]
        tasks = [asyncio.create_task(write) for write in writes]
        await settle()
        assert not any(task.done() for task in tasks)
        late.go.set()
        await asyncio.gather(*tasks)


@pytest.mark.usefixtures("virtual_time")
async def test_an_error_that_the_database_confirms_is_raised_at_once() -> None:
    """The cache need not have seen what came before, so it is not waited for."""
    memory = Memory()
    late = LateDriver(memory)
    async with NbApi(MemoryDriver(memory), IndexedStore()) as first, NbApi(late, IndexedStore()) as second:
        await first.create(Site(id="other", name="x"))
        for write, error in (
            (second.update(Machine(id="a", note="x")), NotFound),
            (second.delete(Machine(id="a")), NotFound),
            (second.create(Machine(id="a", site="none")), RefMissing),
            (second.update(Machine(id="a", note="x"), expected=3), Conflict),
        ):
            with pytest.raises(error):
                await asyncio.wait_for(write, 1)


async def test_a_database_that_is_away_confirms_nothing() -> None:
    """`Unavailable`, not an error that may be wrong."""

    class Away(MemoryDriver):
        async def commit(self, transaction: DbTransaction) -> int:
            raise Unavailable(f"away: {len(transaction.writes)} writes")

    async with NbApi(Away(), IndexedStore()) as api:
        with pytest.raises(Unavailable, match="away: 0 writes"):
            await api.update(Machine(id="a", note="x"))


@pytest.mark.usefixtures("virtual_time")
async def test_own_commits_need_no_watch() -> None:
    """The cache takes them in if it has all that came before; the watch brings what is missing."""
    memory = Memory()
    late = LateDriver(memory)
    async with NbApi(MemoryDriver(memory), IndexedStore()) as other, NbApi(late, IndexedStore()) as api:
        await asyncio.wait_for(api.create(Machine(id="a")), 1)
        await asyncio.wait_for(api.update(Machine(id="a", note="x")), 1)
        assert api.view.stored(Machine, "a") == (await api.get(Machine, "a"), 2, 1)
        await asyncio.wait_for(api.delete(Machine(id="a")), 1)
        await other.create(Machine(id="b"))
        writing = asyncio.create_task(api.create(Machine(id="c")))
        await settle()
        assert not writing.done()
        assert api.view.revision == 3
        late.go.set()
        await writing
        assert api.view.keys(Machine) == ["b", "c"]
        assert {key: api.view.stored(Machine, key).created for key in "bc"} == {"b": 4, "c": 5}


async def test_a_transaction_that_changes_nothing_is_not_taken_for_that_of_another() -> None:
    """A record that is created and deleted in one transaction has no revision of its own."""
    memory = Memory()
    async with NbApi(MemoryDriver(memory), IndexedStore()) as first, NbApi(MemoryDriver(memory), IndexedStore()) as api:
        await first.create(Machine(id="other"))
        async with api.transaction() as writing:
            writing.create(Machine(id="a"))
            writing.delete(Machine(id="a"))
        assert await api.shows(memory.revision, DEADLINE)
        assert api.view.keys(Machine) == ["other"]


async def test_a_record_of_a_topic_that_the_cache_does_not_hold_can_be_written() -> None:
    """It is read from the database; it does not appear in the cache."""
    memory = Memory()
    async with (
        NbApi(MemoryDriver(memory), IndexedStore()) as whole,
        NbApi(MemoryDriver(memory), IndexedStore(), topics={"r"}) as part,
    ):
        await whole.create(Tenant(id="blue", topic="b"))
        await part.mutate(Tenant, "blue", lambda record: record.replace(topic="c"))
        with pytest.raises(AlreadyExists):
            await part.create(Tenant(id="blue", topic="r"))
        assert part.view.keys(Tenant) == []
        await part.delete(Tenant(id="blue"))
        assert await whole.shows(memory.revision, DEADLINE)
        assert whole.view.keys(Tenant) == []


async def test_references_between_topics() -> None:
    """A target that the cache does not hold is read; what may refer to a record unseen prevents that it is deleted."""
    memory = Memory()
    async with (
        NbApi(MemoryDriver(memory), IndexedStore()) as whole,
        NbApi(MemoryDriver(memory), IndexedStore(), topics={"r"}) as part,
    ):
        await whole.create(Site(id="s", name="x"))
        await whole.create(Folder(id="blue", topic="b", site="s"))
        assert await part.shows(memory.revision, DEADLINE)
        pages = part.watch(Page)
        first = asyncio.ensure_future(anext(pages))
        await settle()
        await part.create(Page(id="p", folder="blue"))
        assert (await first).id == "p"
        assert (await part.view.get(Page, "p").folder).topic == "b"
        assert part.problems() == []
        with pytest.raises(RefMissing):
            await part.create(Page(id="q", folder="none"))
        with pytest.raises(Invalid, match="cannot delete test-sites 's': the cache does not hold all test-folders"):
            await part.delete(Site(id="s"))
        with pytest.raises(Referenced):
            await part.delete(Folder(id="blue"))
        await pages.aclose()


@pytest.mark.usefixtures("virtual_time")
async def test_a_record_that_only_stands_in_another_cannot_be_written_by_itself() -> None:
    """It has no row; a new one of its own may be created."""
    async with NbApi(MemoryDriver(), IndexedStore()) as api:
        await api.create(Container(id="c", parts=[Part(id="p", text="inside")]))
        for write in (api.update(Part(id="p", text="x")), api.delete(Part(id="p"))):
            with pytest.raises(NotFound):
                await asyncio.wait_for(write, 1)
        await api.create(Part(id="p", text="own"))
        await api.mutate(Container, "c", lambda it: it.replace(parts=[Part(id="p", text="newer")]))
        assert api.view.get(Part, "p").text == "newer"
        await api.update(Part(id="p", text="newest"))
        assert api.view.get(Part, "p").text == "newest"
        await api.delete(Part(id="p"))
        assert api.view.get(Part, "p").text == "newer"


async def test_a_mutation_that_changes_nothing_returns_the_record() -> None:
    """Also of a table that the cache does not hold."""
    async with NbApi(MemoryDriver(), IndexedStore(), uncached=[Hooked]) as api:
        await api.create(Hooked(id="a", text="x"))
        assert (await api.mutate(Hooked, "a", lambda record: record)).text == "x"


async def test_writers_of_one_process_take_turns() -> None:
    """Hundreds that change one record, or take a number of one table, do not make each other fail."""
    late = LateDriver(Memory())
    late.go.set()
    async with NbApi(late, IndexedStore()) as api:
        await api.create(Machine(id="a", facts={"count": 0}))
        begun = late.commits
        await asyncio.gather(
            *(
                api.mutate(Machine, "a", lambda it: it.replace(facts={"count": it.facts["count"] + 1}))
                for _ in range(300)
            ),
            *(api.create(Tenant(id=str(number), topic="t")) for number in range(300)),
        )
        assert late.commits - begun == 600
        assert api.view.get(Machine, "a").facts["count"] == 300
        assert {each.unique_key for each in api.view.get_all(Tenant)} == set(range(1, 301))
        assert not api._committer._under_way


async def test_a_write_that_hangs_does_not_hold_up_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same record; it goes on after a short time."""
    monkeypatch.setattr(commits, "TURN", 0.01)
    hang = True

    class Hanging(MemoryDriver):
        async def commit(self, transaction: DbTransaction) -> int:
            if hang:
                await asyncio.Event().wait()
            return await super().commit(transaction)

    async with NbApi(Hanging(), IndexedStore()) as api:
        first = asyncio.create_task(api.create(Machine(id="a", note="first")))
        await asyncio.sleep(0)
        hang = False
        assert (await asyncio.wait_for(api.create(Machine(id="a", note="second")), DEADLINE)).note == "second"
        first.cancel()
        await asyncio.wait([first])
        await api.update(Machine(id="a", note="third"))
        assert not api._committer._under_way


async def test_a_closed_api_writes_nothing_and_tells_nothing() -> None:
    """Writes fail, watches end."""
    memory = Memory()
    async with NbApi(MemoryDriver(memory), IndexedStore()) as api:
        pass
    with pytest.raises(Unavailable, match="the store is closed"):
        await api.create(Machine(id="a"))
    assert [event async for event in api.watch(Machine)] == []
    assert not memory.rows


async def test_what_refers_to_a_record_is_named_by_the_first_of_them() -> None:
    """`Referenced` is confirmed by one of those that refer to it."""
    async with NbApi(MemoryDriver(), IndexedStore()) as api:
        await api.create(Site(id="s", name="x"))
        for number in range(5):
            await api.create(Machine(id=f"m{number}", site="s"))
        with pytest.raises(Referenced, match="test-machines 'm0', test-machines 'm1', test-machines 'm2' and 2 more"):
            await api.delete(Site(id="s"))
        await api.create(Service(id="x", machine="m0", state="up"))
        assert (await api.get(Ref[Machine]("m0"))).site.id == "s"
