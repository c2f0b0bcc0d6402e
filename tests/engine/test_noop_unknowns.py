"""In noop, a check that fails because another resource has not been changed yet is unknown, not failed."""

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
async def test_a_failed_check_is_unknown_if_a_dependency_would_change(
    bench: Bench, machine: Machine, error: Exception, result: bool | None
) -> None:
    """The missing change may be the reason. Failures that are certain, and temporary ones, stay failures."""
    machine.broken["look b"] = error
    async with bench.running(state("a"), state("b", require=["a"]), watch=False, noop=True):
        (outcome,) = bench.outcomes("b")
        assert outcome.result is result
        assert not outcome.changes
        assert machine.settings == {}
        if result is None:
            assert outcome.comment.startswith("unknown until zsetting.present[a] has run (")


async def test_dependents_of_an_unknown_outcome_are_unknown(bench: Bench, machine: Machine) -> None:
    """The outcome is unknown through any number of requisites."""
    machine.broken["look b"] = machine.broken["look c"] = Permanent("no")
    async with bench.running(state("a"), state("b", require=["a"]), state("c", require=["b"]), watch=False, noop=True):
        assert [bench.outcomes(name)[0].result for name in "abc"] == [None, None, None]


async def test_a_failed_check_without_changed_dependencies_is_a_failure(bench: Bench, machine: Machine) -> None:
    """Nothing before it would change, so it will fail without noop, too."""
    machine.settings["a"] = "right"
    machine.broken["look b"] = Permanent("no")
    async with bench.running(state("a"), state("b", require=["a"]), watch=False, noop=True):
        assert bench.outcomes("b")[0].result is False


async def test_without_noop_a_failed_check_is_a_failure(bench: Bench, machine: Machine) -> None:
    """Its dependencies have been changed by then."""
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
async def test_changes_in_noop_refresh_no_state_outside_noop(bench: Bench, machine: Machine, neighbour: tuple) -> None:
    """A service whose file is in noop is not restarted at each check."""
    machine.settings["b"] = "right"
    async with bench.running(state("a", meta={"noop": True}), neighbour) as engine:
        engine.recheck()
        await engine.settle()

        assert bench.outcomes("a")[-1].result is None
        assert not [entry for entry in machine.log if entry.startswith(("refresh", "run", "apply"))]


@pytest.mark.parametrize("own", [None, True])
async def test_a_prereq_runs_only_for_a_target_outside_noop(bench: Bench, machine: Machine, own: bool | None) -> None:
    """A prereq in noop reports what it would do, through any number of prereqs."""
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
