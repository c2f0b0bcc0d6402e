"""Rows that no program of ours writes, and values that no database keeps: each harms itself only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import field_validator

from deadline import DEADLINE
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.base import DbTransaction, Put
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Hooked, Machine

DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000
ROWS: dict[str, Any] = {
    "nothing": b"",
    "no-json": b"\0",
    "no-object": b"[]",
    "no-unicode": b'{"$v":1,"id":"b","note":"\xff"}',
    "no-bytes": "text",
    "no-value": None,
    "nested-too-deeply": b'{"$v":1,"id":"b","facts":' + DEEP + b"}",
    "nested-too-deeply-in-another-order": b'{"id":"b","facts":' + DEEP + b"}",
    "not-a-number": b'{"$v":1,"id":"b","facts":{"a":NaN}}',
    "infinite": b'{"$v":1,"id":"b","facts":{"os":1e999}}',
    "number-of-5000-digits": b'{"$v":1,"id":"b","facts":{"os":' + b"9" * 5000 + b"}}",
    "version-of-5000-digits": b'{"$v":' + b"9" * 5000 + b',"id":"b"}',
    "version-that-is-a-long-text": b'{"$v":"' + b"x" * 100_000 + b'","id":"b"}',
    "id-that-is-another": b'{"$v":1,"id":"' + b"x" * 100_000 + b'"}',
    "id-twice": b'{"$v":1,"id":"b","id":"c"}',
    "id-that-is-a-number": b'{"$v":1,"id":5}',
    "reference-to-no-id": b'{"$v":1,"id":"b","site":""}',
    "labels-that-are-a-number": b'{"$v":1,"id":"b","labels":7}',
}


@pytest.mark.parametrize("data", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("early", [True, False], ids=["at-the-start", "in-the-watch"])
async def test_a_row_that_cannot_be_read_harms_nothing(data: Any, early: bool) -> None:
    """It is named in health, shortly; others are read and written."""
    memory = Memory()
    if early:
        memory.write([Put("test-machines", "b", b""), Put("test-machines", "c", Machine(id="c", version=1).encode())])
        row = memory.rows["test-machines", "b"]
        memory.rows["test-machines", "b"] = row._replace(data=data)
    async with NbApi(MemoryDriver(memory), IndexedStore()) as api:
        if not early:
            if not isinstance(data, bytes):
                return
            memory.write([Put("test-machines", "b", data)])
        await api.create(Machine(id="a"))
        assert await api.shows(memory.revision, DEADLINE)
        assert api.view.keys(Machine) == (["a", "c"] if early else ["a"])
        (problem,) = api.problems()
        assert problem.startswith("cannot read test-machines 'b': ")
        assert len(problem) < 300
        assert await api.get(Machine, "b") is None


async def test_a_version_that_stands_twice_is_not_believed() -> None:
    """The first one counts, and the record is written back with it alone."""
    memory = Memory()
    memory.write([Put("test-machines", "b", b'{"$v":1,"id":"b","$v":"x"}')])
    async with NbApi(MemoryDriver(memory), IndexedStore()) as api:
        assert api.problems() == []
        await api.update(Machine(id="b", note="x"))
    assert memory.rows["test-machines", "b"].data.count(b"$v") == 1


async def test_tables_that_nobody_knows_are_left_alone() -> None:
    """Their rows stay as they are."""
    memory = Memory()
    memory.write([Put("nobody-knows", "a", b"\xff")])
    async with NbApi(MemoryDriver(memory), IndexedStore()) as api:
        await api.create(Machine(id="a"))
        assert api.problems() == []
    assert memory.rows["nobody-knows", "a"].data == b"\xff"


async def test_health_names_some_of_many_records_that_cannot_be_read() -> None:
    """And the number of the others."""
    memory = Memory()
    memory.write([Put("test-machines", str(number), b"") for number in range(500)])
    async with NbApi(MemoryDriver(memory), IndexedStore()) as api:
        assert len(api.problems()) == 11
        assert api.problems()[-1] == "cannot read 490 more records"


async def test_health_names_records_whose_targets_are_not_there() -> None:
    """Their events wait for the targets."""
    memory = Memory()
    memory.write([Put("test-machines", str(number), b'{"$v":1,"id":"%d","site":"x"}' % number) for number in range(9)])
    async with NbApi(MemoryDriver(memory), IndexedStore()) as api:
        assert api.problems() == [
            "test-machines '0' refers to test-sites 'x', which cannot be found",
            "test-machines '1' refers to test-sites 'x', which cannot be found",
            "test-machines '2' refers to test-sites 'x', which cannot be found",
            "6 more records refer to records that cannot be found",
        ]
        memory.write([Put("test-sites", "x", b'{"$v":1,"id":"x","name":"x"}')])
        assert await api.shows(memory.revision, DEADLINE)
        assert api.problems() == []


@pytest.fixture
def scratch() -> Iterator[None]:
    """Forget the models that a test defines."""
    with registry.scratch():
        yield


@pytest.mark.usefixtures("scratch")
async def test_a_validator_with_a_bug_harms_its_own_record_only() -> None:
    """Whatever it raises is an internal error of that record."""

    class Buggy(Model, table="test-buggy"):
        text: str

        @field_validator("text")
        @classmethod
        def look_up(cls, value: str) -> str:
            return {"good": "good"}[value]

    memory = Memory()
    for key, text in (("a", "good"), ("b", "bad")):
        memory.write([Put("test-buggy", key, f'{{"$v":1,"id":"{key}","text":"{text}"}}'.encode())])
    async with NbApi(MemoryDriver(memory), IndexedStore()) as api:
        assert api.view.keys(Buggy) == ["a"]
        assert api.problems() == ["cannot read test-buggy 'b': internal error: KeyError"]


def nested(depth: int) -> Any:
    """Return a value that is nested so often."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (nested(199), "it is nested too deeply"),
        (nested(250), "it is nested too deeply"),
        (nested(400), "it is nested too deeply"),
        (10**5000, "a number has too many digits"),
        ("secret\ud800", "a text is not Unicode"),
        ({"secret\ud800": 1}, "a text is not Unicode"),
        (object(), "a value has a type that JSON does not have"),
    ],
    ids=["nested-199", "nested-250", "nested-400", "digits", "surrogate", "surrogate-in-a-key", "object"],
)
async def test_what_could_not_be_read_again_is_not_written(value: Any, why: str) -> None:
    """`Invalid`, without the value; nothing is written."""
    async with NbApi(MemoryDriver(), IndexedStore()) as api:
        with pytest.raises(Invalid, match=f"cannot store test-machines 'a': {why}") as raised:
            await api.create(Machine(id="a", facts={"os": value}))
        assert "secret" not in str(raised.value)
        assert await api.get(Machine, "a") is None
        await api.create(Machine(id="a", facts={"os": nested(190)}))
        assert api.problems() == []


