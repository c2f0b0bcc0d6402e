"""A provider in the process of the test, and as a process of its own."""

from __future__ import annotations

import asyncio
import importlib
import sys
import tempfile
from collections.abc import AsyncIterator
from getpass import getuser
from pathlib import Path
from typing import Any

import pytest

import typescript
from deadline import DEADLINE
from holdfast.agent.idl.targets.typescript import TARGET
from holdfast.agent.plugins.in_process import InProcess
from holdfast.agent.plugins.launching import Launch
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.plugins.process import launch
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.servicer import Servicer
from notes_package import HOME, NOTE, NOTES, SCHEMA
from plugin_bench import Bench


class Caller:
    """Calls a provider with plain values."""

    def __init__(self, connection: Any, notes: Any = None) -> None:
        self.connection = connection
        self.notes = notes
        self.payloads = Payloads(Schema(NOTES))

    async def __call__(self, method: str, id_: str = "", timeout: float | None = None, **members: Any) -> Any:
        """Call a method; `inputs` and `state` are values."""
        for name in ("inputs", "old_inputs"):
            if isinstance(members.get(name), dict):
                members[name] = self.payloads.pack_inputs(NOTE, members[name])
        if isinstance(members.get("state"), dict):
            members["state"] = self.payloads.pack_state(NOTE, members["state"])
        request = f"{method}Request"
        subject = message["Subject"](token="notes:note:Note", id=id_)
        return await self.connection.call(method, message[request](subject=subject, **members), timeout)

    async def configure(self, directory: Path) -> None:
        """Name the directory of the notes."""
        config = self.payloads.pack_config({"directory": directory})
        answer = await self.connection.call("Configure", message["ConfigRequest"](config=config))
        assert not answer.violations

    async def read(self, name: str, timeout: float | None = None, **more: Any) -> Any:
        """Read one note."""
        inputs = self.payloads.pack_inputs(NOTE, {"name": name, "owner": "me", **more})
        item = message["ReadItem"](subject=message["Subject"](token="notes:note:Note"), inputs=inputs)
        request = message["ReadRequest"](items=[item])
        answer = await self.connection.call("Read", request, timeout)
        return answer.results[0] if answer.results else answer

    async def invoke(self, **arguments: Any) -> Any:
        """Call the function of the package."""
        function = self.payloads.schema.functions["notes:note:Count"]
        data = self.payloads.pack_arguments(function, arguments)
        request = message["InvokeRequest"](function="notes:note:Count", arguments=data, timeout_ms=1000)
        return await self.connection.call("Invoke", request)

    async def calls(self) -> list[str]:
        """Return the calls that have reached the author's code of notes."""
        function = self.payloads.schema.functions["notes:note:Count"]
        answer = await self.invoke(owner="calls")
        return str(self.payloads.results(function, answer.result)["largest"]).split()

    async def until(self, call: str) -> None:
        """Wait until a call has reached the author's code."""
        async with asyncio.timeout(DEADLINE):
            while call not in await self.calls():
                await asyncio.sleep(0)


@pytest.fixture
def notes_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the provider."""
    monkeypatch.syspath_prepend(str(HOME))
    for name in ("provider", "notes_stub"):
        sys.modules.pop(name, None)
    return importlib.import_module("provider")


@pytest.fixture
async def python_caller(notes_module: Any, tmp_path: Path) -> Caller:
    """The provider in this process."""
    notes = notes_module.Notes()
    found = Caller(InProcess(Servicer(SCHEMA, [notes, notes_module.Counting(notes)], notes.configure)), notes)
    await found.configure(tmp_path)
    return found


@pytest.fixture(scope="session")
def node_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled provider in TypeScript. This takes five seconds."""
    folder = tmp_path_factory.mktemp("node")
    typescript.written(TARGET.provider(NOTES), folder / "src")
    for program in HOME.glob("*.ts"):
        (folder / "src" / program.name).write_text(program.read_text())
    return typescript.compiled(folder)


@pytest.fixture
async def node_caller(node_notes: Path, tmp_path: Path) -> AsyncIterator[Caller]:
    """The provider in TypeScript, as a process."""
    wanted = Launch("notes", [typescript.node(), str(node_notes / "provider.js")], user=getuser())
    with tempfile.TemporaryDirectory() as below:
        plugin = await launch(wanted, lambda *_: None, Path(below))
        found = Caller(plugin.client)
        await found.configure(tmp_path)
        yield found
        await plugin.stop()


@pytest.fixture(params=["python", "node"])
def caller(request: pytest.FixtureRequest) -> Any:
    """The provider, in each language."""
    return request.getfixturevalue(f"{request.param}_caller")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """The plugins of an agent; their private directory is empty at the end."""
    with tempfile.TemporaryDirectory(prefix="plugins-") as name:
        found = Bench(tmp_path, Path(name))
        yield found
        await found.plugins.stop()
        assert [*Path(name).iterdir()] == []
