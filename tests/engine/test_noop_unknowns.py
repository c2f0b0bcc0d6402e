"""Noop: what cannot be looked at before something else is really changed is unknown, not wrong."""

from __future__ import annotations

import pytest

from engine_bench import Bench, state
from fake_machine import Machine
from holdfast import Permanent, Temporary
from holdfast.resources.errors import Final


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (Permanent("no such user"), None),
        (PermissionError(13, "Permission denied", "/x"), None),
        (Final("told to fail"), False),
        (Temporary("busy"), False),
    ],
)
async def test_a_look_that_fails_below_something_that_would_change_is_unknown(
    bench: Bench, machine: Machine, error: Exception, result: bool | None
) -> None:
    """Whatever may be for want of it; not what fails in any case, or only for now."""
    machine.broken["look b"] = error
    async with bench.running(state("a"), state("b", require=["a"]), watch=False, noop=True):
        (outcome,) = bench.outcomes("b")
        assert outcome.result is result
        assert not outcome.changes
        assert machine.settings == {}
        if result is None:
            assert outcome.comment.startswith("unknown until zsetting.present[a] has run (")


async def test_what_builds_on_the_unknown_is_unknown_too(bench: Bench, machine: Machine) -> None:
    """However far it reaches."""
    machine.broken["look b"] = machine.broken["look c"] = Permanent("no")
    async with bench.running(state("a"), state("b", require=["a"]), state("c", require=["b"]), watch=False, noop=True):
        assert [bench.outcomes(name)[0].result for name in "abc"] == [None, None, None]


async def test_a_look_that_fails_by_itself_has_failed(bench: Bench, machine: Machine) -> None:
    """Nothing before it would be changed: it will fail for real, too."""
    machine.settings["a"] = "right"
    machine.broken["look b"] = Permanent("no")
    async with bench.running(state("a"), state("b", require=["a"]), watch=False, noop=True):
        assert bench.outcomes("b")[0].result is False


async def test_for_real_a_failure_is_one(bench: Bench, machine: Machine) -> None:
    """What it needs has been changed by then."""
    machine.broken["look b"] = Permanent("no")
    async with bench.running(state("a"), state("b", require=["a"]), watch=False):
        assert bench.outcomes("b")[0].result is False


NEIGHBOURS = {
    "watch": state("b", watch=["a"]),
    "listen": state("b", listen=["a"]),
    "onchanges": state("b", "zaction.run", onchanges=["a"]),
    "onfail": state("b", "zaction.run", onfail=["a"]),
}


@pytest.mark.parametrize("neighbour", NEIGHBOURS.values(), ids=NEIGHBOURS)
async def test_what_one_state_would_change_moves_no_other_that_really_acts(
    bench: Bench, machine: Machine, neighbour: tuple
) -> None:
    """Or a service whose file is in noop would be restarted at each look at all."""
    machine.settings["b"] = "right"
    async with bench.running(state("a", meta={"noop": True}), neighbour) as engine:
        engine.recheck()
        await engine.settle()

        assert bench.outcomes("a")[-1].result is None
        assert not [entry for entry in machine.log if entry.startswith(("refresh", "run", "apply"))]


@pytest.mark.parametrize("own", [None, True])
async def test_a_prereq_acts_only_for_what_is_really_changed(bench: Bench, machine: Machine, own: bool | None) -> None:
    """One that only looks itself says what it would do; through any number of prereqs."""
    states = (
        state("a", "zaction.run", prereq=["b"], meta={"noop": own}),
        state("b", "zaction.run", prereq=["c"], meta={"noop": own}),
        state("c", meta={"noop": True}),
    )
    async with bench.running(*states):
        assert machine.log.count("run a") == machine.log.count("run b") == 0
        assert [bench.outcomes(name)[-1].result for name in "abc"] == (
            [True, True, None] if own is None else [None, None, None]
        )
