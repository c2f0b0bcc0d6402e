"""An exception of a kind, in any method, does not affect other resources."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Hashable, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

import pytest
from pydantic import ValidationError, field_serializer, field_validator

from engine_bench import Bench, compilation, state
from fake_machine import Bundled, Machine, Placed, Setting
from holdfast import Backed, Context, Watch
from holdfast.agent.engine import kinds
from holdfast.resources.meta import Meta
from holdfast.resources.traits import Reactive


def err(*_: Any) -> NoReturn:
    """Raise an error."""
    raise RuntimeError("a mistake")


class Groups(Bundled, kind="zgroups.present"):
    """A kind that raises in `group`."""

    group = err


class Unhashable(Bundled, kind="zunhashable.present"):
    """A kind that returns a group that is no key."""

    def group(self) -> Hashable:
        """Return a list."""
        return [self.bundle]


class Needs(Placed, kind="zneeds.present"):
    """A kind that raises in `dependencies`."""

    dependencies = err


class Offers(Placed, kind="zoffers.present"):
    """A kind that raises in `offers`."""

    offers = err


LEFT: ContextVar[str] = ContextVar("what a run has left behind", default="")


class Leaves(Setting, kind="zleaves.present"):
    """Sets a context variable, and does not restore it. Reports what it found."""

    async def check_apply(self, ctx: Any, apply: bool) -> bool:
        """Check as a setting does."""
        found = LEFT.get()
        LEFT.set(self.name)
        right = await super().check_apply(ctx, apply)
        ctx.report.comment = found
        return right


class Compares(Setting, kind="zcompares.present"):
    """A kind that raises when it is compared."""

    cmp = err


class Acts(Setting, kind="zacts.present"):
    """A kind that raises in `action`."""

    action = err


class Background(Backed, Setting, kind="zbackground.present"):
    """Has a background task that belongs to one resource, which is not allowed."""

    async def background(self) -> Any:  # type: ignore[override] # that is the mistake
        """Return a task that never starts."""
        yield None


class Exits(Setting, kind="zexits.present"):
    """A kind that ends the interpreter when it is checked."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Exit."""
        sys.exit("the check is over")


class ExitsInWatch(Setting, kind="zexits.watched"):
    """A kind that ends the interpreter when it is watched."""

    async def watch(self, ctx: Context) -> Any:
        """Exit."""
        yield None
        sys.exit("the watch is over")


class ExitsInQuestions(Placed, Bundled, kind="zexits.asked"):
    """A kind that ends the interpreter in each question."""

    uids = touches = action = cmp = group = offers = dependencies = lambda *_: sys.exit("asked")


ALL: Sequence[type[Setting]] = (
    Groups, Unhashable, Needs, Offers, Compares, Acts, Background, Exits, ExitsInWatch, ExitsInQuestions,
)  # fmt: skip


@pytest.mark.parametrize("kind", [kind.kind for kind in ALL])
async def test_other_resources_are_maintained(bench: Bench, machine: Machine, kind: str) -> None:
    """Swaps change nothing about that, and no task is left."""
    async with bench.starting() as engine:
        for value in ("one", "two"):
            await engine.swap(compilation(state("a"), state("x", kind, value=value), state("b", value=value)))
            await bench.elapse(5)
            assert (machine.settings["a"], machine.settings["b"]) == ("right", value)
        machine.drift("a")
        await bench.elapse(5)
        assert machine.settings["a"] == "right"
    assert len(asyncio.all_tasks()) == 1


async def test_an_exit_of_a_kind_fails_its_resource_only(bench: Bench) -> None:
    """The agent does not end, and the outcome names what was raised."""
    async with bench.running(state("x", "zexits.present"), state("a")):
        assert bench.outcomes("x")[0].result is False
        assert "SystemExit: the check is over" in bench.outcomes("x")[0].comment
        assert bench.outcomes("a")[0].result is True


async def test_the_absence_of_automatic_edges_is_reported(bench: Bench) -> None:
    """The report has the reason."""
    async with bench.running(state("x", "zneeds.present")):
        (notice,) = bench.notices("edges-unknown")
        assert notice.text.endswith("RuntimeError: a mistake")


class Mute(Placed, Bundled, kind="zmute.present"):
    """A kind that raises in every question."""

    uids = touches = action = cmp = group = offers = dependencies = err


def test_the_answer_of_a_kind_that_raises_is_that_of_a_plain_kind() -> None:
    """The engine asks such questions during swaps and outside of runs, where an exception would stop it."""
    one, other = (Mute.declare("x", value=value) for value in ("one", "two"))

    assert (kinds.uids(one), kinds.touches(one), kinds.offers(one), kinds.dependencies(one)) == ((), (), (), ())
    assert (kinds.action(one), kinds.same(one, other), kinds.same(one, one)) == (False, False, True)
    assert kinds.group(one, Meta()) is None


def test_a_reactive_kind_that_raises_is_watched() -> None:
    """The watch fails with the reason, and the resource counts as not watched."""

    class Deaf(Reactive):
        """Raises when it is asked what it watches."""

        reaction = ()
        reacts = err

    assert kinds.reacts(Deaf())


class Invalid(Setting, kind="zinvalid.present"):
    """Raises in a validator, and when its fields are converted to JSON."""

    @field_validator("value")
    @classmethod
    def _value(cls, value: str) -> str:
        if value == "bad":
            raise KeyError(value)
        return value

    @field_serializer("value")
    def _json(self, value: str) -> str:
        raise RuntimeError(value)


def test_a_validator_that_raises_anything_refuses_the_arguments() -> None:
    """Arguments that were recorded by an earlier version, or that another resource sends, end in one error."""
    with pytest.raises(ValidationError, match=r"a validator of the kind failed: KeyError\('bad'\)"):
        kinds.declare(Invalid, {"name": "x", "value": "bad"})


def test_fields_that_a_kind_cannot_convert_are_still_told_apart() -> None:
    """The digest of an action must change with its declaration."""
    one, other = (kinds.fields(Invalid.declare("x", value=value), without=()) for value in ("one", "two"))

    assert one != other
    assert "value" not in kinds.fields(Invalid.declare("x", value="one"), without={"value"})


async def test_a_context_variable_that_a_run_leaves_behind_is_not_seen_by_the_next(bench: Bench) -> None:
    """The end of one run starts the next one, which still begins with the variables of the engine."""
    async with bench.running(state("a", "zleaves.present"), state("b", "zleaves.present"), workers=1):
        assert [outcome.comment for outcome in bench.outcomes("a") + bench.outcomes("b")] == ["", ""]


class Chatterbox(Setting, kind="zsetting.chatterbox"):
    """A setting whose watch reports events without ever waiting."""

    async def watch(self, ctx: Context) -> Watch:
        """Report events for ever."""
        self.machine.watchers[self.name] = asyncio.Queue()
        while True:
            yield None


async def test_a_watch_that_never_waits_does_not_stop_the_agent(bench: Bench, machine: Machine) -> None:
    """Other resources are repaired, its own resource is checked at a bounded rate, and the agent stops."""
    async with bench.starting(state("loud", "zsetting.chatterbox"), state("b")):
        await bench.elapse(1)
        bench.forget()
        machine.drift("b")
        await bench.elapse(1)

        assert machine.settings["b"] == "right"
        assert 0 < machine.log.count("check loud") <= 1100
