"""What must be on the disk before the machine is changed, is; nothing else waits for the disk, and nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine_bench import state
from fake_machine import Machine
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Unwritable
from power import Disk, DurableBench

STATES = state("conf"), state("svc", watch=["conf"])


@pytest.fixture
def lasting(machine: Machine, tmp_path: Path) -> DurableBench:
    """A bench whose journal may lose what was not flushed."""
    machine.settings.update(conf="right", svc="right")
    return DurableBench(machine, tmp_path / "journal")


async def test_a_change_that_outlives_the_power_is_told(lasting: DurableBench) -> None:
    """The file is on the disk, the news of it is not: but the intent is."""
    machine = lasting.machine
    async with lasting.running(*STATES):
        machine.hold("apply conf")
        machine.drift("conf")
        await lasting.elapse(1)
        assert machine.settings["conf"] == "right"
        lasting.forget()
        machine.gates.clear()
        lasting.cut_power()
        async with lasting.running(*STATES):
            assert machine.log == ["check conf", "check svc", "refresh svc"]


async def test_nothing_is_changed_before_the_disk_has_the_intent(lasting: DurableBench) -> None:
    """However long it takes."""
    machine = lasting.machine
    async with lasting.running(*STATES):
        lasting.disk.slow = asyncio.Event()
        machine.drift("conf")
        await lasting.elapse(10)
        assert machine.settings["conf"] == "drifted"
        lasting.disk.slow.set()
        await lasting.elapse(1)

        assert machine.settings["conf"] == "right"


async def test_what_runs_at_once_is_flushed_together(lasting: DurableBench) -> None:
    """Eight changes share one flush."""
    names = [f"c{n}" for n in range(8)]
    async with lasting.running(
        *(state(name) for name in names), state("svc", watch=names), workers=8, ordering="requisites"
    ):
        assert lasting.disk.flushes == 1
        assert lasting.machine.log.count("refresh svc") == 1


async def test_who_is_right_or_unheard_of_writes_nothing(lasting: DurableBench) -> None:
    """A look at what nobody changed leaves the journal alone; a change that nobody waits for, too."""
    lasting.machine.settings["alone"] = "wrong"
    async with lasting.running(*STATES, state("alone")) as engine:
        written = lasting.disk.writes
        engine.recheck()
        await engine.settle()

        assert lasting.machine.settings["alone"] == "right"
        assert (lasting.disk.flushes, lasting.disk.writes) == (0, written)


async def test_a_disk_that_fails_keeps_the_machine_unchanged(lasting: DurableBench) -> None:
    """It is said, and tried again."""
    machine = lasting.machine
    async with lasting.running(*STATES) as engine:
        lasting.disk.error = OSError(5, "Input/output error")
        machine.drift("conf")
        await lasting.elapse(0.5)
        assert (machine.settings["conf"], engine.converged) == ("drifted", False)
        assert (
            engine.status()[0]["comment"]
            == "left alone for now: the journal cannot be written ([Errno 5] Input/output error)"
        )
        lasting.disk.error = None
        await lasting.elapse(100)

        assert (machine.settings["conf"], engine.converged) == ("right", True)


async def test_a_run_that_ends_in_its_look_leaves_no_intent(lasting: DurableBench) -> None:
    """Stopped before anything was changed: the next start has nothing to tell."""
    machine = lasting.machine
    async with lasting.running(*STATES, stop_timeout=1):
        machine.hold("conf")
        machine.drift("conf")
        await lasting.elapse(1)
    lasting.journal.close()
    machine.free()
    machine.settings["conf"] = "right"
    lasting.forget()
    async with lasting.running(*STATES):
        assert machine.log == ["check conf", "check svc"]


async def test_flushes_happen_in_a_thread_and_keep_the_log_short(tmp_path: Path) -> None:
    """For real: after a thousand changes there are fewer pages in the log than SQLite would let it have."""
    edge = ("a", "b", "watch")
    journal = Journal(tmp_path / "j")
    journal.adopt([edge], {"a": "a", "b": "b"})
    for _ in range(1000):
        await journal.announce("a", [edge])
        journal.changed("a", [edge])
        journal.deliver([(edge, journal.count(edge))])
    assert (tmp_path / "j-wal").stat().st_size < 800 * 4096
    journal.close()

    after = Journal(tmp_path / "j", durable=False)
    assert (after.count(edge), after.pending(edge)) == (1000, False)
    after.close()


async def test_an_edge_that_could_not_be_written_is_written_with_the_next_intent(
    virtual_time: None, tmp_path: Path
) -> None:
    """White box: what the memory knows of edges is what the file knows, or an intent would be of no use."""
    edge, disk = ("a", "b", "watch"), Disk(tmp_path / "j")
    first = Journal(disk.path, blocking=disk)
    disk.error = OSError(28, "No space left on device")
    with pytest.raises(Unwritable, match="No space left"):
        await first.announce("a", [edge])
    disk.error = None
    await asyncio.sleep(10)
    await first.announce("a", [edge])
    second = Journal(disk.cut(), durable=False)
    second.adopt([edge], {"a": "a", "b": "b"})

    assert second.pending(edge)
    second.close()
    first.close()


async def test_a_change_that_could_not_be_counted_is_counted_when_the_disk_works_again(
    virtual_time: None, tmp_path: Path
) -> None:
    """White box: the next run finds it right, and must not take the intent away without the count."""
    edge, disk = ("a", "b", "watch"), Disk(tmp_path / "j")
    first = Journal(disk.path, blocking=disk)
    await first.announce("a", [edge])
    disk.error = OSError(28, "No space left on device")
    first.changed("a", [edge])
    await asyncio.sleep(1)
    disk.error = None
    await asyncio.sleep(10)
    first.unchanged("a")
    await first.secure()
    second = Journal(disk.cut(), durable=False)
    second.adopt([edge], {"a": "a", "b": "b"})

    assert (second.interrupted, second.pending(edge)) == ((), True)
    second.close()
    first.close()
