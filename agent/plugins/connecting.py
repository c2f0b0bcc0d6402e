"""Connects to a plugin: it is started or reached, its protocol is checked, and it gets its configuration."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Protocol

from holdfast.agent.credential_files import read_certificates
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.plugins.client import Client, shake_hands
from holdfast.agent.plugins.declared import DeclaredPlugin
from holdfast.agent.plugins.launching import Launch
from holdfast.agent.plugins.log_lines import Log
from holdfast.agent.plugins.masking import redactor_of
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.process import launch
from holdfast.resources.errors import HoldfastError, Permanent, Temporary

CONFIGURE = 30.0
"""Seconds within which a plugin must use its configuration, for example to connect to a database."""
CANCEL = 1.0
"""Seconds for the request to a plugin to end its calls."""


class Ready(Protocol):
    """One start of a plugin, or one connection to a plugin that runs by itself."""

    @property
    def client(self) -> Client:
        """The client of the plugin."""

    @property
    def pid(self) -> int:
        """The process of the plugin; 0: the plugin runs elsewhere."""

    @property
    def ended(self) -> asyncio.Future[str]:
        """Done when the plugin has ended; the result says how."""

    async def stop(self, *, at_once: bool = False) -> None:
        """End the plugin."""
        ...


class Distant:
    """A connection to a plugin that the agent has not started."""

    pid = 0

    def __init__(self, client: Client) -> None:
        self.client = client
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def stop(self, *, at_once: bool = False) -> None:  # noqa: ARG002 - it has nothing to end
        """End the connection; the plugin keeps running."""
        await self.client.close()
        if not self.ended.done():
            self.ended.set_result("was left")


async def connect(declared: DeclaredPlugin, log: Log, below: Path | None = None) -> Ready:
    """Return a plugin that is ready for calls.

    `below`: directory for the directories of plugins. Raises `Permanent` if the plugin cannot be used as it is
    declared, and `Temporary` if another attempt may succeed.
    """
    settings = declared.settings
    if settings.address is None:
        wanted = Launch(
            declared.name,
            settings.command,
            settings.user or declared.schema.package.user,
            settings.environment,
            (settings.memory or 0) << 20,
            settings.files,
            redactor_of(declared.secrets),
        )
        ready: Ready = await launch(wanted, log, below)
    else:
        found = await asyncio.to_thread(_certificates, declared)
        ready = Distant(Client.distant(declared.name, settings.address, *found))
    try:
        await shake_hands(ready.client, declared.schema)
        if settings.address is None:
            await _configure(declared, ready.client)
    except BaseException:
        await ready.stop()
        raise
    return ready


def _certificates(declared: DeclaredPlugin) -> tuple[bytes, bytes, bytes]:
    """Return authorities, certificate and key. Raises `Permanent` for files that cannot be used. Blocks."""
    try:
        found = read_certificates(declared.settings)
    except Unavailable as error:
        raise Permanent(f"plugin {declared.name}: {error}") from None
    return found.ca or b"", found.cert or b"", found.key or b""


async def _configure(declared: DeclaredPlugin, client: Client) -> None:
    """Give a plugin its configuration. Raises `Permanent` and `Temporary` as the plugin says."""
    request: Any = message["ConfigRequest"](config=declared.config)
    answer = await client.call("Configure", request, CONFIGURE)
    told = "; ".join(f"{each.path or 'config'}: {each.message}" for each in answer.violations) or answer.failure.message
    if answer.violations:
        raise Permanent(f"plugin {declared.name}: it refuses its configuration: {told}")
    if answer.failure.code in ("retry", "cancelled"):
        raise Temporary(f"plugin {declared.name}: it cannot use its configuration now: {told}")
    if answer.failure.code:
        raise Permanent(f"plugin {declared.name}: it cannot use its configuration: {told}")


async def disconnect(ready: Ready, hangs: bool) -> None:
    """Ask a plugin to end its calls, and end the plugin.

    A plugin that does not answer is ended at once. For a plugin that runs elsewhere, only the connection is closed: the
    plugin has calls of other agents, too.
    """
    if ready.pid and not hangs and not ready.ended.done():
        try:
            await ready.client.call("Cancel", message["CancelRequest"](), CANCEL)
        except HoldfastError:
            hangs = True
    await ready.stop(at_once=hangs)
