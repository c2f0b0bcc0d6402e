"""Remote resources in the engine: watched, attributed, sent, planned and reversed like all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deadline import DEADLINE
from engine_bench import at_once
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Outcome, Ran
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.host.host import LocalHost
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Compilation, CompilerInputs
from holdfast.states.errors import CompileError
from remote_bench import NotesPlugin

NOTE = "the note:\n  notes.note:\n    - name: web\n    - owner: me\n    - lines: [{text: hello}]\n"


class NotesHost(LocalHost):
    """The machine, with the plugin of the test."""

    notes: NotesPlugin

    def plugin(self, package: str) -> Any:
        """Return the plugin."""
        return self.notes


class Agent:
    """An engine with states of one file."""

    def __init__(self, directory: Path, notes: NotesPlugin) -> None:
        self.directory, self.notes = directory, notes
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
        host = NotesHost(states=self.directory / "states", var_dir=self.directory / "var")
        host.notes = self.notes
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
        """Return the first outcome that is wanted."""
        while not (found := [each for each in self.outcomes if wanted(each)]):
            self._told.clear()
            await self._told.wait()
        return found[0]

    def of(self, identity: str) -> Outcome:
        """Return the last outcome of a resource."""
        return [each for each in self.outcomes if each.identity == identity][-1]


@pytest.fixture
def agent(note: Any, notes: NotesPlugin, tmp_path: Path) -> Agent:
    """An engine."""
    return Agent(tmp_path, notes)


async def test_an_event_of_the_plugin_leads_to_a_repair_that_is_attributed_as_drift(agent, tmp_path):
    """The plugin reports the identifier; nothing polls."""
    async with agent.running(NOTE):
        agent.outcomes.clear()
        (tmp_path / "notes/web").write_text('["me", ["other"]]')
        agent.notes.events.put_nowait("web")
        repaired = await agent.until(lambda each: bool(each.changes))

    assert repaired.identity == "notes.note[the note]"
    assert repaired.cause == "drift"
    assert repaired.comment == "changed lines of note web"
    assert (tmp_path / "notes/web").read_text() == '["me", ["hello"]]'


async def test_an_identifier_is_received_by_another_state(agent, tmp_path):
    """The sender runs first; in noop the value is unknown, and the plan says so."""
    receiver = f"{tmp_path}/id:\n  file.managed:\n    - recv: {{contents: {{notes: the note, key: id}}}}\n"
    async with agent.running(NOTE + receiver, noop=True):
        planned = agent.of(f"file.managed[{tmp_path}/id]")
    async with agent.running(NOTE + receiver):
        pass

    assert planned.result is None
    assert planned.comment == "unknown until notes.note[the note] has run and sent id"
    assert (tmp_path / "id").read_text() == "web\n"


async def test_arguments_that_the_provider_refuses_are_reported_with_their_lines(agent, tmp_path):
    """As the compiler reports others."""
    async with agent.running(NOTE.replace("owner: me", "owner: nobody")):
        failed = agent.of("notes.note[the note]")

    assert failed.result is False
    assert failed.comment == f"owner: nobody may own a note ({tmp_path}/states/a.sls:4:7)"


@pytest.mark.parametrize(("reverse", "left"), [("", True), ("    - reverse: true\n", False)])
async def test_a_state_that_is_removed_deletes_nothing_unless_it_is_reversed(agent, tmp_path, reverse, left):
    """With `reverse` the agent restores that there was no note, and forgets it."""
    async with agent.running(NOTE + reverse) as engine:
        await engine.swap(agent.compiled("other:\n  test.nop: []\n"))
        await engine.settle()

    assert (tmp_path / "notes/web").exists() is left
    assert bool(agent.notes.records) is left


async def test_a_conflict_with_another_state_is_found_before_anything_runs(agent):
    """Two states of one note."""
    with pytest.raises(CompileError, match="ensure differs"):
        agent.compiled(NOTE + NOTE.replace("the note", "another") + "    - ensure: absent\n")


async def test_the_status_explains_a_remote_resource(agent):
    """`why` has the sentence of the last run."""
    async with agent.running(NOTE) as engine:
        row = next(each for each in engine.status() if each["identity"] == "notes.note[the note]")

    assert row["kind"] == "notes.note"
    assert row["result"] is True
