"""The garbage collector visits new objects, not all existing ones; it still finds all garbage."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.states.gc_pause import BULK, SHORT_LIVED, GcPolicy, gc_deferred, gc_paused


class Ring:
    """A cycle, which only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[GcPolicy]:
    """Yield a policy in force, without objects that other code has frozen."""
    gc.unfreeze()
    gc.collect()
    collector = GcPolicy()
    with collector.installed():
        yield collector


def test_objects_built_during_a_pause_are_not_visited() -> None:
    """After a large build, a full collection visits no more objects than before."""
    gc.collect()
    gc.freeze()
    before = len(gc.get_objects())
    with gc_paused():
        tree = [[number] for number in range(10 * BULK)]
    try:
        assert len(gc.get_objects()) < before + 1000  # frozen objects are not among these
        assert len(tree) == 10 * BULK > 2000
    finally:
        gc.unfreeze()


def test_survivors_of_a_full_collection_are_frozen(collector: GcPolicy) -> None:
    """A second full collection does not visit them."""
    assert collector
    tree = [[number] for number in range(BULK)]
    gc.collect()
    frozen = gc.get_freeze_count()
    assert frozen > BULK
    gc.collect()
    assert gc.get_freeze_count() < frozen + 100
    assert tree


def test_objects_of_a_large_pass_are_frozen_at_once(collector: GcPolicy) -> None:
    """A pass over a few resources freezes nothing."""
    with gc_paused():
        tree = [[number] for number in range(BULK // 2)]
        before = gc.get_freeze_count()
        collector.built(10)
        assert gc.get_freeze_count() == before
        collector.built(5000)
        assert gc.get_freeze_count() >= before + len(tree)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc can return free memory")
def test_memory_that_a_large_pass_no_longer_needs_is_returned(collector: GcPolicy) -> None:
    """Free memory between blocks that are still in use is returned, too."""
    tables = [bytes(10_000) for _ in range(3000)]
    kept = tables[::10]
    del tables
    before = resident()
    collector.built(5000)
    assert resident() < before - 10
    assert len(kept) == 300


def resident() -> float:
    """Return the resident memory of this process in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def test_frozen_garbage_is_found_after_enough_replacements(collector: GcPolicy) -> None:
    """A quarter of all resources is enough, at once or little by little.

    Memory is therefore limited, however often states change.
    """
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


def test_the_end_of_the_policy_restores_the_collector() -> None:
    """The thresholds and callbacks are those from before."""
    before = gc.get_threshold(), list(gc.callbacks)
    with GcPolicy().installed():
        assert gc.get_threshold() != before[0]

    assert (gc.get_threshold(), list(gc.callbacks)) == before
    assert gc.get_freeze_count() == 0


def test_full_collections_follow_the_number_of_new_objects() -> None:
    """A full collection comes after about ten thousand new objects, however many older ones exist."""
    gc.unfreeze()
    old = [[number] for number in range(30 * BULK)]
    gc.collect()
    with GcPolicy().installed():
        before = gc.get_stats()[2]["collections"]
        new = [[number] for number in range(3 * BULK)]

    assert gc.get_stats()[2]["collections"] >= before + 2
    assert len(old) > len(new)


def test_short_work_is_collected_less_often() -> None:
    """Each collection waits for many more new objects. The thresholds are restored even if the work fails."""
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


@pytest.mark.parametrize("shared", [True, False])
def test_threads_share_one_arena_of_the_c_library(shared: bool) -> None:
    """Without `share_arena`, malloc_info(3) lists a separate arena of the thread."""
    code = (
        "import ctypes, threading\n"
        "from holdfast.states.gc_pause import share_arena\n"
        f"if {shared}: share_arena()\n"
        "thread = threading.Thread(target=lambda: bytes(10_000)); thread.start(); thread.join()\n"
        "libc = ctypes.CDLL(None); libc.fdopen.restype = ctypes.c_void_p\n"
        "output = ctypes.c_void_p(libc.fdopen(1, b'w')); libc.malloc_info(0, output); libc.fflush(output)\n"
    )
    if not hasattr(ctypes.CDLL(None), "malloc_info"):
        pytest.skip("the C library is not glibc")
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert (told.count("<heap nr=") == 1) == shared
