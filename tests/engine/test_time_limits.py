"""What becomes of a run that does not end in time."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench, state
from fake_machine import Action, Machine
from holdfast.resources.context import Context
from holdfast.resources.errors import Overdue


class Limited(Action, kind="zlimitedaction.run"):
    """An action with a time limit of its own, as commands have."""

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Do it, and be told that the time is over."""
        self.machine.log.append(f"run {self.name}")
        raise Overdue(f"{self.name} still ran after 3 s and was killed")


@pytest.mark.parametrize("kind", ["zaction.run", "zlimitedaction.run"])
@pytest.mark.parametrize(("meta", "runs"), [({}, 1), ({"retry": 2}, 3)], ids=["without retry", "with retry"])
async def test_a_command_that_ran_out_of_time_is_run_again_only_as_often_as_retry_says(
    bench: Bench, machine: Machine, kind: str, meta: dict[str, Any], runs: int
) -> None:
    """It was killed in the middle of something: running it for ever is nothing that anybody has asked for."""
    machine.hold("apply a")
    async with bench.starting(state("a", kind, meta={"timeout": 3, **meta})) as engine:
        await bench.elapse(3600)

        assert machine.log == ["run a"] * runs
        assert (engine.status()[0]["state"], engine.converged) == ("failed", False)


async def test_a_resource_that_ran_out_of_time_is_looked_at_again(bench: Bench, machine: Machine) -> None:
    """A look does no harm, and what took so long may be over."""
    machine.hold("a")
    async with bench.starting(state("a", meta={"timeout": 3})) as engine:
        await bench.elapse(60)
        assert machine.log.count("check a") > 3
        machine.free()
        await bench.elapse(120)

        assert machine.settings == {"a": "right"}
        assert engine.converged
