"""An agent that repairs for months does not keep all outcomes in memory."""

from __future__ import annotations

import pytest

from engine_bench import Bench, state
from fake_machine import Machine
from holdfast import Permanent
from holdfast.agent.engine.model.outcome import LastChange, Outcome
from holdfast.agent.engine.schedule.definition_order import Heap
from holdfast.agent.engine.schedule.passes import KEPT


@pytest.mark.parametrize("watch", [True, False], ids=["daemon", "one-shot"])
async def test_an_agent_reports_changes_in_full_and_keeps_only_their_existence(bench: Bench, *, watch: bool) -> None:
    """Megabytes of output exist at most in the log, for any number of resources.

    A one-shot run reports them at its end.
    """
    async with bench.starting(state("a", value="x" * 1000), watch=watch) as engine:
        record = await engine.settle()

        (told,) = bench.outcomes("a")
        (vertex,) = engine.view.present
        assert "x" * 1000 in str(told.changes)
        kept = [record.outcomes[0], vertex.last.outcome]
        assert all(outcome is not None and outcome.changed for outcome in kept)
        assert [("x" * 1000 in str(outcome)) for outcome in kept] == [not watch] * 2
        assert vertex.last.change is not None
        assert "x" * 1000 not in str(vertex.last.change)
        assert engine.status()[0]["last_change"]["comment"] == told.comment != ""


def test_last_changes_that_differ_only_in_the_id_share_one_text() -> None:
    """The returned comment equals the original one."""
    outcomes = [
        Outcome(f"file.managed[/{name}]", 1, result=True, comment=f"created /{name}, /{name}~ is the old one")
        for name in ("a", "b[0]")
    ]
    a, b = (LastChange.of(outcome) for outcome in outcomes)
    assert a.pattern is b.pattern
    assert [LastChange.of(outcome).comment(outcome.identity) for outcome in outcomes] == [
        outcome.comment for outcome in outcomes
    ]


def test_the_usual_comment_is_not_kept_but_told() -> None:
    """The comment says only that the resource is as declared, so the outline omits it, and `said` returns it."""
    usual = Outcome("file.managed[/a[0]]", 1, result=True, comment="/a[0] is as declared")
    assert usual.outline().comment == ""
    assert usual.outline().said == usual.said == usual.comment


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("file.managed[/a]", 1, result=True, comment="/b is as declared"),
        Outcome("file.managed[/a]", 1, result=False, comment="/a is as declared"),
        Outcome("file.managed[/a]", 1, result=True, comment="/a is as declared", ran=False),
        Outcome("file.managed[/a]", 1, result=True, ran=False),
        Outcome("file.managed[/a]", 1, result=None, undecided=True),
    ],
)
def test_another_comment_is_kept_as_it_is(outcome: Outcome) -> None:
    """An empty comment stays empty, unless the resource was found as declared."""
    assert outcome.outline().comment == outcome.outline().said == outcome.comment


@pytest.mark.parametrize("identity", ["cmd.run[]", "cmd.run[x]"])
def test_the_comment_of_a_last_change_has_no_nul_character(identity: str) -> None:
    r"""The stored text has `\0` in place of the ID."""
    change = LastChange.of(Outcome(identity, 1, result=True, comment="has \0run"))
    assert change.comment(identity) == "has run"


@pytest.mark.parametrize("resting", [False, True], ids=["alone", "while another rests"])
async def test_the_scheduler_does_not_grow_with_past_drift(bench: Bench, machine: Machine, *, resting: bool) -> None:
    """White box: after thousands of repairs its heaps are as small as after a few.

    The same holds below a vertex that is unsettled for hours.
    """
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
        objects = [*vars(scheduler).values(), *vars(scheduler._blockers).values()]
    assert sum(len(heap) for heap in objects if isinstance(heap, Heap)) < 200


async def test_a_graph_that_starts_has_one_item_for_each_resource_in_all_heaps(bench: Bench, machine: Machine) -> None:
    """White box: at the start every resource is in all heaps of unsettled resources, so there are as many items."""
    machine.broken["a"] = Permanent("no")
    async with bench.starting(*(state(name, meta={"retry": {"attempts": 9}}) for name in "abc")) as engine:
        scheduler = engine._scheduler
        heaps = [scheduler._bound, scheduler._order._unsettled, scheduler._blockers._lowest]
        items = {id(item) for heap in heaps for item in heap}
        assert [len(heap) for heap in heaps] == [3, 3, 3]
        assert len(items) == 3


async def test_resources_without_prereq_or_receivers_share_an_empty_collection(bench: Bench) -> None:
    """An empty set takes 216 bytes, and most of thousands of resources would have two."""
    async with bench.running(state("a"), state("b")) as engine:
        one, other = engine.view.present
        assert one.last.satisfied_prereqs is other.last.satisfied_prereqs
        assert one.ctx.assignment.wanted is other.ctx.assignment.wanted


async def test_a_pass_keeps_its_outcomes_once(bench: Bench) -> None:
    """White box: the record has them; helper structures, which grow with the graph, are gone."""
    async with bench.starting(state("a"), state("b")) as engine:
        record = await engine.settle()

        assert len(record.outcomes) == 2
        assert not engine._passes._outcomes


@pytest.mark.parametrize("watch", [True, False], ids=["daemon", "one-shot"])
async def test_the_record_of_a_long_pass_counts_all_and_keeps_the_last_outcomes(bench: Bench, *, watch: bool) -> None:
    """The agent has reported all of them. Freeing fifty thousand at once would delay it.

    A one-shot run reports them at its end.
    """
    names, more = [f"s{number:04}" for number in range(KEPT + 50)], 50 if watch else 0
    async with bench.starting(*map(state, names), watch=watch) as engine:
        record = await engine.settle()

        assert [outcome.identity for outcome in record.outcomes] == [
            f"zsetting.present[{name}]" for name in names[more:]
        ]
        assert (record.tally.total, record.tally.count("changed")) == (len(names), len(names))
