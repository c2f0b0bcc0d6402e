"""All plugins of an agent or of a one-shot run, and their use by kinds."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.loggers import LazyLogger
from holdfast.agent.plugins.declared import DeclaredPlugin
from holdfast.agent.plugins.log_lines import BoundedLog, StartLog
from holdfast.agent.plugins.masking import mask, redactor_of
from holdfast.agent.plugins.reading import Reads
from holdfast.agent.plugins.supervisor import Supervisor
from holdfast.agent.plugins.watching import EventStream
from holdfast.resources.context import Watch
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.plugin import CheckedInputs, RemoteRecord

if TYPE_CHECKING:
    from holdfast.agent.plugins.connecting import Ready

log = LazyLogger("holdfast.plugins")


class RemoteKnowledge(Protocol):
    """The store of the records of remote resources (`agent/records/remote_records.py`)."""

    async def get(self, token: str, name: str) -> RemoteRecord | None:
        """Return the record of a resource; None if there is none."""
        ...

    async def put(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Write the record durably; None deletes it."""
        ...


class PluginCounts:
    """Counters of plugins for metrics, since the start of the agent."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        """(plugin, method) -> calls."""
        self.failures: Counter[tuple[str, str]] = Counter()
        """(plugin, code of the failure) -> answers; `transport` if there was none."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Plugin -> seconds of all calls."""


