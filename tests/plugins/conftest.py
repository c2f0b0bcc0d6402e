"""A provider in the process of the test, and as a process of its own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.plugins.in_process import InProcess
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.servicer import Servicer
from notes_package import HOME, NOTE, NOTES, SCHEMA


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


@pytest.fixture
def notes_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the provider."""
    monkeypatch.syspath_prepend(str(HOME))
    for name in ("provider", "notes_stub"):
        sys.modules.pop(name, None)
    return importlib.import_module("provider")


@pytest.fixture
async def caller(notes_module: Any, tmp_path: Path) -> Caller:
    """The provider in this process."""
    notes = notes_module.Notes()
    found = Caller(InProcess(Servicer(SCHEMA, [notes, notes_module.Counting(notes)], notes.configure)), notes)
    await found.configure(tmp_path)
    return found
