"""What an engine keeps of outcomes: a daemon that repairs for months must not keep all that was printed and compared."""

from __future__ import annotations

import pytest

from engine_bench import Bench, state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.schedule.definition_order import Heap
from holdfast.agent.engine.schedule.passes import KEPT


@pytest.mark.parametrize("watch", [True, False], ids=["daemon", "one-shot"])
async def test_a_daemon_tells_changes_in_full_and_keeps_only_that_there_were_some(bench: Bench, *, watch: bool) -> None:
    """A run of megabytes is megabytes in the log at most, however many resources there are; a one-shot run reports them at its end."""
    async with bench.starting(state("a", value="x" * 1000), watch=watch) as engine:
        record = await engine.settle()

        (told,) = bench.outcomes("a")
        (vertex,) = engine.view.present
        assert "x" * 1000 in str(told.changes)
        kept = [record.outcomes[0], vertex.last.outcome, vertex.last.change]
        assert all(outcome is not None and outcome.changed for outcome in kept)
        assert [("x" * 1000 in str(outcome)) for outcome in kept] == [not watch] * 3


@pytest.mark.parametrize("resting", [False, True], ids=["alone", "while another rests"])
async def test_the_scheduler_keeps_nothing_of_drifts_that_are_over(
    bench: Bench, machine: Machine, *, resting: bool
) -> None:
    """White box: after thousands of them its heaps have no more entries than after a few, also below one that is not settled for hours."""
    if resting:
        machine.broken["a"] = Permanent("no")
    async with bench.starting(
        state("a", meta={"retry": {"attempts": 9, "interval": 36_000}}), state("b"), flap_limit=100_000
    ) as engine:
        await bench.elapse(1)
        for _ in range(2000):
            machine.drift("b")
            await bench.elapse(0.01)

        assert machine.settings["b"] == "right"
        scheduler = engine._scheduler
        assert sum(len(heap) for heap in vars(scheduler).values() if isinstance(heap, Heap)) < 200


async def test_resources_without_a_prereq_or_receivers_keep_no_sets_of_their_own(bench: Bench) -> None:
    """An empty set takes up 216 bytes, and most of thousands of resources have neither: they share one empty collection."""
    async with bench.running(state("a"), state("b")) as engine:
        one, other = engine.view.present
        assert one.last.satisfied_prereqs is other.last.satisfied_prereqs
        assert one.ctx.report.wanted is other.ctx.report.wanted


async def test_a_pass_that_is_over_is_kept_once(bench: Bench) -> None:
    """White box: its record has the outcomes; what only sorted them while it ran is gone, for it grows with the resources."""
    async with bench.starting(state("a"), state("b")) as engine:
        record = await engine.settle()

        assert len(record.outcomes) == 2
        assert not engine._passes._outcomes


@pytest.mark.parametrize("watch", [True, False], ids=["daemon", "one-shot"])
async def test_the_record_of_a_long_pass_is_counted_whole_and_keeps_the_last_outcomes(
    bench: Bench, *, watch: bool
) -> None:
    """In a daemon, which has told all of them: to forget fifty thousand at once would hold it up. A one-shot run reports them at its end."""
    names, more = [f"s{number:04}" for number in range(KEPT + 50)], 50 if watch else 0
    async with bench.starting(*map(state, names), watch=watch) as engine:
        record = await engine.settle()

        assert [outcome.identity for outcome in record.outcomes] == [
            f"zsetting.present[{name}]" for name in names[more:]
        ]
        assert (record.tally.total, record.tally.count("changed")) == (len(names), len(names))
