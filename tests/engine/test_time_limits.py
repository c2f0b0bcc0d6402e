"""Runs that exceed their timeout."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench, state
from fake_machine import Action, Machine
from holdfast.resources.context import Context
from holdfast.resources.errors import Overdue


class Limited(Action, kind="zlimitedaction.run"):
    """An action with a timeout of its own, as commands have."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Run, then raise as if the timeout were over."""
        self.machine.log.append(f"run {self.name}")
        raise Overdue(f"{self.name} exceeded its timeout of 3 s and was killed")


@pytest.mark.parametrize("kind", ["zaction.run", "zlimitedaction.run"])
@pytest.mark.parametrize(("meta", "runs"), [({}, 1), ({"retry": 2}, 3)], ids=["without retry", "with retry"])
async def test_a_command_that_exceeded_its_timeout_runs_again_only_by_retry(
    bench: Bench, machine: Machine, kind: str, meta: dict[str, Any], runs: int
) -> None:
    """It was killed during its work. Without `retry`, no state asks for another run."""
    machine.hold("apply a")
    async with bench.starting(state("a", kind, meta={"timeout": 3, **meta})) as engine:
        await bench.elapse(3600)

        assert machine.log == ["run a"] * runs
        assert (engine.status()[0]["state"], engine.converged) == ("failed", False)


async def test_a_resource_that_exceeded_its_timeout_is_checked_again(bench: Bench, machine: Machine) -> None:
    """A check does no harm, and the reason for the delay may be gone."""
    machine.hold("a")
    async with bench.starting(state("a", meta={"timeout": 3})) as engine:
        await bench.elapse(60)
        assert machine.log.count("check a") > 3
        machine.free()
        await bench.elapse(120)

        assert machine.settings == {"a": "right"}
        assert engine.converged
