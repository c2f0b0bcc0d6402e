"""An engine bench on the real host, for one command that notes each of its runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from deadline import DEADLINE
from engine_bench import Bench, State, state
from fake_machine import Machine
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.host.host import LocalHost


class Commands(Bench):
    """A bench whose engine runs real commands on this host, in real time."""

    def __init__(self, tmp: Path) -> None:
        super().__init__(Machine())
        (tmp / "states").mkdir()
        self.host = LocalHost(states=tmp / "states", var_dir=tmp / "var", durable=False)
        self.runs = tmp / "runs"

    def command(self, meta: dict[str, Any] | None = None, **arguments: Any) -> State:
        """Declare the command `x`, which notes each run; `meta` are its guards and other arguments of every state."""
        return state("x", "cmd.run", meta=meta, **{"name": f"echo ran >> {self.runs}", **arguments})

    def engine(self, *, watch: bool = True, **options: Any) -> Engine:
        """Return a new engine on this host; by default there are no regular rechecks."""
        self.journal = Journal(None)
        return Engine(self.host, EngineOptions(**{"recheck": 0, **options}), self.journal, self.emit, watch=watch)

    async def outcome(self, meta: dict[str, Any], **arguments: Any) -> Outcome:
        """Return the outcome of a one-shot run of the command."""
        async with self.starting(self.command(meta, **arguments), watch=False) as engine:
            (outcome,) = (await engine.settle()).outcomes
            return outcome

    def count(self) -> int:
        """Return how often the command has run."""
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0

    async def ran(self, times: int) -> None:
        """Wait until so many runs have been reported."""
        async with asyncio.timeout(DEADLINE):
            await self.until(lambda _: len([each for each in self.outcomes("x") if each.ran]) >= times)
