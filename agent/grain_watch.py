"""Detects changes of grains that templates or resources have read since the graph was made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from holdfast.agent.engine.model.events import Event, Notice, PassEnded
from holdfast.agent.facts import Grains
from holdfast.agent.host.system_events import EventTopic, SystemEvents
from holdfast.agent.loggers import LazyLogger
from holdfast.states.errors import CompileError
from holdfast.states.view.grains import ALL, CALLS, seen

log = LazyLogger("holdfast")

_TOPICS = {
    **dict.fromkeys(
        ("ipv4", "ipv6", "ip4_interfaces", "ip6_interfaces", "ip_interfaces", "hwaddr_interfaces"),
        (EventTopic.ADDRESSES,),
    ),
    **dict.fromkeys(("ip_gw", "ip4_gw", "ip6_gw"), (EventTopic.ROUTES,)),
    **dict.fromkeys(("nodename", "host", "localhost", "fqdn", "domain", "id"), (EventTopic.NAME,)),
    **dict.fromkeys(("disks", "ssds"), (EventTopic.DEVICES,)),
    ALL: (EventTopic.ADDRESSES, EventTopic.ROUTES, EventTopic.NAME, EventTopic.DEVICES),
    **dict.fromkeys((f"{CALLS}network", f"{CALLS}dnsutil"), (EventTopic.ADDRESSES, EventTopic.ROUTES)),
    **dict.fromkeys((f"{CALLS}mount", f"{CALLS}disk", f"{CALLS}status"), (EventTopic.MOUNTS,)),
}
"""Grain, or module of calls, that templates may read -> topics that may change its value."""


class GrainWatch:
    """Follows the machine until closed. `gather` reads all grains; `changed` is called when grains in use differ.

    `watch` watches paths like `PathWatcher.watch`.
    """

    def __init__(
        self,
        gather: Callable[[], Awaitable[Grains]],
        changed: Callable[[], None],
        watch: Callable[..., AsyncIterator[None]],
    ) -> None:
        self._gather = gather
        self._changed = changed
        self._events = SystemEvents(self._heard, watch)
        self._grains: Mapping[str, Any] = {}
        self._read: Callable[[], Collection[str]] = tuple
        self._again = False
        """Whether to read the grains again after the present reading."""
        self._looking: asyncio.Task[None] | None = None

    def use(self, grains: Mapping[str, Any], read: Callable[[], Collection[str]]) -> None:
        """Set the grains of the graph. `read` returns the names of the grains and modules that were read so far."""
        self._grains, self._read = grains, read
        self._follow()

    def tell(self, event: Event) -> None:
        """Handle an event of the engine: read grains again at each recheck; update the topics after runs."""
        if isinstance(event, Notice) and event.code == "recheck":
            self.look()
        elif isinstance(event, PassEnded) and event.record.cause in (
            "start",
            "states changed",
            "grains changed",
            "recheck",
        ):
            self._follow()

    def _follow(self) -> None:
        self._events.follow(topics(self._read()))

    def look(self) -> None:
        """Read the grains again soon."""
        if self._looking is not None:
            self._again = True
        elif self._grains:
            self._looking = asyncio.create_task(self._look(), name="grains")

    async def close(self) -> None:
        """Stop following."""
        await self._events.close()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def _heard(self, news: frozenset[EventTopic]) -> None:
        if any(topics([name]) & news for name in self._read() if name.startswith(CALLS)):
            self._changed()  # results of calls may differ: render all templates again
        else:
            self.look()

    async def _look(self) -> None:
        try:
            while True:
                self._again = False
                try:
                    found = await self._gather()
                except (CompileError, OSError):  # the next compilation reports it, or the next reading succeeds
                    found = None
                read = self._read()
                before = seen(self._grains, read)
                different = (
                    ()
                    if found is None
                    else sorted(name for name, is_ in seen(found, read).items() if is_ != before[name])
                )
                if different:
                    log.info("grains have changed: %s", ", ".join(different), code="grains-changed")
                    self._changed()
                if not self._again:
                    return
        finally:
            self._looking = None


def topics(read: Iterable[str]) -> frozenset[EventTopic]:
    """Return the topics to follow for these grains and modules."""
    return frozenset(topic for name in read for topic in _TOPICS.get(name, ()))
