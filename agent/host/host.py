"""The services of this machine that all resources share. They end with their host.

One `LocalHost` belongs to one event loop. A resource sees the host through its `HostContext`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.agent.health import Health
from holdfast.agent.host.blocking import LINGER, SPARE, Blocking
from holdfast.agent.host.context import HostContext
from holdfast.agent.host.downloads import Downloads
from holdfast.agent.host.flushes import Flushes
from holdfast.agent.host.interfaces import Interfaces
from holdfast.agent.host.kept import KeptFiles
from holdfast.agent.host.source_snapshot import SourceSnapshot
from holdfast.agent.host.source_store import SourceStore
from holdfast.agent.host.sources import Sources
from holdfast.agent.kept_bounds import KEPT_BOUNDS, KeptBounds
from holdfast.agent.tasks import Tasks
from holdfast.resources.errors import Permanent
from holdfast.resources.plugin import Plugin
from holdfast.resources.secrets import Redactor
from holdfast.states.data import Call
from holdfast.states.source.hostfiles import absolute
from holdfast.states.view.grains import seen

if TYPE_CHECKING:
    from holdfast.agent.host.backends import Choice
    from holdfast.agent.host.path_watcher import PathWatcher
    from holdfast.agent.host.topic_watches import TopicWatches
    from holdfast.agent.northbound.api import NbApi
    from holdfast.agent.plugins.declared import DeclaredPlugin
    from holdfast.agent.plugins.plugins import Plugins, RemoteKnowledge
    from holdfast.agent.records.records import Records
    from holdfast.agent.records.world import StoredWorld
    from holdfast.agent.records.world_records import WorldRecords
    from holdfast.agent.shared.world_database import WorldDatabase
    from holdfast.resources.interfaces.host import Bus
    from holdfast.resources.interfaces.pkg import PkgInterface

DOWNLOADS = 4
"""Most downloads at once. They have threads of their own, so that a slow server does not delay file operations."""


class LocalHost:
    """The machine. Use as an async context manager.

    `providers` is the operator's choice of tools (`{"pkg": "apt"}`), `strict` whether they are refused if they violate
    their interface. `watching` says which backends watch directories; `programs` whether the programs of all processes
    are read, to name who changes files; `durable` whether files must be on the disk before they count as written;
    `kept` how much replaced content is kept. `health`, `tasks` and `records` are the daemon's, if there is one;
    `database` returns the records of a one-shot run; `copied` is the file of those that a run without changes reads.
    """

    def __init__(
        self,
        *,
        states: Path,
        var_dir: Path,
        facts: Mapping[str, Any] | None = None,
        pillar: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        providers: Mapping[str, str] | None = None,
        strict: bool = True,
        watching: Choice = "auto",
        programs: bool = False,
        durable: bool = True,
        kept: KeptBounds = KEPT_BOUNDS,
        health: Health | None = None,
        tasks: Tasks | None = None,
        records: Records | None = None,
        database: Callable[[], Records] | None = None,
        copied: Path | None = None,
    ) -> None:
        self.var_dir, self.durable = var_dir, durable
        self.kept = KeptFiles(absolute(var_dir), kept, durable=durable)
        self._watching, self._programs = watching, programs
        self.facts: Mapping[str, Any] = facts or {}
        self.pillar: Mapping[str, Any] = pillar or {}
        self.redactor = Redactor(self.pillar)
        """Redacts the secrets of the pillar in all output."""
        self.options: Mapping[str, Any] = options or {}
        """The settings that templates see as `opts`."""
        self._readers: set[str] = set()
        """Identities of the resources that have read pillar or options since the last change of these."""
        self._reads: dict[str, set[str]] = {}
        """Resource -> names of the grains that it has read."""
        self._managed: Sequence[str] = ()
        self._find_managed: Callable[[], Iterable[str]] | None = None
        """Computes `managed` anew on the next access."""
        self.health = health or Health()
        self.blocking, self.long_blocking = Blocking(spare=SPARE, linger=LINGER), Blocking(spare=SPARE)
        self.flushes = Flushes(self.blocking, self._tell_of_flushes)
        self.downloads = Downloads(absolute(var_dir), Blocking(DOWNLOADS), durable=durable)
        self.sources = Sources(states, self.blocking, self.downloads)
        self._store = SourceStore(absolute(var_dir))
        self._tasks, self._own_tasks = tasks or Tasks(self.health), tasks is None
        self._records, self._database, self._copied = records, database, copied
        self._own_records: Records | None = None
        """The database of a host that was given none, once a resource has used it."""
        self.interfaces = Interfaces(self.context, providers or {}, strict=strict)
        self.on_output: Callable[[str, str, bytes], None] | None = None
        """Shows output of commands to a user. Called with identity, stream name and bytes."""
        self._bus: Any = None
        self._plugins: Plugins | None = None
        self.reading_ahead: Callable[[str, Plugin], Plugin] | None = None
        """Returns the plugin of a package as one that reads ahead."""

    async def __aenter__(self) -> Self:
        """Open nothing: each service is opened on first use."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all services."""
        await self.flushes.done()
        if self._plugins is not None:
            await self._plugins.stop()
        if "paths" in self.__dict__:
            self.paths.close()
        if self._bus is not None:
            await self._bus.close()
        if "world_database" in self.__dict__:
            await self.world_database.stop()
        if self._own_records:
            await self._own_records.close()
        if self._own_tasks:
            await self._tasks.stop()

    @cached_property
    def paths(self) -> PathWatcher:
        """Events of paths, and which processes caused them; a one-shot run needs none."""
        from holdfast.agent.host.namer import Namer  # noqa: PLC0415 - see above
        from holdfast.agent.host.path_watcher import PathWatcher  # noqa: PLC0415 - see above

        return PathWatcher(self.health, Namer(programs=self._programs), backend=self._watching)

    @cached_property
    def topics(self) -> TopicWatches:
        """Events of the kernel that have no path."""
        from holdfast.agent.host.topic_watches import TopicWatches  # noqa: PLC0415 - few states use it

        return TopicWatches()

    @cached_property
    def world_database(self) -> WorldDatabase:
        """The database of the strings and host maps."""
        from holdfast.agent.shared.world_database import WorldDatabase  # noqa: PLC0415 - few states use it

        return WorldDatabase(self._open_world, self.health, self._tasks)

    @cached_property
    def world(self) -> StoredWorld:
        """Strings and host maps."""
        from holdfast.agent.records.world import StoredWorld  # noqa: PLC0415 - few states use it

        return StoredWorld(self.world_database, partial(self._fact, "id"))

    async def _open_world(self) -> WorldRecords:
        """Open the database of this host, and take over the strings and host maps of earlier versions."""
        api = await self._api()
        from holdfast.agent.records import world_file, world_records  # noqa: PLC0415 - `api` has loaded the models

        await world_file.take_over(self.var_dir, api, self.blocking)
        return world_records.WorldRecords(api)

    async def _api(self) -> NbApi:
        """Open the database of this host."""
        from holdfast.agent.records.records import Records  # noqa: PLC0415 - few states use it

        if self._records is None and self._database is not None:
            self._records = self._database()
        records = self._records or self._own_records
        if records is None:
            records = self._own_records = Records(self.var_dir, self.health, agent=False, durable=self.durable)
        return await records.api()

    def _fact(self, name: str) -> str:
        return str(self.facts.get(name, ""))

    @property
    def states(self) -> Path:
        """The states directory; may be replaced."""
        return self.sources.states

    @states.setter
    def states(self, directory: Path) -> None:
        self.sources.states = directory

    @asynccontextmanager
    async def taken_over(self, calls: Iterable[Call], states: Path) -> AsyncIterator[SourceSnapshot]:
        """Freeze the sources of these calls at their present content: see `Sources.taken_over`."""
        async with self.sources.taken_over(calls, states, self._store) as snapshot:
            yield snapshot
        if why := self._store.trouble:
            self.health.set(
                "sources-not-kept", f"{why}; a source that is changed now may keep its state from being repaired"
            )
        else:
            self.health.clear("sources-not-kept")

    def _tell_of_flushes(self, why: str) -> None:
        if why:
            self.health.set("not-flushed", f"cannot flush {why}; a power failure may lose files written there")
        else:
            self.health.clear("not-flushed")

    def context(self, identity: str) -> HostContext:
        """Return the context of the resource with this identity."""
        return HostContext(self, identity)

    def update(
        self,
        *,
        facts: Mapping[str, Any] | None = None,
        pillar: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        managed: Callable[[], Iterable[str]] | None = None,
    ) -> set[str]:
        """Replace the given values; existing contexts see the new values at once.

        `managed` returns the paths that states manage.

        Returns the identities of the resources that have read a value that changed: grains, pillar or options.
        """
        facts_before, before = self.facts, (self.pillar, self.options)
        self.facts = self.facts if facts is None else facts
        if pillar is not None:
            self.redactor = (
                self.redactor if pillar == self.pillar else Redactor(pillar, self.pillar)
            )  # diffs may still contain the previous secrets
            self.pillar = pillar
        self.options = self.options if options is None else options
        self._find_managed = managed or self._find_managed
        outdated = {who for who, names in self._reads.items() if seen(facts_before, names) != seen(self.facts, names)}
        outdated |= self.interfaces.decide(grains_changed=facts_before != self.facts)
        if before != (self.pillar, self.options):
            outdated |= self._readers
        self._readers -= outdated
        return outdated

    def read_by(self, identity: str) -> None:
        """Record that this resource has read pillar or options."""
        self._readers.add(identity)

    def reads(self, identity: str) -> set[str]:
        """Return the names of the grains that this resource has read; the caller adds to the set."""
        return self._reads.setdefault(identity, set())

    @property
    def read(self) -> frozenset[str]:
        """Names of the grains that resources have read."""
        return frozenset().union(*self._reads.values())

    def forget_all_but(self, identities: Collection[str]) -> None:
        """Forget which values all other resources have read."""
        self.interfaces.forget_all_but(identities)
        self._readers.intersection_update(identities)
        for gone in self._reads.keys() - identities:
            del self._reads[gone]

    @property
    def managed(self) -> Sequence[str]:
        """Paths that the states manage, sorted."""
        if self._find_managed is not None:
            self._managed, self._find_managed = sorted(self._find_managed()), None
        return self._managed

    def bus(self) -> Bus:
        """Return the system's D-Bus, connected on first use."""
        if self._bus is None:
            from holdfast.agent.host.dbus import SystemBus  # noqa: PLC0415 - slow to import

            self._bus = SystemBus(self._tasks, self.health, before=self.flushes.done)
        bus: Bus = self._bus
        return bus

    async def use_plugins(self, declared: Mapping[str, DeclaredPlugin], *, noop: bool = False) -> None:
        """Use these plugins from now on.

        Plugins that are declared as before keep running. `noop`: the agent changes nothing.
        """
        if self._plugins is None and declared:
            self._plugins = (await self.blocking(_load_plugins))(self.health, self._memory())
        if self._plugins is not None:
            await self._plugins.use(declared, noop=noop)

    def _memory(self) -> RemoteKnowledge:
        """Return the records of remote resources."""
        from holdfast.agent.records import remote_records  # noqa: PLC0415 - few states use it

        return (
            remote_records.RemoteMemory(self._api)
            if self._copied is None
            else remote_records.CopiedMemory(self._copied)
        )

    @property
    def plugins(self) -> Plugins | None:
        """The plugins; None if the settings have never named one."""
        return self._plugins

    def plugin(self, package: str) -> Plugin:
        """Return the plugin that provides a package. Raises `Permanent` if the settings name none."""
        if self._plugins is None:
            raise Permanent(f"no plugin provides {package}: name one under `plugins` in agent.yaml")
        plugin = self._plugins.get(package)
        return self.reading_ahead(package, plugin) if self.reading_ahead else plugin

    def package_manager(self) -> PkgInterface:
        """Return the functions of `pkg` on this host. Raises `Permanent` if there is no package manager."""
        from holdfast.resources.interfaces.pkg import PkgInterface  # noqa: PLC0415 - few states use it

        return self.interfaces.get(PkgInterface)


def _load_plugins() -> type[Plugins]:
    """Import what uses plugins. Blocks."""
    from holdfast.agent.plugins.plugins import Plugins  # noqa: PLC0415 - most agents use none
    from holdfast.agent.records import remote_records  # noqa: F401, PLC0415 - the same

    return Plugins
