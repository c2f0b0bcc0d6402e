"""If two resources undo each other, the report of a repair, and of flapping, names the other one."""

from __future__ import annotations

import asyncio
import json
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
from holdfast.agent.engine.execute.undoers import CHANGES, MOMENT, ChangeIndex, RecordedChange
from holdfast.agent.engine.inspect.explain import explain
from holdfast.agent.engine.model.events import Ran
from holdfast.agent.narrate import Narrator
from holdfast.agent.records import rows
from holdfast.resources.contract import Uid

SOON = 0.01
"""Seconds from a change of one setting until the watch of another one reports it."""


class SharedTask(Setting, kind="zsetting.shared"):
    """A setting that shares a thing with all others of its kind."""

    def uids(self) -> tuple[Uid, ...]:
        """Return the shared thing."""
        return (("setting", "shared"),)


class Part(Setting, kind="zsetting.part"):
    """A setting that is a part of the shared thing."""

    def touches(self) -> tuple[Uid, ...]:
        """Return the shared thing."""
        return (("setting", "shared"),)


class Naming(Setting, kind="zsetting.naming"):
    """A setting whose changes name paths, like those of a directory."""

    async def check_apply(self, ctx: Any, apply: bool) -> bool:
        """Report the change of a path."""
        right = await super().check_apply(ctx, apply)
        if not right:
            ctx.report.changes = {"/shared/x": {"mode": "0644"}}
        return right


class Removing(Setting, kind="zsetting.removing"):
    """A setting whose changes report a removed tree."""

    async def check_apply(self, ctx: Any, apply: bool) -> bool:
        """Report the removal of a path."""
        right = await super().check_apply(ctx, apply)
        if not right:
            ctx.report.changes = {"removed": "/shared"}
        return right


class Odd(Setting, kind="zsetting.odd"):
    """A setting whose changes have a form of their own."""

    async def check_apply(self, ctx: Any, apply: bool) -> bool:
        """Report a change in a form of its own."""
        right = await super().check_apply(ctx, apply)
        if not right:
            ctx.report.changes = {"removed": [{"of": 1}, None], 5: "/shared"}
        return right


class Below(Setting, kind="zsetting.below"):
    """A file below that path."""

    def uids(self) -> tuple[Uid, ...]:
        """Return a path."""
        return (("path", "/shared/x"),)


class Erring(Setting, kind="zsetting.erring"):
    """A setting with a bug in `touches`."""

    def touches(self) -> tuple[Uid, ...]:
        """Raise an error."""
        raise ZeroDivisionError


class Asked(Setting, kind="zsetting.asked"):
    """A setting that counts the calls of `touches`."""

    times: ClassVar[Counter[str]] = Counter()

    def touches(self) -> tuple[Uid, ...]:
        """Count the call."""
        self.times[self.name] += 1
        return ()


async def drift(bench: Bench, machine: Machine, engine: Any, name: str) -> Any:
    """Make a setting drift after a moment, wait until it is repaired, and return the outcome."""
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
    """Make `a` and `b` drift in turn, with a pause between; return the texts of the notices about flapping."""
    async with started(bench, *kinds) as engine:
        for _ in range(4):
            for name in "ab":
                await bench.elapse(pause)
                await drift(bench, machine, engine, name)
    return [notice.text for notice in bench.notices("flapping")]


async def test_a_notice_about_flapping_names_the_other_resource(bench: Bench, machine: Machine) -> None:
    """Each of the two notices names the other resource and says what to do."""
    ours, theirs = await flapping(bench, machine, (SharedTask.kind, SharedTask.kind), SOON)

    assert "in 60 s; zsetting.shared[b] undoes it: keep one of the two. From now on" in ours
    assert "in 60 s; zsetting.shared[a] undoes it: keep one of the two. From now on" in theirs


async def test_a_resource_that_changes_the_same_at_other_times_is_only_suspected(
    bench: Bench, machine: Machine
) -> None:
    """None of its changes came just before a drift of the other resource."""
    ours, theirs = await flapping(bench, machine, (SharedTask.kind, SharedTask.kind), 2 * MOMENT)

    assert "in 60 s; perhaps zsetting.shared[b] undoes it: keep one. From now on" in ours
    assert "in 60 s; perhaps zsetting.shared[a] undoes it: keep one. From now on" in theirs


