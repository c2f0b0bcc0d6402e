"""A pending refresh survives whatever happens to the agent: restart, kill, swap."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.deliver.journal import Journal


@pytest.fixture
def disk(machine: Machine, tmp_path: Path) -> Bench:
    """Return a bench whose journal is a file."""
    return Bench(machine, tmp_path / "journal.sqlite")


STATES = state("conf"), state("svc", watch=["conf"])


async def test_a_failed_refresh_is_delivered_after_a_restart(disk: Bench) -> None:
    """It is delivered once, and not again after the next restart."""
    disk.machine.settings["svc"] = "right"
    disk.machine.broken["refresh svc"] = Permanent("cannot restart")
    async with disk.starting(*STATES) as engine:
        await engine.settle()
    disk.machine.broken.clear()
    for expected in (1, 0):
        disk.forget()
        async with disk.running(*STATES):
            assert disk.machine.log.count("refresh svc") == expected


async def test_a_kill_between_change_and_record_does_not_lose_the_change(disk: Bench) -> None:
    """The intent is in the journal and counts as a change."""
    async with disk.running(*STATES):
        gate = disk.machine.gates["apply conf"] = asyncio.Event()
        disk.machine.drift("conf")
        await disk.elapse(1)
        assert disk.machine.settings["conf"] == "right"  # the repair itself was made, and then the agent was killed
        disk.forget()
        after = disk.engine()
        disk.machine.gates.clear()
        await after.swap(compilation(*STATES), "start")
        await after.settle()

        assert disk.machine.log == ["check conf", "check svc", "refresh svc"]
        gate.set()
    await after.stop()


async def test_a_refresh_survives_a_swap_that_keeps_both_ends(disk: Bench) -> None:
    """Both are paired by identity, although the declaration of the listener has changed."""
    disk.machine.broken["refresh svc"] = Permanent("cannot restart")
    disk.machine.settings["svc"] = "right"
    async with disk.running(*STATES) as engine:
        disk.machine.broken.clear()
        disk.machine.settings["svc"] = "other"
        await engine.swap(compilation(state("conf"), state("svc", watch=["conf"], value="other")))
        await engine.settle()

        assert "refresh svc" in disk.machine.log


async def test_a_new_edge_delivers_no_earlier_changes(disk: Bench) -> None:
    """Changes before its declaration do not refresh."""
    async with disk.running(*STATES) as engine:
        disk.machine.settings["late"] = "right"
        disk.forget()
        await engine.swap(compilation(*STATES, state("late", watch=["conf"])))
        await engine.settle()

        assert disk.machine.log == ["check late"]


async def test_an_action_is_remembered_across_restarts_and_forgotten_when_it_leaves(disk: Bench) -> None:
    """If it is declared again, it is new."""
    for states, expected in (
        ((state("hook", "zaction.run"),), 1),
        ((state("hook", "zaction.run"),), 0),
        ((), 0),
        ((state("hook", "zaction.run"),), 1),
    ):
        disk.forget()
        async with disk.running(*states):
            assert disk.machine.log.count("run hook") == expected


def test_a_remaining_intent_counts_as_a_change(tmp_path: Path) -> None:
    """White box: a kill leaves it in the file."""
    edge = ("a", "b", "watch")
    first = Journal(tmp_path / "j")
    first.adopt([edge], {"a": "a", "b": "b"})
    first.intend("a", [edge])
    first.close()
    second = Journal(tmp_path / "j")
    second.adopt([edge], {"a": "a", "b": "b"})

    assert second.interrupted == ("a",)
    assert second.pending(edge)
    second.deliver([(edge, second.count(edge))])
    second.close()
    third = Journal(tmp_path / "j")
    assert not third.pending(edge)
    third.close()


async def test_a_lasting_failure_is_reported_once_across_restarts(disk: Bench) -> None:
    """After a success, a failure is a new one."""
    states = state("conf"), state("alarm", "zaction.run", onfail=["conf"])
    disk.machine.broken["conf"] = Permanent("no")
    for expected in (1, 1):
        async with disk.running(*states):
            assert disk.machine.log.count("run alarm") == expected
        disk.journal.close()
    disk.machine.broken.clear()
    async with disk.running(*states):
        disk.machine.broken["conf"] = Permanent("no")
        disk.machine.drift("conf")
        await disk.elapse(1)

        assert disk.machine.log.count("run alarm") == 2
