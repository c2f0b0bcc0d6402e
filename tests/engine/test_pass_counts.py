"""A pass counts its outcomes as they arrive, so its end costs the same for any number of outcomes."""

from __future__ import annotations

from collections import Counter

from engine_bench import Bench, state
from holdfast import Permanent
from holdfast.agent.engine.model.events import PassEnded
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.tally import Tally


def test_a_resource_counts_once() -> None:
    """The last outcome counts; the resource counts as changed if any of its outcomes was a change."""
    tally = Tally()
    tally.add(Outcome("a.b[c]", 0, result=False))
    tally.add(Outcome("a.b[c]", 0, result=True, changes={"x": 1}))
    tally.add(Outcome("a.b[c]", 0, result=True))
    tally.add(Outcome("a.b[d]", 1, result=False, ran=False, reason="requisite_failed"))

    assert (tally.ran, tally.blocked, tally.count("ok"), tally.count("failed"), len(tally.changed)) == (1, 1, 1, 0, 1)
    assert (tally.any_failed, tally.any_changed) == (True, True)


async def test_the_counts_of_a_record_equal_those_of_its_outcomes(bench: Bench) -> None:
    """All counts are equal."""
    bench.machine.broken["b"] = Permanent("no")
    async with bench.starting(state("a"), state("b"), state("c", require=["b"]), state("d")):
        await bench.until(lambda event: isinstance(event, PassEnded))
        (record,) = bench.passes()
        counted, again = record.tally, Tally(record.outcomes)

        assert counted is record.counted
        assert (counted.ran, counted.blocked, counted.changed, +Counter(counted.results)) == (
            again.ran,
            again.blocked,
            again.changed,
            +Counter(again.results),
        )
        assert counted.count("failed") == 1
