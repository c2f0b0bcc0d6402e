"""Two resources that undo each other: what is repaired is told with the name of the other, and so is that one flaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_bench import Bench, state
from fake_machine import Machine, Setting
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.execute.rivals import CHANGES, MOMENT, Change, Changes
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.model.events import Ran
from holdfast.agent.insight.history import History
from holdfast.agent.narrate import Narrator
from holdfast.resources.contract import Uid

SOON = 0.01
"""Seconds from a change of one until the watch of another tells."""


class SharedTask(Setting, kind="zsetting.shared"):
    """A setting that is another's, too."""

    def uids(self) -> tuple[Uid, ...]:
        """All of them mean one thing."""
        return (("setting", "shared"),)


class Part(Setting, kind="zsetting.part"):
    """A setting that is a part of the shared one."""

    def touches(self) -> tuple[Uid, ...]:
        """The whole."""
        return (("setting", "shared"),)


class Naming(Setting, kind="zsetting.naming"):
    """A setting whose changes name paths, as those of a directory do."""

    async def check_apply(self, ctx: Any, apply: bool) -> bool:
        """Told as the change of a path."""
        right = await super().check_apply(ctx, apply)
        if not right:
            ctx.report.changes = {"/shared/x": {"mode": "0644"}}
        return right


class Removing(Setting, kind="zsetting.removing"):
    """A setting whose changes tell of a removed tree."""

    async def check_apply(self, ctx: Any, apply: bool) -> bool:
        """Told as the removal of a path."""
        right = await super().check_apply(ctx, apply)
        if not right:
            ctx.report.changes = {"removed": "/shared"}
        return right


class Odd(Setting, kind="zsetting.odd"):
    """A setting whose changes are not those of paths."""

    async def check_apply(self, ctx: Any, apply: bool) -> bool:
        """Told in ways of its own."""
        right = await super().check_apply(ctx, apply)
        if not right:
            ctx.report.changes = {"removed": [{"of": 1}, None], 5: "/shared"}
        return right


class Below(Setting, kind="zsetting.below"):
    """A file below that."""

    def uids(self) -> tuple[Uid, ...]:
        """A path."""
        return (("path", "/shared/x"),)


class Erring(Setting, kind="zsetting.erring"):
    """One that cannot say what it is about."""

    def touches(self) -> tuple[Uid, ...]:
        """A bug."""
        raise ZeroDivisionError


class Asked(Setting, kind="zsetting.asked"):
    """One that counts how often it is asked what it is about."""

    times: ClassVar[Counter[str]] = Counter()

    def touches(self) -> tuple[Uid, ...]:
        """Nothing else."""
        self.times[self.name] += 1
        return ()


async def drift(bench: Bench, machine: Machine, engine: Any, name: str) -> Any:
    """A moment later, have one setting drift, and wait until it is repaired; the outcome."""
    await bench.elapse(SOON)
    machine.drift(name)
    await bench.until(lambda _: machine.settings[name] == "right")
    await engine.settle()
    return engine.view.graph.by_identity[
        next(key for key in engine.view.graph.by_identity if key.endswith(f"[{name}]"))
    ].last.outcome


@asynccontextmanager
async def started(bench: Bench, *kinds: str, **options: Any) -> AsyncIterator[Engine]:
    """Yield an engine that has repaired `a` and `b` some time ago; stop it at the end."""
    states = (state(name, kind) for name, kind in zip("abc", kinds, strict=False))
    async with bench.running(*states, flap_limit=3, flap_window=60, **options) as engine:
        await bench.elapse(10)
        yield engine


async def flapping(bench: Bench, machine: Machine, kinds: tuple[str, str], pause: float) -> list[str]:
    """What the notices say when `a` and `b` drift in turn, with a pause between."""
    async with started(bench, *kinds) as engine:
        for _ in range(4):
            for name in "ab":
                await bench.elapse(pause)
                await drift(bench, machine, engine, name)
    return [notice.text for notice in bench.notices("flapping")]


async def test_who_undoes_it_is_named_when_one_flaps(bench: Bench, machine: Machine) -> None:
    """Each of the two names the other, and what to do."""
    ours, theirs = await flapping(bench, machine, (SharedTask.kind, SharedTask.kind), SOON)

    assert "in 60 s; zsetting.shared[b] undoes it: keep one of the two. From now on" in ours
    assert "in 60 s; zsetting.shared[a] undoes it: keep one of the two. From now on" in theirs


async def test_one_that_repairs_the_same_at_other_times_is_only_suspected(bench: Bench, machine: Machine) -> None:
    """No change of the one came just before a drift of the other."""
    ours, theirs = await flapping(bench, machine, (SharedTask.kind, SharedTask.kind), 2 * MOMENT)

    assert "in 60 s; perhaps zsetting.shared[b] undoes it: keep one. From now on" in ours
    assert "in 60 s; perhaps zsetting.shared[a] undoes it: keep one. From now on" in theirs


async def test_one_that_repairs_something_else_is_not_named(bench: Bench, machine: Machine) -> None:
    """However busy it is: then it is somebody who is not the agent."""
    texts = await flapping(bench, machine, ("zsetting.present", "zsetting.present"), SOON)

    assert len(texts) == 2
    assert all("something undoes it" in text for text in texts)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (SharedTask, SharedTask, True),
        (SharedTask, Part, True),
        (Part, SharedTask, True),
        (Part, Part, False),
        (Naming, Below, True),
        (Below, Naming, True),
        (Removing, Below, True),
        (Below, Removing, False),
        (SharedTask, Setting, False),
        (SharedTask, Erring, False),
        (Odd, Below, False),
    ],
)
async def test_a_repair_names_who_undid_the_one_before(
    bench: Bench, machine: Machine, one: Any, other: Any, meet: bool
) -> None:
    """Perhaps at first, certainly from the second time in a row, if both have something in common; two parts of one thing do not."""
    async with started(bench, one.kind, other.kind) as engine:
        for said in ("perhaps undone by ", "undone by "):
            await bench.elapse(10)
            assert (await drift(bench, machine, engine, "a")).undone == ""
            assert (await drift(bench, machine, engine, "b")).undone == (f"{said}{one.kind}[a]" if meet else "")


