"""A plugin for tests of remote kinds: the provider of notes in this process, behind the interface of the agent."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.agent.plugins.in_process import InProcess
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.plugins.schema import Schema, remote_of
from holdfast.agent.plugins.servicer import Servicer
from holdfast.agent.plugins.stub import Found, Key, Operations
from holdfast.agent.remote.classes import declare
from holdfast.agent.remote.resource import RemoteResource
from holdfast.resources.context import Watch
from holdfast.resources.errors import Permanent
from holdfast.resources.idl import UNSET
from holdfast.resources.plugin import CheckedInputs, RemoteRecord
from holdfast.resources.watch_items import Unwatched
from notes_package import HOME, SCHEMA

EC2 = Path(__file__).parent.parent / "idl/ec2"
"""The example of the language."""


class LocalPlugin:
    """Calls a provider in this process, counts the calls, and keeps the agent's records in memory."""

    def __init__(self, servicer: Servicer) -> None:
        self.connection = InProcess(servicer)
        self.calls: list[str] = []
        self.requests: list[Any] = []
        self.records: dict[str, RemoteRecord] = {}
        self.answers: dict[str, Callable[[Any], Any]] = {}
        """Method -> function that changes its answer."""
        self.checked = CheckedInputs()
        self.events: asyncio.Queue[str | Unwatched] = asyncio.Queue()

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

    async def watch(self, token: str, identifier: Callable[[], str]) -> Watch:
        """Report the items of a queue that a test fills: the id of the resource, or that it is not watched."""
        yield
        while True:
            event = await self.events.get()
            if isinstance(event, Unwatched):
                yield event
            elif event == identifier():
                yield

    async def poll(self, seconds: float) -> bool:
        """Wait for the time of a poll."""
        await asyncio.sleep(seconds)
        return False

    async def remembered(self, token: str, name: str) -> RemoteRecord | None:
        """Return what is remembered."""
        return self.records.get(name)

    async def remember(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Remember it."""
        self.calls.append("remember")
        self.records.pop(name, None)
        if record is not None:
            self.records[name] = record


class NotesPlugin(LocalPlugin):
    """The plugin of the notes."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.notes = module.Notes()
        super().__init__(Servicer(SCHEMA, [self.notes, module.Counting(self.notes)], self.notes.configure))


def cloud_plugin(
    things: dict[str, dict[str, Any]], *, named: bool = False, tokens: dict[str, str] | None = None
) -> LocalPlugin:
    """Return the plugin of the example tests/idl/ec2, whose cloud is a mapping: identifier -> values.

    With `named`, identifiers are names instead of numbers, which are used only once. A resource to which others refer
    cannot be deleted. `tokens`: token of a creation -> identifier of the created resource; None: the cloud does not
    know tokens.
    """
    sys.path.insert(0, str(EC2 / "provider"))
    try:
        groups = importlib.import_module("ec2.security_group_stub")
        networks = importlib.import_module("ec2.vpc_stub")
    finally:
        sys.path.remove(str(EC2 / "provider"))

    numbers = itertools.count(1)

    class Cloud(Operations[Any]):
        async def read(self, key: Key, inputs: Any) -> Found[Any] | None:
            id_ = key.id or (tokens or {}).get(key.intent, "")
            return Found(id_, self.struct(**things[id_])) if id_ in things else None

        async def create(self, inputs: Any) -> Found[Any]:
            id_ = f"{self.struct.__name__.lower()}-{inputs.name if named else next(numbers)}"
            out = {"vpc_id": id_} if self.struct is networks.Vpc else {"group_id": id_}
            things[id_] = {**vars(inputs), **out}
            return Found(id_, self.struct(**things[id_]))

        async def update(self, found: Found[Any], inputs: Any) -> Found[Any]:
            given = {name: value for name, value in vars(inputs).items() if value is not UNSET}
            things[found.id] = {**things[found.id], **given}
            return Found(found.id, self.struct(**things[found.id]))

        async def create_once(self, inputs: Any, intent: str) -> Found[Any]:
            if tokens is None:
                return await self.create(inputs)
            if tokens.get(intent) not in things:
                tokens[intent] = (await self.create(inputs)).id
            return Found(tokens[intent], self.struct(**things[tokens[intent]]))

        async def delete(self, found: Found[Any]) -> None:
            if users := [name for name, each in things.items() if found.id in repr(each) and name != found.id]:
                raise Permanent(f"{found.id} is used by {', '.join(users)}")
            things.pop(found.id, None)

    vpcs = type("Vpcs", (Cloud, networks.VpcOperations), {})
    security_groups = type("Groups", (Cloud, groups.SecurityGroupOperations), {})
    return LocalPlugin(Servicer((EC2 / "provider/schema.json").read_text(), [vpcs(), security_groups()]))


def cloud_kinds() -> None:
    """Declare the kinds of the example."""
    schema = Schema.read((EC2 / "provider/schema.json").read_text())
    for model in schema.kinds.values():
        declare(schema, model)


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


def note_kind(poll: float = 0) -> type[RemoteResource]:
    """Declare the kind of notes; with `poll`, one without events, which is polled every `poll` seconds."""
    schema = Schema.read(SCHEMA)
    model = schema.kinds["notes.note"]
    return declare(schema, replace(model, remote=replace(remote_of(model), poll=poll)))
