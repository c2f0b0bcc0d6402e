"""An engine with remote resources, whose plugins are in the process of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from deadline import DEADLINE
from engine_bench import at_once
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Ran
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.host.host import LocalHost
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Compilation, CompilerInputs
from remote_bench import LocalPlugin


class RemoteHost(LocalHost):
    """A host with the plugin of the test."""

    used: LocalPlugin

    def plugin(self, package: str) -> Any:
        """Return the plugin."""
        return self.used


class RemoteEngine:
    """An engine with states of one file."""

    def __init__(self, directory: Path, plugin: LocalPlugin) -> None:
        self.directory, self.plugin = directory, plugin
        (directory / "states").mkdir(mode=0o755)
        directory.chmod(0o755)
        self.outcomes: list[Outcome] = []
        self._told = asyncio.Event()
        self.engine: Engine

    def compiled(self, text: str) -> Compilation:
        """Compile the states."""
        (self.directory / "states/a.sls").write_text(text)
        return Compiler().compile(CompilerInputs(self.directory / "states"))

    def emit(self, event: Any) -> None:
        """Take an event of the engine."""
        if isinstance(event, Ran):
            self.outcomes.append(event.outcome)
            self._told.set()

    @asynccontextmanager
    async def running(self, text: str, **options: Any) -> AsyncIterator[Engine]:
        """Run the states until the end of the block."""
        host = RemoteHost(states=self.directory / "states", var_dir=self.directory / "var")
        host.used = self.plugin
        journal = Journal(None, durable=False, blocking=at_once)
        async with host, asyncio.timeout(DEADLINE):
            self.engine = Engine(host, EngineOptions(**{"recheck": 0, **options}), journal, self.emit)
            try:
                await self.engine.swap(self.compiled(text), "start")
                await self.engine.settle()
                yield self.engine
            finally:
                await self.engine.stop()
                journal.close()

    async def until(self, wanted: Callable[[Outcome], bool]) -> Outcome:
        """Return the first outcome for which the condition holds."""
        while not (found := [each for each in self.outcomes if wanted(each)]):
            self._told.clear()
            await self._told.wait()
        return found[0]

    def of(self, identity: str) -> Outcome:
        """Return the last outcome of a resource."""
        return [each for each in self.outcomes if each.identity == identity][-1]
