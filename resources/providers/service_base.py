"""Bases of the providers of services.

`ServiceProvider` has a core of four methods, `_names`, `_inspect`, `_perform` and `_set_enabled`, and derives all other
functions except `watch`. `CommandServiceProvider` is for tools that are commands and keep their state in files: from
`_act` and `_sources` it derives `_perform`, which waits until a change is complete, and `watch`.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Literal

from holdfast.resources import paths
from holdfast.resources.context import Completed, Watch
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.provider import Provider
from holdfast.resources.interfaces.results import ChangeSet, ServiceStatus
from holdfast.resources.interfaces.service import ServiceInterface
from holdfast.resources.spelling import nearest
from holdfast.resources.watches import ProcessEnds, either, idle

Verb = Literal["start", "stop", "restart", "reload"]
STARTING = 5.0
"""Seconds within which a service runs after the tool's command has started it."""
SETTLE = 0.25
"""Seconds for which a service is observed after its start."""
STOPPING = 90.0
"""Seconds that a service may take to stop, if the caller gives no limit."""
PID = re.compile(r"\s*([1-9][0-9]{0,9})\b")
"""The process id at the beginning of a pid file."""
LAST_WORDS = 8
"""Number of lines of output in a message."""


class ServiceProvider(Provider, ABC, abstract=True):
    """Derives the functions of `service` from a core."""

    implements = ServiceInterface

    # -- the core ------------------------------------------------------------------------------------------------

    @abstractmethod
    async def _names(self) -> Iterable[str]:
        """Return the names of all services, in any order."""

    @abstractmethod
    async def _inspect(self, name: str) -> ServiceStatus:
        """Return the status of a service, which need not exist."""

    @abstractmethod
    async def _perform(
        self, verb: Verb, name: str, before: ServiceStatus, timeout: float | None, *, wait: bool
    ) -> None:
        """Make a change, and wait until it is complete. Raises `Permanent` with the last output of the service."""

    @abstractmethod
    async def _set_enabled(self, name: str, enabled: bool) -> None:
        """Change whether a service starts at boot."""

    # -- querying ------------------------------------------------------------------------------------------------

    async def list(self) -> tuple[str, ...]:
        """Return the names of all services."""
        return tuple(sorted(await self._names()))

    async def status(self, names: Sequence[str]) -> dict[str, ServiceStatus]:
        """Return the status of each service."""
        return {name: await self._inspect(name) for name in names}

    # -- changing ------------------------------------------------------------------------------------------------

    async def start(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Start a service, and check that it does not end at once. Option `no_block`."""
        return await self._change("start", name, timeout, test=test, options=options)

    async def stop(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Stop a service. Option `no_block`."""
        return await self._change("stop", name, timeout, test=test, options=options)

    async def restart(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Restart a service, and check that it does not end at once. Option `no_block`."""
        return await self._change("restart", name, timeout, test=test, options=options)

    async def reload(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Reload the configuration of a service. Option `no_block`."""
        return await self._change("reload", name, timeout, test=test, options=options)

    async def enable(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Enable the start at boot; a service that cannot be enabled is not changed."""
        before = await self._inspect(name)
        await self._demand("enable", name, before)
        old = before.enabled and not before.extra.get("partly")
        if old is False:
            await self._demand_switch("enable", name, before)
        return await self._switch(name, old, True, lambda: self._set_enabled(name, True), test=test)

    async def disable(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Disable the start at boot; a service that cannot be disabled is not changed."""
        before = await self._inspect(name)
        if before.enabled:
            await self._demand_switch("disable", name, before)
        return await self._switch(name, before.enabled, False, lambda: self._set_enabled(name, False), test=test)

    async def _switch(
        self, name: str, old: bool | None, new: bool, change: Callable[[], Awaitable[None]], *, test: bool
    ) -> ChangeSet:
        """Make a change for the next boot, unless there is nothing to change. `old` None: the service has no switch."""
        if old is None or old is new:
            return ChangeSet()
        if not test:
            await change()
        return ChangeSet(changes={name: {"old": old, "new": new}})

    async def _change(self, verb: Verb, name: str, timeout: float | None, *, test: bool, options: Options) -> ChangeSet:
        before = await self._inspect(name)
        if self._is_done(verb, before):
            return ChangeSet()
        if not test:
            await self._perform(verb, name, before, timeout, wait=not (options or {}).get("no_block"))
        elif before.exists:  # an earlier state may make a missing service
            await self._demand(verb, name, before)
        return ChangeSet(changes={name: {"old": before.state, "new": "inactive" if verb == "stop" else "active"}})

    def _is_done(self, verb: Verb, status: ServiceStatus) -> bool:
        """Return whether a service already has the state that the verb leads to."""
        return status.state in ("inactive", "failed") if verb == "stop" else verb == "start" and bool(status.active)

    async def _demand(self, verb: str, name: str, before: ServiceStatus) -> None:
        """Raise `Permanent` with the remedy if a change cannot succeed."""
        if not before.exists:
            near = nearest(name.removesuffix(".service"), await self.list())
            hint = f"; did you mean {near}?" if near else "; is its package installed?"
            raise Permanent(f"cannot {verb} {name}: there is no {self._title(name)}{hint}")

    async def _demand_switch(self, verb: Literal["enable", "disable"], name: str, before: ServiceStatus) -> None:
        """Raise `Permanent` with the remedy if the tool cannot change whether this service starts at boot."""

    def _title(self, name: str) -> str:
        """Return what the tool calls the service, for messages."""
        return f"service {name}"


class CommandServiceProvider(ServiceProvider, ABC, abstract=True):
    """Serves services with a tool whose commands change them, and whose files have their status."""

    trees: ClassVar[tuple[Path, ...]] = ()
    """Directories whose content changes when the start at boot of any service changes."""

    @abstractmethod
    async def _look(self, name: str) -> ServiceStatus:
        """Return the status of a service, which need not exist; its name is a valid one."""

    @abstractmethod
    async def _act(self, verb: Verb, name: str, before: ServiceStatus) -> Completed:
        """Run the tool's command for a change, by `_run`."""

    @abstractmethod
    def _sources(self, name: str) -> Iterable[Path]:
        """Return paths, at least one of which changes whenever the status of the service changes, except by a crash."""

    async def _inspect(self, name: str) -> ServiceStatus:
        if "/" in name or name in ("", ".", ".."):
            raise Permanent(f"cannot inspect {name!r}: it is not the name of a service")
        return await self._look(name)

    async def _run(self, *command: str) -> Completed:
        return await self.host.run(*command, check=False, combined=True, shown=True)

    async def _perform(
        self, verb: Verb, name: str, before: ServiceStatus, timeout: float | None, *, wait: bool
    ) -> None:
        await self._demand(verb, name, before)
        begun = time.time()
        try:
            async with asyncio.timeout(timeout):
                done = await self._act(verb, name, before)
                why = f"status {done.retcode}" if done.retcode else ""
                if wait and not why:
                    why = await self._outcome(verb, name, before)
        except TimeoutError:
            raise Temporary(f"cannot {verb} {name}: it took more than {timeout:g} s") from None
        if why:
            said = done.stdout if done.retcode else self._logged(name, begun) or done.stdout
            lines = said.strip().splitlines()[-LAST_WORDS:]
            raise Permanent("\n".join([f"cannot {verb} {name}: {why}{'; its last output:' if lines else ''}", *lines]))

    async def _demand(self, verb: str, name: str, before: ServiceStatus) -> None:
        await super()._demand(verb, name, before)
        if verb == "reload" and before.active is False:
            raise Permanent(f"cannot reload {name}: it does not run")

    async def _outcome(self, verb: Verb, name: str, before: ServiceStatus) -> str:
        """Wait until a change is complete; return why it has failed, or an empty text.

        A started service must not end at once, and a reload must leave the process as it is. After a restart, the
        tool may still report the former process for a moment.
        """
        if verb == "stop":
            return f"it still runs after {STOPPING:g} s" if (await self._once(name, False, STOPPING)).active else ""
        begun = await self._once(name, True, STARTING, former=before.pid if verb == "restart" else None)
        after = await self._once(name, False, SETTLE) if begun.active else begun
        if after.active is False or after.pid != begun.pid:
            return "it ended at once"
        return "another process runs in place of the former one" if verb == "reload" and before.pid != after.pid else ""

    async def _once(self, name: str, active: bool, limit: float, *, former: int | None = None) -> ServiceStatus:
        """Return the status once the service is active or inactive, as wanted, or after `limit` seconds.

        `former` is the number of a process that does not count.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                async for _ in self.watch([name]):
                    status = await self._inspect(name)
                    if status.active in (active, None) and (former is None or status.pid != former):
                        return status
        return await self._inspect(name)

    def _logs(self, name: str) -> Iterable[Path]:
        """Return the files in which the tool may have put the output of a service."""
        return ()

    def _logged(self, name: str, since: float) -> str:
        """Return the end of the first log that has new output; empty if there is none."""
        for path in map(str, self._logs(name)):
            with suppress(OSError, HoldfastError):  # another user may own the directory of the log
                seen = paths.at(path, follow=True).look()
                if seen and seen.st_mtime >= since:
                    return paths.read(path).decode(errors="replace")
        return ""

    def _pid_in(self, path: Path) -> int | None:
        """Return the process id in a pid file; None if there is none, or if the process has ended."""
        found = PID.match(text_of(path))
        if found is None:
            return None
        stat = text_of(self.host.system_path(Path(f"/proc/{found[1]}/stat")))
        return int(found[1]) if stat.rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"]) else None

    async def watch(self, names: Sequence[str]) -> Watch:
        """Watch the files of the tool by inotify, and the ends of the processes by pidfd.

        If no file has the process id of a service, only the files of the service are watched.
        """
        sources = [str(path) for name in names for path in self._sources(name)]
        trees = self.host.watch_path(*map(str, self.trees), recursive=True) if self.trees else idle()
        with ProcessEnds() as ends:
            async for event in either(self.host.watch_path(*sources), trees, ends.watch()):
                found = await self.status(names)
                ends.follow({status.pid for status in found.values() if status.pid})
                yield event


def text_of(path: Path) -> str:
    """Return the text of a small file; empty if it is missing, or if another user may have put it there."""
    try:
        return paths.read(os.path.normpath(path)).decode(errors="replace")
    except (OSError, HoldfastError):
        return ""
