"""Kinds whose own code is wrong: whatever they raise, and wherever they are asked, all others are kept right."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import Any, NoReturn

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Bundled, Machine, Placed, Setting
from holdfast import Backed


def err(*_: Any) -> NoReturn:
    """What they do."""
    raise RuntimeError("a mistake")


class Groups(Bundled, kind="zgroups.present"):
    """Cannot say with whom it goes."""

    group = err


class Unhashable(Bundled, kind="zunhashable.present"):
    """Says it with what is no key."""

    def group(self) -> Hashable:
        """A list."""
        return [self.bundle]


class Needs(Placed, kind="zneeds.present"):
    """Cannot say what it needs."""

    dependencies = err


class Offers(Placed, kind="zoffers.present"):
    """Cannot say what it offers."""

    offers = err


class Compares(Setting, kind="zcompares.present"):
    """Cannot say whether it is the same."""

    cmp = err


class Acts(Setting, kind="zacts.present"):
    """Cannot say whether it is an action."""

    action = err


class Background(Backed, Setting, kind="zbackground.present"):
    """Has a background task that belongs to one resource, as no such task may."""

    async def background(self) -> Any:  # type: ignore[override] # that is the mistake
        """Never begun."""
        yield None


ALL: Sequence[type[Setting]] = (Groups, Unhashable, Needs, Offers, Compares, Acts, Background)


@pytest.mark.parametrize("kind", [kind.kind for kind in ALL])
async def test_the_others_are_kept_right(bench: Bench, machine: Machine, kind: str) -> None:
    """Through swaps, and nothing of it is left behind."""
    engine = bench.engine()
    for value in ("one", "two"):
        await engine.swap(compilation(state("a"), state("x", kind, value=value), state("b", value=value)))
        await bench.elapse(5)
        assert (machine.settings["a"], machine.settings["b"]) == ("right", value)
    machine.drift("a")
    await bench.elapse(5)
    assert machine.settings["a"] == "right"
    await engine.stop()
    assert len(asyncio.all_tasks()) == 1


async def test_that_there_are_no_automatic_edges_is_said(bench: Bench) -> None:
    """And why."""
    async with bench.running(state("x", "zneeds.present")):
        (notice,) = bench.notices("edges-unknown")
        assert notice.text.endswith("RuntimeError: a mistake")
