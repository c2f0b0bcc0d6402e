"""The journal is flushed before the machine is changed; nothing else waits for the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine_bench import state
from fake_machine import Machine
from holdfast import Declaration
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.agent.engine.deliver.tables import Reversal
from power import Disk, DurableBench

STATES = state("conf"), state("svc", watch=["conf"])


@pytest.fixture
def lasting(machine: Machine, tmp_path: Path) -> DurableBench:
    """Return a bench whose journal may lose what was not flushed."""
    machine.settings.update(conf="right", svc="right")
    return DurableBench(machine, tmp_path / "journal")


async def test_a_change_before_a_loss_of_power_is_delivered(lasting: DurableBench) -> None:
    """The file has changed, and the journal has only the intent."""
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


async def test_nothing_is_changed_before_the_intent_is_flushed(lasting: DurableBench) -> None:
    """The run waits for the flush, however long it takes."""
    machine = lasting.machine
    async with lasting.running(*STATES):
        lasting.disk.slow = asyncio.Event()
        machine.drift("conf")
        await lasting.elapse(10)
        assert machine.settings["conf"] == "drifted"
        lasting.disk.slow.set()
        await lasting.elapse(1)

        assert machine.settings["conf"] == "right"


async def test_simultaneous_runs_share_a_flush(lasting: DurableBench) -> None:
    """Eight changes need one."""
    names = [f"c{n}" for n in range(8)]
    async with lasting.running(
        *(state(name) for name in names), state("svc", watch=names), workers=8, ordering="requisites"
    ):
        assert lasting.disk.flushes == 1
        assert lasting.machine.log.count("refresh svc") == 1


async def test_resources_as_declared_or_without_subscribers_write_nothing(lasting: DurableBench) -> None:
    """A check writes nothing, and neither does a change that no other resource waits for."""
    lasting.machine.settings["alone"] = "wrong"
    async with lasting.running(*STATES, state("alone")) as engine:
        written = lasting.disk.writes
        engine.recheck()
        await engine.settle()

        assert lasting.machine.settings["alone"] == "right"
        assert (lasting.disk.flushes, lasting.disk.writes) == (0, written)


async def test_the_machine_stays_unchanged_while_the_disk_fails(lasting: DurableBench) -> None:
    """The error is reported, and the write is tried again."""
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


async def test_a_run_that_ends_during_its_check_leaves_no_intent(lasting: DurableBench) -> None:
    """It stops before anything changes, so the next start delivers nothing."""
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
    """After a thousand changes on a real disk, the log has fewer pages than SQLite would allow."""
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
    """White box: an intent is useless unless the file has its edges."""
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
    """White box: the next run finds nothing to change, and must not remove the intent without counting the change."""
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


async def test_a_reversal_is_not_repeated_after_a_loss_of_power(machine: Machine, tmp_path: Path) -> None:
    """Another program may use the setting by then. The copy is removed after the journal is flushed."""
    lasting = DurableBench(machine, tmp_path / "journal")
    copy = tmp_path / "copy"
    copy.touch()
    journal = lasting.open_journal()
    journal.remember(Reversal("zold.present[x]", "x", Declaration("zsetting.present", {"name": "x"}, str(copy))))
    await journal.secure()
    journal.close()
    lasting.disk.slow = asyncio.Event()
    async with lasting.starting() as engine:
        await lasting.elapse(1)
        assert machine.settings == {"x": "right"}
        assert copy.exists()
        lasting.disk.slow.set()
        await engine.settle()
        await lasting.elapse(1)
        assert not copy.exists()

        machine.settings["x"] = "theirs"
        lasting.cut_power()
        async with lasting.running():
            assert machine.settings == {"x": "theirs"}


async def test_nothing_is_changed_while_previous_content_cannot_be_recorded(machine: Machine, tmp_path: Path) -> None:
    """The engine changes nothing in any number of attempts."""
    lasting = DurableBench(machine, tmp_path / "journal")
    machine.settings["a"] = "theirs"
    lasting.disk.error = OSError(5, "Input/output error")
    async with lasting.starting(state("a", "zborrowed.present", meta={"reverse": True})):
        await lasting.elapse(600)
        assert machine.settings == {"a": "theirs"}
        lasting.disk.error = None
        await lasting.elapse(100)

        assert machine.settings == {"a": "right"}
