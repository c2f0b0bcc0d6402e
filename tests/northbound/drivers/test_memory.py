"""What only the database in memory has."""

from __future__ import annotations

import pytest

from holdfast.agent.northbound.drivers.base import DbTransaction, Put
from holdfast.agent.northbound.drivers.memory import Memory, MemoryDriver
from holdfast.agent.northbound.errors import Compacted


async def test_the_history_is_bounded():
    """A watch that is too slow is told so; one that keeps up misses nothing."""
    driver = MemoryDriver(Memory(room=10_000))
    slow, fast = aiter(driver.watch(0)), aiter(driver.watch(0))
    await anext(slow)
    await anext(fast)
    for number in range(100):
        await driver.commit(DbTransaction([Put("t", str(number), bytes(1000))]))
        assert [change.id for change in (await anext(fast)).changes] == [str(number)]
    with pytest.raises(Compacted, match="the changes since revision 0 are no longer kept"):
        await anext(slow)
    assert driver.memory.history.start > 80


async def test_one_change_may_be_larger_than_the_room():
    """It is not kept, so watches list the rows instead."""
    driver = MemoryDriver(Memory(room=1000))
    watch = aiter(driver.watch(0))
    await anext(watch)
    await driver.commit(DbTransaction([Put("t", "a", bytes(5000))]))
    with pytest.raises(Compacted):
        await anext(watch)
    assert (await driver.read()).revision == 1
