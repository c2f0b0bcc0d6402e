"""One-shot runs read remote resources in advance, and use no result that may be outdated."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from deadline import DEADLINE
from engine_bench import at_once
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Ran
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.host.host import LocalHost
from holdfast.agent.plugins.reading import Reads
from holdfast.agent.remote import read_ahead
from holdfast.agent.remote.read_ahead import ReadAhead
from holdfast.resources.errors import Temporary
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast_process import Tree
from notes_package import HOME, SCHEMA
from remote_bench import NotesPlugin

TEXT = '["me", ["hello"]]'
"""A note as it is declared."""


def note(name: str, more: str = "") -> str:
    """Return the state of a note."""
    return f"{name}:\n  notes.note:\n    - owner: me\n    - lines: [{{text: hello}}]\n{more}"


class NotesHost(LocalHost):
    """A host with the plugin of the test."""

    used: NotesPlugin
    ahead: ReadAhead

    def plugin(self, package: str) -> Any:
        """Return the plugin."""
        return self.ahead.plugin(package, self.used)


class OneRun:
    """One-shot runs of states of one file."""

    def __init__(self, directory: Path, plugin: NotesPlugin) -> None:
        self.directory, self.plugin = directory, plugin
        plugin.read = Reads(partial(plugin.call, "Read")).read  # type: ignore[method-assign] - as a real plugin reads
        (directory / "states").mkdir(mode=0o755)
        directory.chmod(0o755)
        self.outcomes: dict[str, Outcome] = {}
        self.after: Callable[[Outcome], None] = lambda _: None
        """Called after each outcome."""

    def write(self, *names: str, text: str = TEXT) -> None:
        """Write notes without the provider."""
        for each in names:
            (self.directory / "notes" / each).write_text(text)

    def text(self, name: str) -> str:
        """Return the content of a note."""
        return (self.directory / "notes" / name).read_text()

    async def run(self, states: str) -> list[int]:
        """Run the states; return how many resources each request has read."""
        (self.directory / "states/a.sls").write_text(states)
        compilation = Compiler().compile(CompilerInputs(self.directory / "states"))
        host = NotesHost(states=self.directory / "states", var_dir=self.directory / "var")
        host.used, host.ahead = self.plugin, ReadAhead(compilation.calls)
        self.plugin.requests.clear()

        def emit(event: Any) -> None:
            host.ahead.tell(event)
            if isinstance(event, Ran):
                self.outcomes[event.outcome.identity] = event.outcome
                self.after(event.outcome)

        journal = Journal(None, durable=False, blocking=at_once)
        async with host, asyncio.timeout(DEADLINE):
            engine = Engine(host, EngineOptions(), journal, emit, watch=False)
            try:
                await engine.swap(compilation, "start")
                await engine.settle()
            finally:
                await engine.stop()
                journal.close()
        return [len(each.items) for each in self.plugin.requests if hasattr(each, "items")]


@pytest.fixture
def once(note: Any, notes: NotesPlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OneRun:
    """One-shot runs with limits of time that are long enough for busy machines."""
    monkeypatch.setattr(read_ahead, "QUICK", DEADLINE)
    monkeypatch.setattr(read_ahead, "FRESH", DEADLINE)
    return OneRun(tmp_path, notes)


async def test_a_thousand_resources_as_declared_need_few_requests(once):
    """Each resource is read once, and requests become larger."""
    names = [f"n{number}" for number in range(1000)]
    once.write(*names)
    requests = await once.run("".join(map(note, names)))

    assert sum(requests) == 1000
    assert requests[:8] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert len(requests) < 15
    assert {each.result for each in once.outcomes.values()} == {True}


async def test_resources_that_are_created_are_not_read_in_vain(once):
    """Each creation may change other resources, so nothing is read in advance."""
    requests = await once.run("".join(note(f"n{number}") for number in range(50)))

    assert requests == [1] * 50
    assert once.text("n49") == TEXT


async def test_what_another_state_has_changed_meanwhile_is_read_after_it(once, tmp_path):
    """A state of another kind changes the file of a note after the note was read in advance."""
    once.write(*"abcde")
    contents = json.dumps('["you", []]')
    other = f"{tmp_path}/notes/e:\n  file.managed:\n    - contents: {contents}\n"
    requests = await once.run("".join(map(note, "abcd")) + other + note("e"))

    assert requests[:4] == [1, 2, 2, 1]
    assert once.outcomes["notes.note[e]"].changes
    assert once.text("e") == TEXT


async def test_what_a_change_of_the_package_has_changed_is_read_after_it(once):
    """The provider may also change another resource, such as a table in a replaced database."""
    once.write(*"abce")
    once.write("d", text='["me", ["other"]]')
    write = once.plugin.notes.write

    def both(inputs: Any) -> None:
        write(inputs)
        if inputs.name == "d":
            once.write("e", text='["me", []]')

    once.plugin.notes.write = both
    requests = await once.run("".join(map(note, "abcde")))

    assert requests == [1, 2, 2, 1]
    assert once.outcomes["notes.note[e]"].changes
    assert once.text("e") == TEXT


@pytest.mark.parametrize(("fresh", "noticed"), [(0.0, True), (60.0, False)])
async def test_a_result_is_forgotten_after_some_seconds(once, monkeypatch, fresh, noticed):
    """Another program may have changed the resource meanwhile."""
    monkeypatch.setattr(read_ahead, "FRESH", fresh)
    once.write(*"abcde")
    once.after = lambda outcome: once.write("e", text='["me", []]') if outcome.identity == "notes.note[d]" else None
    await once.run("".join(map(note, "abcde")))

    assert bool(once.outcomes["notes.note[e]"].changes) is noticed


async def test_a_failed_request_for_many_makes_no_other_resource_fail(once):
    """After the failure, each resource is read alone. The provider of the test cannot read two together."""
    once.write("a", "b", "c", "d")
    call = once.plugin.call

    async def failing(method: str, request: Any, timeout: float | None = None) -> Any:
        if method == "Read" and len(request.items) > 1:
            once.plugin.requests.append(request)
            raise Temporary("the plugin has ended")
        return await call(method, request, timeout)

    once.plugin.read = Reads(partial(failing, "Read")).read
    requests = await once.run("".join(map(note, "abcd")))

    assert requests == [1, 2, 1, 1, 1]
    assert {each.result for each in once.outcomes.values()} == {True}


async def test_the_failure_of_one_resource_is_its_own(once):
    """That resource is read again in its turn; the others have their results."""
    once.write("a", "b", "read-fails", "d", "e")
    await once.run("".join(map(note, ("a", "b", "read-fails", "d", "e"))))
    failed = [identity for identity, each in once.outcomes.items() if each.result is False]

    assert failed == ["notes.note[read-fails]"]
    assert once.outcomes[failed[0]].comment == "the note is locked for ever"


async def test_resources_whose_reading_takes_long_are_not_read_together(once, monkeypatch):
    """A request for many slow resources would exceed the timeout."""
    monkeypatch.setattr(read_ahead, "QUICK", 0.0)
    once.write("a", "b", "c", "d")

    assert await once.run("".join(map(note, "abcd"))) == [1, 1, 1, 1]


@pytest.fixture
def site(tmp_path: Path) -> Tree:
    """A configuration with the plugin of the notes; verbs run in this process, the plugin in its own."""
    (tmp_path / "notes").mkdir()
    tmp_path.chmod(0o755)
    (tmp_path / "schema.json").write_text(SCHEMA)
    for each in ("provider.py", "notes_stub.py"):
        (tmp_path / each).write_text((HOME / each).read_text())
    plugin = {
        "schema": str(tmp_path / "schema.json"),
        "command": [sys.executable, str(tmp_path / "provider.py")],
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "environment": {"PYTHONPATH": os.pathsep.join(sys.path)},
        "config": {"directory": str(tmp_path / "notes")},
    }
    tree = Tree(tmp_path / "tree")
    tree.settings(yaml.safe_dump({"plugins": {"notes": plugin}}))
    return tree


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of resources in each request of this process. Timeouts are long, for busy machines."""
    monkeypatch.setattr(read_ahead, "QUICK", DEADLINE)
    monkeypatch.setattr(read_ahead, "FRESH", DEADLINE)
    found: list[int] = []
    begin = Reads._begin

    def counting(self: Reads, waiting: Any) -> None:
        found.append(len(waiting))
        begin(self, waiting)

    monkeypatch.setattr(Reads, "_begin", counting)
    return found


def test_plan_and_apply_read_ahead(site, tmp_path, asked):
    """A plan reads in advance even if much would change, because it changes nothing.

    Two starts of a plugin take a second.
    """
    names = [f"n{number}" for number in range(30)]
    site.sls("notes", "".join(map(note, names)))
    site("plan", check=2)
    planned, asked[:] = [*asked], []
    for each in names:
        (tmp_path / "notes" / each).write_text(TEXT)
    site("apply", check=0)

    assert planned == asked == [1, 2, 4, 8, 15]


def test_apply_repairs_what_a_command_of_the_states_has_changed_before(site, tmp_path, asked):
    """The note was read in advance, and is read again."""
    for each in "abcde":
        (tmp_path / "notes" / each).write_text(TEXT)
    command = f"break it:\n  cmd.run:\n    - name: echo '[\"me\", []]' >{tmp_path}/notes/e\n"
    site.sls("notes", "".join(map(note, "abcd")) + command + note("e"))
    site("apply", "--detailed-exitcode", check=2)

    assert (tmp_path / "notes/e").read_text() == TEXT
    assert asked == [1, 2, 2, 1]