async def test_a_resource_that_changes_something_else_is_not_named(bench: Bench, machine: Machine) -> None:
    """The number of its repairs has no effect."""
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
async def test_a_repair_names_the_resource_that_undid_the_previous_one(
    bench: Bench, machine: Machine, one: Any, other: Any, meet: bool
) -> None:
    """The first report is a suspicion, the second a fact, if both resources have something in common.

    Two parts of one thing have not.
    """
    async with started(bench, one.kind, other.kind) as engine:
        for said in ("perhaps undone by ", "undone by "):
            await bench.elapse(10)
            assert (await drift(bench, machine, engine, "a")).undone == ""
            assert (await drift(bench, machine, engine, "b")).undone == (f"{said}{one.kind}[a]" if meet else "")


async def test_no_resource_is_named_for_a_change_long_before_or_for_simultaneous_drift(
    bench: Bench, machine: Machine
) -> None:
    """A change counts for a moment; and resources that drift at the same time have not undone each other."""
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


async def test_a_change_before_the_last_repair_has_not_undone_it(bench: Bench, machine: Machine) -> None:
    """That repair has seen the change already, so something else caused the later drift."""
    async with started(bench, SharedTask.kind, SharedTask.kind) as engine:
        await drift(bench, machine, engine, "a")
        assert (await drift(bench, machine, engine, "b")).undone
        assert (await drift(bench, machine, engine, "b")).undone == ""


async def test_a_run_that_has_changed_something_and_continues_is_named(bench: Bench, machine: Machine) -> None:
    """Its change is visible before its end."""
    async with started(bench, SharedTask.kind, SharedTask.kind) as engine:
        machine.hold("apply a")
        machine.drift("a")
        await bench.elapse(SOON)
        assert machine.settings["a"] == "right"
        assert (await drift_beside(bench, machine, engine)).undone == "perhaps undone by zsetting.shared[a]"
        machine.free("apply a")
        await engine.settle()


async def test_the_current_run_is_not_named_for_changes_of_an_earlier_one(bench: Bench, machine: Machine) -> None:
    """A run that has not reached its check has changed nothing."""
    async with started(bench, SharedTask.kind, SharedTask.kind) as engine:
        await drift(bench, machine, engine, "a")
        await bench.elapse(10)
        undoers = engine._parts.undoers
        undoers.begin(engine.view.graph.by_identity["zsetting.shared[a]"], asyncio.get_running_loop().time())

        assert (await drift(bench, machine, engine, "b")).undone == ""


async def drift_beside(bench: Bench, machine: Machine, engine: Any) -> Any:
    """Make `b` drift while `a` runs; return the outcome of `b`."""
    vertex = engine.view.graph.by_identity["zsetting.shared[b]"]
    before = vertex.last.outcome
    machine.drift("b")
    await bench.until(lambda _: vertex.last.outcome is not before)
    return vertex.last.outcome


async def test_log_history_and_why_name_the_other_resource(bench: Bench, machine: Machine) -> None:
    """The text and the fields of the log line, the history, and `why` contain its name."""
    async with started(bench, SharedTask.kind, SharedTask.kind) as engine:
        await drift(bench, machine, engine, "a")
        outcome = await drift(bench, machine, engine, "b")

        line = Narrator().tell(Ran(1, outcome))
        assert line is not None
        assert "(drift, perhaps undone by zsetting.shared[a])" in line.text
        assert line.fields["undone"] == "perhaps undone by zsetting.shared[a]"
        record = rows.change("host", rows.ChangeEntry("1", outcome, "repaired", 0.0, 0.0, 1, "", "drift"))[0]
        assert json.loads(record.data)["undone"] == outcome.undone
        assert (
            explain(engine.view.graph.by_identity["zsetting.shared[b]"], engine.view)["last"]["undone"]
            == outcome.undone
        )


async def test_a_repair_calls_no_code_of_other_resources(bench: Bench, machine: Machine) -> None:
    """The engine records what a change touches with the change, however many resources have changed."""
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
    """The index yields the same changes, in the same order, as a search through all."""
    changes = [
        RecordedChange(f"c{number}", 0.0, float(number), (*one,), (*other,), ("/r",) if removes else ())
        for number, (one, other, removes) in enumerate(drawn)
    ]
    unrelated = [RecordedChange("x", 0.0, 20.0, (), (), ())] * (CHANGES - 20)
    changes[20:20] = unrelated
    recorded = ChangeIndex()
    for change in changes:
        recorded.add(change)
    mine = RecordedChange("mine", 0.0, 0.0, (*own,), (*touched,), ())

    assert list(dict.fromkeys(recorded.like(mine))) == [
        each for each in reversed(changes[-CHANGES:]) if each.removed or (own | touched) & {*each.own, *each.touched}
    ]
