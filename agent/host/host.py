"""The services of this machine that all resources share, and that end with it.

One `Host` belongs to one event loop. What a single resource sees of it is its `HostContext`.
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
from holdfast.agent.host.edition import Edition
from holdfast.agent.host.flushes import Flushes
from holdfast.agent.host.kept import Store
from holdfast.agent.host.sources import Sources
from holdfast.agent.tasks import Tasks
from holdfast.resources.interfaces.base import Bus
from holdfast.resources.secrets import Redactor
from holdfast.states.data import Call
from holdfast.states.grains import seen
from holdfast.states.hostfiles import absolute

if TYPE_CHECKING:
    from holdfast.agent.host.paths import PathWatcher
    from holdfast.agent.host.world import LocalWorld

DOWNLOADS = 4
"""Downloads at once; apart from what else blocks, so that a slow server does not hold up the disk."""


class Host:
    """The machine. Use as an async context manager.

    `providers` is the operator's choice of tools (`{"pkg": "apt"}`); `durable` says whether files are on the disk before they
    count as written; `managed` are the paths that the states manage. `health` and `tasks` are the daemon's, if there is one.
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
        durable: bool = True,
        health: Health | None = None,
        tasks: Tasks | None = None,
    ) -> None:
        self.var_dir, self.durable = var_dir, durable
        self.facts: Mapping[str, Any] = facts or {}
        self.pillar: Mapping[str, Any] = pillar or {}
        self.redactor = Redactor(self.pillar)
        """Covers the secrets of the pillar in what is told."""
        self.options: Mapping[str, Any] = options or {}
        """The settings that templates see as `opts`."""
        self._readers: set[str] = set()
        """Identities of the resources that have read pillar or options since these changed last."""
        self._reads: dict[str, set[str]] = {}
        """Resource -> names of the grains that it has read."""
        self._managed: Sequence[str] = ()
        self._find_managed: Callable[[], Iterable[str]] | None = None
        """Finds those paths anew, once somebody wants to know."""
        self.health = health or Health()
        self.blocking, self.long_blocking = Blocking(spare=SPARE, linger=LINGER), Blocking(spare=SPARE)
        self.flushes = Flushes(self.blocking, self._tell_of_flushes)
        self._network = Blocking(DOWNLOADS)
        self.sources = Sources(states, self.blocking, self._network)
        self._store = Store(absolute(var_dir))
        self._providers = providers or {}
        self._tasks, self._own_tasks = tasks or Tasks(self.health), tasks is None
        self._interfaces: dict[str, Any] = {}
        self.onlooker: Callable[[str, str, bytes], None] | None = None
        """Shows a person what commands write: is called with whose it is, by which stream it comes, and what."""
        self._bus: Any = None

    async def __aenter__(self) -> Self:
        """Nothing is opened before it is used."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give everything back."""
        await self.flushes.done()
        if "paths" in self.__dict__:
            self.paths.close()
        if self._bus is not None:
            await self._bus.close()
        if self._own_tasks:
            await self._tasks.stop()

    @cached_property
    def paths(self) -> PathWatcher:
        """Events of paths; a one-shot run needs none."""
        from holdfast.agent.host.paths import PathWatcher  # noqa: PLC0415 - see above

        return PathWatcher(self.health)

    @cached_property
    def world(self) -> LocalWorld:
        """Strings and host maps."""
        from holdfast.agent.host.world import LocalWorld  # noqa: PLC0415 - few states use it

        file, name = self.var_dir / "world.json", partial(self._fact, "id")
        return LocalWorld(file, name, self.blocking, self.paths.watch, durable=self.durable)

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
    async def taken_over(self, calls: Iterable[Call], states: Path) -> AsyncIterator[Edition]:
        """Read the sources of these calls as they are now, from now on: see `Sources`."""
        async with self.sources.taken_over(calls, states, self._store) as edition:
            yield edition
        if why := self._store.trouble:
            self.health.set(
                "sources-not-kept", f"{why}; a source that is changed now may keep its state from being repaired"
            )
        else:
            self.health.clear("sources-not-kept")

    def _tell_of_flushes(self, why: str) -> None:
        if why:
            self.health.set("not-flushed", f"cannot flush {why}; what was written there may be lost with the power")
        else:
            self.health.clear("not-flushed")

    def context(self, identity: str) -> HostContext:
        """What the resource of this identity sees of the world."""
        return HostContext(self, identity)

    def update(
        self,
        *,
        facts: Mapping[str, Any] | None = None,
        pillar: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        managed: Callable[[], Iterable[str]] | None = None,
    ) -> set[str]:
        """Replace what has changed; contexts that exist already see it at once. `managed` finds the paths that states manage.

        Returns the identities of the resources that have read what has changed: some of the grains, the pillar or the options.
        """
        facts_before, before = self.facts, (self.pillar, self.options)
        self.facts = self.facts if facts is None else facts
        if pillar is not None:
            self.redactor = (
                self.redactor if pillar == self.pillar else Redactor(pillar, self.pillar)
            )  # what was secret a moment ago still stands in diffs
            self.pillar = pillar
        self.options = self.options if options is None else options
        self._find_managed = managed or self._find_managed
        outdated = {who for who, names in self._reads.items() if seen(facts_before, names) != seen(self.facts, names)}
        if before != (self.pillar, self.options):
            outdated |= self._readers
        self._readers -= outdated
        return outdated

    def read_by(self, identity: str) -> None:
        """Note that this resource has read pillar or options."""
        self._readers.add(identity)

    def reads(self, identity: str) -> set[str]:
        """Names of the grains that this resource reads; to be added to."""
        return self._reads.setdefault(identity, set())

    @property
    def read(self) -> frozenset[str]:
        """Names of the grains that resources have read."""
        return frozenset().union(*self._reads.values())

    def forget_all_but(self, identities: Collection[str]) -> None:
        """Of all other resources nothing has to be known any more."""
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
        """The system's D-Bus; connected when it is first used."""
        if self._bus is None:
            from holdfast.agent.host.dbus import SystemBus  # noqa: PLC0415 - most runs need none, and it takes long to import

            self._bus = SystemBus(self._tasks, self.health, before=self.flushes.done)
        bus: Bus = self._bus
        return bus

    def interface(self, name: str) -> Any:
        """The provider that serves a virtual module here, chosen once. Raises `Permanent` when none fits."""
        if name not in self._interfaces:
            from holdfast.resources.interfaces.registry import bind  # noqa: PLC0415 - the same

            self._interfaces[name] = bind(name, self.context(f"interface[{name}]"), self._providers.get(name))
        return self._interfaces[name]