def test_what_is_nested_too_deeply_to_be_built_is_refused() -> None:
    """Not with a `RecursionError`."""
    with pytest.raises(Invalid, match="cannot build Machine: it is nested too deeply"):
        Machine(id="a", facts=nested(5000))


@pytest.mark.parametrize("uncached", [(), (Hooked,)], ids=["cached", "uncached"])
async def test_a_record_that_cannot_be_read_is_not_written_either(uncached: tuple[type[Model], ...]) -> None:
    """All writes say why; a page leaves it out and is as long as it can be."""
    memory = Memory()
    memory.write([Put("test-hooked", "b", b'{"id": 7}')])
    async with NbApi(MemoryDriver(memory), IndexedStore(), uncached=uncached) as api:
        for write in (
            api.create(Hooked(id="b", text="x")),
            api.update(Hooked(id="b", text="x")),
            api.delete(Hooked(id="b")),
            api.mutate(Hooked, "b", lambda record: record),
        ):
            with pytest.raises(Invalid, match=r"cannot read test-hooked 'b': .*id: Input should be a valid string"):
                await write
        for key in "acd":
            await api.create(Hooked(id=key, text="x"))
        assert [each.id for each in await api.page(Hooked, limit=2)] == ["a", "c"]
        assert [each.id for each in await api.page(Hooked, limit=3, newest=True)] == ["d", "c", "a"]
    assert memory.rows["test-hooked", "b"].data == b'{"id": 7}'


async def test_an_id_that_is_no_text_is_refused() -> None:
    """Also where it is only compared."""
    driver = MemoryDriver()
    async with NbApi(driver, IndexedStore()) as api:
        with pytest.raises(Invalid, match="not Unicode text"):
            await api.update(Machine(id="\udcff", note="x"))
    with pytest.raises(Invalid, match="not Unicode text"):
        await driver.commit(DbTransaction([Put("t", "\udcff", b"")]))