class UsedPlugin:
    """One plugin as kinds use it (`resources/plugin.py`). Its process may be replaced."""

    def __init__(
        self,
        declared: DeclaredPlugin,
        health: Health,
        memory: RemoteKnowledge,
        counts: PluginCounts,
        below: Path | None,
    ) -> None:
        self._health, self._memory, self._counts, self._below = health, memory, counts, below
        self.supervisor: Supervisor
        self.noop = False
        """The agent changes nothing."""
        self._leaving: asyncio.Future[None] | None = None
        """The end of the process that is replaced."""
        self._unwatched = ""
        """Why changes of some resources are not reported."""
        self._seen_again = asyncio.Event()
        """Set when they are reported again; a new event takes its place."""
        self._take(declared)
        self._reads = Reads(partial(self.call, "Read"))
        self._events = EventStream(self._open, self._tell_unwatched)

    def _take(self, declared: DeclaredPlugin) -> None:
        self.declared = declared
        self._redactor = redactor_of(declared.secrets)
        self._lines = StartLog(BoundedLog(partial(_log, declared.name), self._redactor))
        self._room = asyncio.Semaphore(declared.settings.calls)
        self.checked, self._known_start = CheckedInputs(), ""
        self.supervisor = Supervisor(declared.name, self._start, self._end, self._health, self._redactor)

    async def use(self, declared: DeclaredPlugin, *, noop: bool) -> None:
        """Replace the process if its declaration has changed. Current calls fail with `Temporary`."""
        observed, self.noop = self.noop, noop
        if declared == self.declared:
            if noop != observed:
                self._events.renew()
        else:
            self._leaving = asyncio.ensure_future(self.supervisor.stop())
            self._take(declared)
            self._events.renew()
            await asyncio.shield(self._leaving)

    async def _start(self) -> Ready:
        if self._leaving is not None:
            await self._leaving
        self._lines.begins()
        connecting = await Blocking(1)(_load)
        try:
            ready: Ready = await connecting.connect(self.declared, self._lines, self._below)
        except HoldfastError as error:
            raise type(error)(self._redactor(str(error))) from None
        self._lines.succeeded()
        if not ready.client.start or self._known_start not in ("", ready.client.start):
            self.checked = CheckedInputs()
        self._known_start = ready.client.start
        return ready

    @staticmethod
    async def _end(ready: Ready, hangs: bool) -> None:
        await _load().disconnect(ready, hangs)

    async def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Return the response to a request: see the protocol."""
        supervisor, name = self.supervisor, self.declared.name
        with supervisor.use():
            async with self._room:
                ready = await supervisor.connection()
                supervisor.calls += 1
                began = time.monotonic()
                try:
                    response = await ready.client.call(method, request, timeout)
                except (Temporary, Permanent) as error:
                    supervisor.report_failed_call()
                    self._counts.failures[name, "transport"] += 1
                    raise type(error)(self._redactor(str(error))) from None
                finally:
                    supervisor.calls -= 1
                    self._counts.calls[name, method] += 1
                    self._counts.seconds[name] += time.monotonic() - began
        self._count(name, response)
        return mask(response, self._redactor)

    def _count(self, name: str, response: Any) -> None:
        for each in (response, *getattr(response, "results", ())):
            if code := getattr(each, "failure", None) and each.failure.code:
                self._counts.failures[name, code] += 1

    async def read(self, item: Any) -> Any:
        """Return the result of reading one resource: see the protocol."""
        return await self._reads.read(item)

    def watch(self, token: str, identifier: Callable[[], str]) -> Watch:
        """Watch a resource: see the protocol."""
        return self._events.watch(token, identifier)

    async def poll(self, seconds: float) -> bool:
        """Wait for the time of a poll: see the protocol."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._seen_again.wait()
        return False

    def _tell_unwatched(self, why: str) -> None:
        """Note why changes of some resources are not reported; with an empty text, make all resources check again.

        The watches of the resources report to the engine that these are not watched.
        """
        before, self._unwatched = self._unwatched, why
        if before and not why:
            name = self.declared.name
            told = "plugin %s: changes are seen again; its resources are checked"
            log.info(told, name, code="plugin-watched", plugin=name)
            self._seen_again.set()
            self._seen_again = asyncio.Event()

    async def _open(self, tokens: Collection[str], revision: str) -> AsyncIterator[Any]:
        """Open a stream of events. Raises as `call` does."""
        supervisor = self.supervisor
        with supervisor.use():
            ready = await supervisor.connection()
            try:
                async for event in ready.client.watch(list(tokens), revision, noop=self.noop):
                    yield mask(event, self._redactor)
            except (Temporary, Permanent) as error:
                supervisor.report_failed_call()
                raise type(error)(self._redactor(str(error))) from None

    async def remembered(self, token: str, name: str) -> RemoteRecord | None:
        """Return the record of a resource: see the protocol."""
        return await self._memory.get(token, name)

    async def remember(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Write the record of a resource: see the protocol."""
        await self._memory.put(token, name, record)

    def state(self) -> dict[str, Any]:
        """Return the state of the plugin for operators."""
        supervisor, settings = self.supervisor, self.declared.settings
        ready = supervisor.ready
        return {
            "name": self.declared.name,
            "version": self.declared.schema.package.version,
            "state": supervisor.state,
            "since": supervisor.since,
            "pid": ready.pid if ready else 0,
            "address": settings.address or "",
            "restarts": supervisor.restarts,
            "why": str(supervisor.trouble or self._unwatched),
        }


class Plugins:
    """The plugins of the settings. `below`: directory for the directories of their sockets."""

    def __init__(self, health: Health, memory: RemoteKnowledge, below: Path | None = None) -> None:
        self._health, self._memory, self._below = health, memory, below
        self._plugins: dict[str, UsedPlugin] = {}
        self.counts = PluginCounts()

    @property
    def names(self) -> Collection[str]:
        """The packages."""
        return self._plugins.keys()

    def get(self, package: str) -> UsedPlugin:
        """Return the plugin of a package. Raises `Permanent` if the settings name none."""
        if package not in self._plugins:
            raise Permanent(f"no plugin provides {package}: name one under `plugins` in agent.yaml")
        return self._plugins[package]

    async def use(self, declared: Mapping[str, DeclaredPlugin], *, noop: bool = False) -> None:
        """Use these plugins from now on; those that are declared as before keep running.

        `noop`: the agent changes nothing.
        """
        gone = [self._plugins.pop(name) for name in self._plugins.keys() - declared.keys()]
        new = {name: each for name, each in declared.items() if name not in self._plugins}
        changed = [each.use(declared[name], noop=noop) for name, each in self._plugins.items()]
        for name, each in new.items():
            self._plugins[name] = UsedPlugin(each, self._health, self._memory, self.counts, self._below)
            self._plugins[name].noop = noop
        await asyncio.gather(*changed, *(each.supervisor.stop() for each in gone))

    def keep(self, packages: Collection[str]) -> None:
        """Keep the plugins of these packages ready, because the graph has resources of them.

        The others end when unused.
        """
        for name, each in self._plugins.items():
            each.supervisor.keep(name in packages)

    async def stop(self) -> None:
        """End all plugins."""
        await asyncio.gather(*(each.supervisor.stop() for each in self._plugins.values()))

    def state(self) -> list[dict[str, Any]]:
        """Return the state of each plugin for operators."""
        return [each.state() for _, each in sorted(self._plugins.items())]


def _log(name: str, level: str, said: Mapping[str, Any]) -> None:
    """Log a line of a plugin."""
    fields = {key: value for key, value in said.items() if key not in ("message", "time", "event", "level", "plugin")}
    more = {"said": fields} if fields else {}
    getattr(log, level)("plugin %s: %s", name, said["message"], code="plugin-said", plugin=name, **more)


def _load() -> ModuleType:
    """Import gRPC. It takes memory and time, so it is imported only for the first plugin that is used. Blocks."""
    from holdfast.agent.plugins import connecting  # noqa: PLC0415 - see above

    return connecting