async def test_nobody_is_named_for_what_came_long_after_or_before(bench: Bench, machine: Machine) -> None:
    """More than a moment after a change; or when both are noticed at once, so that neither has undone the other."""
    async with started(bench, SharedTask.kind, SharedTask.kind) as engine:
        await drift(bench, machine, engine, "a")
        await bench.elapse(MOMENT + 0.1)
        assert (await drift(bench, machine, engine, "b")).undone == ""

        await bench.elapse(10)
        machine.drift("a")
        machine.drift("b")
        await bench.until(lambda _: machine.settings == {"a": "right", "b": "right"})
        await engine.settle()
        assert [vertex.last.outcome.undone for vertex in engine.view.graph] == ["", ""]


async def test_a_change_before_its_own_last_repair_is_not_what_undid_that(bench: Bench, machine: Machine) -> None:
    """The repair has seen that change already; what came after it is somebody else's."""
    async with started(bench, SharedTask.kind, SharedTask.kind) as engine:
        await drift(bench, machine, engine, "a")
        assert (await drift(bench, machine, engine, "b")).undone
        assert (await drift(bench, machine, engine, "b")).undone == ""


async def test_a_run_that_has_changed_something_and_goes_on_is_named(bench: Bench, machine: Machine) -> None:
    """Its change is seen before it has ended."""
    async with started(bench, SharedTask.kind, SharedTask.kind) as engine:
        machine.hold("apply a")
        machine.drift("a")
        await bench.elapse(SOON)
        assert machine.settings["a"] == "right"
        assert (await drift_beside(bench, machine, engine)).undone == "perhaps undone by zsetting.shared[a]"
        machine.free("apply a")
        await engine.settle()


async def test_what_a_run_before_has_changed_is_not_taken_for_the_present_one(bench: Bench, machine: Machine) -> None:
    """One that has begun to run and has not come to its look yet has changed nothing, whatever it did last."""
    async with started(bench, SharedTask.kind, SharedTask.kind) as engine:
        await drift(bench, machine, engine, "a")
        await bench.elapse(10)
        rivals = engine._parts.rivals
        rivals.begin(engine.view.graph.by_identity["zsetting.shared[a]"])

        assert (await drift(bench, machine, engine, "b")).undone == ""


async def drift_beside(bench: Bench, machine: Machine, engine: Any) -> Any:
    """Have `b` drift while `a` is at work; its outcome."""
    vertex = engine.view.graph.by_identity["zsetting.shared[b]"]
    before = vertex.last.outcome
    machine.drift("b")
    await bench.until(lambda _: vertex.last.outcome is not before)
    return vertex.last.outcome


async def test_log_history_and_why_tell_it(bench: Bench, machine: Machine) -> None:
    """In one line, in the fields of the line, in what is kept, and when an operator asks."""
    async with started(bench, SharedTask.kind, SharedTask.kind) as engine:
        await drift(bench, machine, engine, "a")
        outcome = await drift(bench, machine, engine, "b")

        line = Narrator().tell(Ran(1, outcome))
        assert line is not None
        assert "(drift, perhaps undone by zsetting.shared[a])" in line.text
        assert line.fields["undone"] == "perhaps undone by zsetting.shared[a]"
        history = History()
        history.tell(outcome, 0.0)
        assert history.of("zsetting.shared[b]")[0]["undone"] == outcome.undone
        assert (
            explain(engine.view.graph.by_identity["zsetting.shared[b]"], engine.view)["last"]["undone"]
            == outcome.undone
        )


async def test_a_repair_asks_no_other_resource_what_it_is_about(bench: Bench, machine: Machine) -> None:
    """However many have been changed a moment ago: they are compared by what was known when they were changed."""
    names = [f"n{number}" for number in range(50)]
    async with bench.running(*(state(name, Asked.kind) for name in names)) as engine:
        Asked.times.clear()
        await drift(bench, machine, engine, "n7")

    assert set(Asked.times) == {"n7"}


UIDS = st.frozensets(st.sampled_from([("path", f"/{name}") for name in "abcdef"]), max_size=3)


@given(st.lists(st.tuples(UIDS, UIDS, st.booleans()), max_size=40), UIDS, UIDS)
def test_a_change_is_found_by_what_it_affects(
    drawn: list[tuple[frozenset[Uid], frozenset[Uid], bool]], own: frozenset[Uid], touched: frozenset[Uid]
) -> None:
    """The index yields the same changes, in the same order, as a search through the last ones."""
    changes = [
        Change(f"c{number}", 0.0, float(number), one, other, frozenset({"/r"} if removes else ()))
        for number, (one, other, removes) in enumerate(drawn)
    ]
    unrelated = [Change("x", 0.0, 20.0, frozenset(), frozenset(), frozenset())] * (CHANGES - 20)
    changes[20:20] = unrelated
    recorded = Changes()
    for change in changes:
        recorded.add(change)
    mine = Change("mine", 0.0, 0.0, own, touched, frozenset())

    assert list(dict.fromkeys(recorded.like(mine))) == [
        each for each in reversed(changes[-CHANGES:]) if each.removed or (own | touched) & (each.own | each.touched)
    ]
