"""In random graphs, order holds and everything settles."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from engine_bench import Bench, compilation, state
from extent import CI
from fake_machine import Action, Machine, Setting
from holdfast import Permanent
from holdfast.agent.engine.model.events import PassRecord, Ran
from virtual_time import simulate

EXAMPLES = 400 if CI else 100
KINDS = ("require", "require_any", "watch", "onchanges", "onfail", "listen", "prereq")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple], set[str], set[str]]:
    """Generate states, the names of those that fail, and of those that are as declared."""
    size = draw(st.integers(1, 12))
    names = [f"s{i}" for i in range(size)]
    states = []
    earliest = list(range(size))  # a compiler orders the needs of a prereq's target before that prereq
    for i, name in enumerate(names):
        action = draw(st.integers(0, 4)) == 0
        requisites: dict[str, list[str]] = {}
        for target in range(size):
            kind = draw(st.sampled_from((*KINDS, None, None, None, None)))
            backwards = kind == "prereq"
            if kind and target != i and (target > i if backwards else target < earliest[i] or kind == "listen"):
                if backwards:
                    earliest[target] = min(earliest[target], i)
                requisites.setdefault(kind, []).append(names[target])
        if action:
            requisites.pop("listen", None)  # an action has nothing to refresh: that is another error
        meta = {"parallel": True} if draw(st.integers(0, 4)) == 0 else {}
        states.append(state(name, "zaction.run" if action else "zsetting.present", meta=meta, **requisites))
    return states, draw(st.sets(st.sampled_from(names))), draw(st.sets(st.sampled_from(names)))


def machine_for(broken: set[str], right: set[str]) -> Machine:
    """Return a machine with these settings as declared and these broken."""
    machine = Machine(settings=dict.fromkeys(right, "right"), broken={name: Permanent("no") for name in broken})
    Setting.machine = Action.machine = machine
    return machine


def rows(record: PassRecord) -> list[tuple]:
    """Return the parts of a record that must be the same in each run."""
    return [(o.identity, o.result, o.reason, o.because, o.changes, o.listener) for o in record.outcomes]


@settings(max_examples=EXAMPLES, deadline=None)
@given(graphs())
def test_every_call_has_one_outcome_and_the_same_input_gives_the_same_order(graph: tuple) -> None:
    """A one-shot run has one more outcome for each listener that is refreshed. No order depends on chance."""
    states, broken, right = graph
    seen = []
    for _ in range(2):
        bench = Bench(machine_for(broken, right))

        async def scenario(bench: Bench = bench) -> None:
            engine = bench.engine(watch=False, workers=3)
            await engine.swap(compilation(*states), "start")
            seen.append(rows(await engine.settle()))

        simulate(scenario)
    plain = [row[0] for row in seen[0] if not row[5]]

    assert seen[0] == seen[1]
    assert sorted(plain) == sorted(call.identity for call in compilation(*states).calls)


@settings(max_examples=EXAMPLES, deadline=None)
@given(graphs())
def test_noop_never_changes_the_machine(graph: tuple) -> None:
    """The machine is unchanged for any requisites."""
    states, broken, right = graph
    machine = machine_for(broken, right)
    before = dict(machine.settings)

    async def scenario() -> None:
        engine = Bench(machine).engine(watch=False, noop=True)
        await engine.swap(compilation(*states), "start")
        await engine.settle()

    simulate(scenario)

    assert machine.settings == before
    assert not [line for line in machine.log if line.startswith(("apply", "run ", "refresh "))]


@given(graphs(), st.lists(st.integers(0, 11), min_size=1, max_size=8))
def test_drift_in_any_order_settles_with_upstreams_before_downstreams(graph: tuple, drifts: list[int]) -> None:
    """In the agent, no vertex is checked while one above it is unsettled. In the end nothing is dirty."""
    states, _, right = graph
    machine = machine_for(set(), right)
    bench = Bench(machine)

    async def scenario() -> None:
        async with bench.running(*states, workers=3, flap_limit=1000) as engine:
            for index in drifts:
                name = f"s{index % len(states)}"
                if name in machine.watchers:
                    machine.drift(name)
                if index % 2:
                    await asyncio.sleep(0)
            await bench.elapse()
            record = await engine.settle()
            calls = compilation(*states).calls
            ran = [event.outcome for event in bench.events if isinstance(event, Ran)]

            assert not [row for row in engine.status() if row["dirty"] or row["running"]]
            assert record.converged
            for call in calls:
                last = [o for o in ran if o.identity == call.identity and not o.listener][-1]
                if call.kind == "zsetting.present" and last.ran:
                    assert machine.settings.get(call.low["name"]) == "right"

    simulate(scenario)
