"""The plugins of an agent with the notes package, for tests."""

from __future__ import annotations

import asyncio
import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deadline import DEADLINE
from holdfast.agent.health import Health
from holdfast.agent.plugins.declared import DeclaredPlugin, PluginLoader
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.plugins.plugin_settings import PluginSettings
from holdfast.agent.plugins.plugins import Plugins, UsedPlugin
from holdfast.agent.plugins.schema import Schema
from holdfast.resources.plugin import RemoteRecord
from notes_package import HOME, NOTE, NOTES, SCHEMA

ME = pwd.getpwuid(os.geteuid()).pw_name
TOKEN = "notes:note:Note"
ENDED = r"plugin notes: (\w+: the plugin (has ended|cannot be reached)|the connection is closed)"
"""What a call says whose plugin has ended: the end of the connection may be noticed first."""
PAYLOADS = Payloads(Schema(NOTES))


class Memory:
    """What is remembered, in memory: the records have tests of their own."""

    async def get(self, token: str, name: str) -> RemoteRecord | None:
        """Return nothing."""
        return None

    async def put(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Forget it."""


class Bench:
    """The plugins of an agent, with the notes package in a directory."""

    def __init__(self, directory: Path, below: Path) -> None:
        self.directory, self.below = directory, below
        self.health = Health()
        self.plugins = Plugins(self.health, Memory(), below)
        for name in ("provider.py", "notes_stub.py"):
            (directory / name).write_text((HOME / name).read_text())
        (directory / "schema.json").write_text(SCHEMA)
        (directory / "notes").mkdir()

    def declared(self, **more: Any) -> DeclaredPlugin:
        """Return the plugin as agent.yaml declares it."""
        given = {
            "schema": self.directory / "schema.json",
            "command": [sys.executable, str(self.directory / "provider.py")],
            "user": ME,
            "environment": {"PYTHONPATH": os.pathsep.join(sys.path)},
            "config": {"directory": str(self.directory / "notes")},
            **more,
        }
        return PluginLoader().load({"notes": PluginSettings.model_validate(given)})["notes"]

    async def use(self, **more: Any) -> UsedPlugin:
        """Use the plugin, of which the graph has resources."""
        await self.plugins.use({"notes": self.declared(**more)})
        self.plugins.keep({"notes"})
        return self.plugins.get("notes")

    @property
    def pid(self) -> int:
        """The process of the plugin."""
        return int(self.plugins.state()[0]["pid"])

    async def becomes(self, wanted: Callable[[], Any]) -> Any:
        """Wait until something is true, and return it."""
        async with asyncio.timeout(DEADLINE):
            while not (found := wanted()):
                await asyncio.sleep(0.005)
        return found

    @property
    def told(self) -> str:
        """The texts of all health conditions."""
        return "\n".join(each.text for each in self.health.conditions)


def item(name: str, **more: Any) -> Any:
    """Return what asks for one note."""
    inputs = PAYLOADS.pack_inputs(NOTE, {"name": name, "owner": "me", **more})
    return message["ReadItem"](subject=message["Subject"](token=TOKEN), inputs=inputs)


async def create(plugin: UsedPlugin, name: str, timeout: float | None = None) -> Any:
    """Create a note."""
    inputs = PAYLOADS.pack_inputs(NOTE, {"name": name, "owner": "me"})
    request = message["CreateRequest"](subject=message["Subject"](token=TOKEN), inputs=inputs)
    return await plugin.call("Create", request, timeout)
