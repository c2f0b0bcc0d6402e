"""An engine on the real host, for one command that notes each of its runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from engine_bench import KINDS, Bench, Machine, compilation, state
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Outcome
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.states.data import Compilation


class Commands(Bench):
    """A bench whose engine runs real commands on this host."""

    def __init__(self, tmp: Path) -> None:
        super().__init__(Machine())
        KINDS["cmd.run"] = registry.find("cmd.run")
        (tmp / "states").mkdir()
        self.host = LocalHost(states=tmp / "states", var_dir=tmp / "var", durable=False)
        self.runs = tmp / "runs"

    def declared(self, meta: dict[str, Any], **options: Any) -> Compilation:
        """The states: this one command."""
        arguments = {"name": f"echo ran >> {self.runs}", **options}
        compiled = compilation(state("x", "cmd.run", meta=meta, **arguments))
        compiled.calls[0].low.update(arguments)
        return compiled

    async def started(self, meta: dict[str, Any], *, watch: bool = False, **options: Any) -> Engine:
        """An engine that looks at the command."""
        engine = Engine(
            self.host, EngineOptions(recheck=0, converged_timeout=0), Journal(None), self._emit, watch=watch
        )
        await engine.swap(self.declared(meta, **options))
        return engine

    async def outcome(self, meta: dict[str, Any], **options: Any) -> Outcome:
        """How one run comes out."""
        engine = await self.started(meta, **options)
        (outcome,) = (await engine.settle()).outcomes
        await engine.stop()
        return outcome

    def count(self) -> int:
        """How often the command ran."""
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0

    async def ran(self, times: int) -> None:
        """Wait until the command has run so often."""
        async with asyncio.timeout(20):
            await self.until(lambda _: len([each for each in self.outcomes("x") if each.ran]) >= times)
