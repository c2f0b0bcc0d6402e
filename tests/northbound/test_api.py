"""The five methods and transactions, on each database."""

from __future__ import annotations

import asyncio

import pytest

from deadline import DEADLINE
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.memory import MemoryDriver
from holdfast.agent.northbound.errors import AlreadyExists, Conflict, Invalid, NotFound, Referenced, RefMissing
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Hooked, Machine, Port, Service, Site, Tenant
from northbound_world import World, caught_up, settle, watching

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


async def test_parts_of_an_element_belong_together(api: NbApi) -> None:
    """The number of one port does not match the protocol of another."""
    await api.create(Machine(id="m"))
    ports = [Port(number=53, protocol="udp"), Port(number=80)]
    await api.create(Service(id="s", machine="m", state="up", ports=ports))
    assert len(await api.get_all(Service, "port", number=53, protocol="udp")) == 1
    assert await api.get_all(Service, "port", number=53, protocol="tcp") == []


async def test_references_between_cached_and_other_models_must_dangle(world: World) -> None:
    """Otherwise a deletion could not find what refers to its record."""
    with pytest.raises(Invalid, match=r"Machine refers to Site in site, and the cache does not hold both"):
        async with world.api(uncached=[Site]):
            pass
