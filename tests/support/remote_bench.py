"""A plugin for tests of remote kinds: the provider of notes in this process, behind the interface of the agent."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from holdfast.agent.plugins.in_process import InProcess
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.servicer import Servicer
from holdfast.agent.remote.classes import declare
from holdfast.agent.remote.resource import RemoteResource
from holdfast.resources.plugin import RemoteRecord
from notes_package import HOME, SCHEMA


class NotesPlugin:
    """Calls the provider, and counts that; remembers in memory."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.notes = module.Notes()
        self.connection = InProcess(Servicer(SCHEMA, [self.notes, module.Counting(self.notes)], self.notes.configure))
        self.calls: list[str] = []
        self.requests: list[Any] = []
        self.records: dict[str, RemoteRecord] = {}
        self.answers: dict[str, Callable[[Any], Any]] = {}
        """Method -> what makes another answer of its answer."""
        self.events: asyncio.Queue[str] = asyncio.Queue()

    async def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Call the provider."""
        self.calls.append(method)
        self.requests.append(request)
        answer = await self.connection.call(method, request, timeout)
        return self.answers[method](answer) if method in self.answers else answer

    async def read(self, item: Any) -> Any:
        """Read one resource."""
        answer = await self.call("Read", message["ReadRequest"](items=[item]))
        return answer.results[0]

    async def watch(self, token: str, identifier: Callable[[], str]) -> AsyncIterator[None]:
        """Report what a test puts into the queue, if it is the id of the resource."""
        yield
        while True:
            if await self.events.get() == identifier():
                yield

    async def remembered(self, token: str, name: str) -> RemoteRecord | None:
        """Return what is remembered."""
        return self.records.get(name)

    async def remember(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Remember it."""
        self.calls.append("remember")
        self.records.pop(name, None)
        if record is not None:
            self.records[name] = record


def notes_module() -> Any:
    """Return the module of the provider, imported anew."""
    for name in ("provider", "notes_stub"):
        sys.modules.pop(name, None)
    sys.path.insert(0, str(HOME))
    try:
        return importlib.import_module("provider")
    finally:
        sys.path.remove(str(HOME))


async def notes_plugin(directory: Path) -> NotesPlugin:
    """Return the plugin with its notes in a directory."""
    plugin = NotesPlugin(notes_module())
    config = Payloads(Schema.read(SCHEMA)).pack_config({"directory": directory})
    await plugin.connection.call("Configure", message["ConfigRequest"](config=config))
    return plugin


def note_kind() -> type[RemoteResource]:
    """Declare the kind of notes."""
    schema = Schema.read(SCHEMA)
    return declare(schema, schema.kinds["notes.note"])
