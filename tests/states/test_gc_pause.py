"""The garbage collector visits new objects, not all existing ones; it still finds all garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from effort import effort
from holdfast.states.gc_pause import BULK, SHORT_LIVED, GcPolicy, gc_deferred, gc_paused


class Ring:
    """Garbage in a cycle, which only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[GcPolicy]:
    """A policy in force; objects that others have frozen do not count."""
    gc.unfreeze()
    gc.collect()
    collector = GcPolicy()
    with collector.installed():
        yield collector


def test_what_was_built_at_rest_is_not_walked() -> None:
    """A full collection costs the same after a large tree was built as before."""
    gc.collect()
    gc.freeze()
    few = effort(gc.collect, 100, than=lambda: [Ring() for _ in range(100)])
    with gc_paused():
        tree = [[number] for number in range(10 * BULK)]
    try:
        assert effort(gc.collect, 5 * few, than=lambda: [Ring() for _ in range(100)]) < 5 * few
        assert len(tree) == 10 * BULK
    finally:
        gc.unfreeze()


def test_what_survives_a_full_collection_is_walked_once(collector: GcPolicy) -> None:
    """It is frozen then."""
    assert collector
    tree = [[number] for number in range(BULK)]
    gc.collect()
    frozen = gc.get_freeze_count()
    assert frozen > BULK
    gc.collect()
    assert gc.get_freeze_count() < frozen + 100
    assert tree


def test_what_a_large_pass_has_left_is_not_walked_at_all(collector: GcPolicy) -> None:
    """A few resources do not freeze anything; many freeze all that was built."""
    with gc_paused():
        tree = [[number] for number in range(BULK // 2)]
        before = gc.get_freeze_count()
        collector.built(10)
        assert gc.get_freeze_count() == before
        collector.built(5000)
        assert gc.get_freeze_count() >= before + len(tree)


def test_garbage_that_is_frozen_is_found_when_enough_was_replaced(collector: GcPolicy) -> None:
    """A quarter of all resources, at once or little by little: so memory stays flat however often states change."""
    ring = Ring()
    gone = weakref.ref(ring)
    gc.collect()
    del ring
    gc.collect()
    assert gone() is not None
    for _ in range(5):
        collector.replaced(500, 10_000)
    assert gone() is not None
    collector.replaced(500, 10_000)

    assert gone() is None


def test_the_collector_is_left_as_it_was() -> None:
    """When the agent ends."""
    before = gc.get_threshold(), list(gc.callbacks)
    with GcPolicy().installed():
        assert gc.get_threshold() != before[0]

    assert (gc.get_threshold(), list(gc.callbacks)) == before
    assert gc.get_freeze_count() == 0


def test_no_full_collection_waits_for_much_that_is_new() -> None:
    """Each walks a bounded number of objects, however many are older: new ones are walked after ten thousand or so."""
    gc.unfreeze()
    old = [[number] for number in range(30 * BULK)]
    gc.collect()
    with GcPolicy().installed():
        before = gc.get_stats()[2]["collections"]
        new = [[number] for number in range(3 * BULK)]

    assert gc.get_stats()[2]["collections"] >= before + 2
    assert len(old) > len(new)


def test_work_that_ends_soon_is_collected_less_often() -> None:
    """Each collection waits for many more new objects, and afterwards all is as before, also when the work fails."""
    before = gc.get_threshold()
    during = []

    def work() -> None:
        with gc_deferred():
            during.append(gc.get_threshold())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert during == [(SHORT_LIVED, *before[1:])]
    assert gc.get_threshold() == before
