"""Reads remote resources before their turn, in one-shot runs, which check one resource after the other.

The read of a resource that is due also reads those that come after it, in the same request. A result is used once, when
the resource itself is due, and only if nothing can have changed since: all results are dropped when a resource of the
package is changed, when a state has changed something or has failed, and after a few seconds. The number of resources
that are read ahead grows from zero while nothing changes and the provider answers quickly. An agent does not read
ahead: its watches may report a change before the turn of a resource, and its run would then use a result from before
the change.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from holdfast.agent.engine.model.events import Event, Ran
from holdfast.agent.plugins.values import has_unknown
from holdfast.agent.remote.calls import RemoteCalls
from holdfast.agent.remote.resource import RemoteResource
from holdfast.resources.context import Watch
from holdfast.resources.errors import HoldfastError
from holdfast.resources.plugin import CheckedInputs, Plugin, RemoteRecord
from holdfast.states.data import Call

MOST = 200
"""Resources that are read together."""
QUICK = 2.0
"""Seconds within which a request must be answered if the next one is to be larger; the first one starts the plugin."""
FRESH = 5.0
"""Seconds after which a result is no longer used."""
CHANGING = frozenset({"Create", "Update", "Delete", "Invoke"})
"""Methods that may change resources."""


class ReadAhead:
    """The reads ahead of one run. `calls` are in order of execution."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._due: dict[str, list[Due]] = defaultdict(list)
        for call in calls:
            if isinstance(call.resource, RemoteResource):
                self._due[call.resource.remote.package].append(Due(call.identity, call.resource))
        self._plugins: dict[str, AheadPlugin] = {}

    def plugin(self, package: str, plugin: Plugin) -> Plugin:
        """Return a plugin that reads ahead."""
        if package not in self._plugins:
            self._plugins[package] = AheadPlugin(plugin, self._due[package])
        return self._plugins[package]

    def tell(self, event: Event) -> None:
        """Drop all results if a state has changed something or has failed."""
        if isinstance(event, Ran) and event.outcome.news:
            for each in self._plugins.values():
                each.forget()


class Due(NamedTuple):
    """A resource that is still to be checked."""

    identity: str
    resource: RemoteResource

    async def item(self, plugin: Plugin) -> Any:
        """Return the item that its run will read; None if that is not known yet."""
        kind, values = self.resource.remote, self.resource.values()
        if kind.from_environment or any(map(has_unknown, values.values())):
            return None
        try:
            record = await plugin.remembered(kind.token, kind.key(self.identity))
        except HoldfastError:
            return None
        return RemoteCalls(kind, plugin, self.identity, values).item(record.id if record else "")


class EarlyAnswer(NamedTuple):
    """A result that was read ahead."""

    item: Any
    answer: Any
    until: float
    """Loop time."""


class AheadPlugin:
    """A plugin that reads ahead: see `resources/plugin.py`."""

    def __init__(self, plugin: Plugin, due: Sequence[Due]) -> None:
        self._plugin, self._due = plugin, due
        self._places = {each.identity: place for place, each in enumerate(due)}
        self._results: dict[str, EarlyAnswer] = {}
        """Identity -> the result that was read ahead."""
        self._size = 1
        """Resources that the next request reads; 0: a request has failed, so each resource is read alone."""
        self._changes = 0
        """How often all results were dropped."""

    @property
    def checked(self) -> CheckedInputs:
        """The arguments that the plugin has accepted: see the protocol."""
        return self._plugin.checked

    def forget(self) -> None:
        """Drop all results, also those that are being read."""
        self._results.clear()
        self._size = min(self._size, 1)
        self._changes += 1

    async def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Return the response to a request: see the protocol."""
        if method not in CHANGING or getattr(request, "dry_run", False):
            return await self._plugin.call(method, request, timeout)
        try:
            return await self._plugin.call(method, request, timeout)
        finally:
            self.forget()

    async def read(self, item: Any) -> Any:
        """Return the result of reading one resource, perhaps one that was read ahead."""
        identity = item.subject.trace
        known = self._results.pop(identity, None)
        if known is not None and known.item == item and asyncio.get_running_loop().time() < known.until:
            return known.answer
        if self._size and identity in self._places:
            return await self._read_together(self._places[identity], item)
        return await self._plugin.read(item)

    async def _read_together(self, place: int, item: Any) -> Any:
        """Return the result for a resource, and keep those for resources after it."""
        loop, changes = asyncio.get_running_loop(), self._changes
        items = await self._next(place)
        began = loop.time()
        reads = (self._plugin.read(each) for each in (item, *items))
        answer, *others = await asyncio.gather(*reads, return_exceptions=True)  # the reads are sent in one request
        if isinstance(answer, BaseException):
            if not items or not isinstance(answer, HoldfastError):
                raise answer
            self._size = 0  # another resource may be the cause
            return await self._plugin.read(item)
        if changes == self._changes:
            self._keep(items, others, loop.time() + FRESH)
            self._size = min(2 * self._size, MOST) if loop.time() < began + QUICK else max(self._size // 2, 1)
        return answer

    async def _next(self, place: int) -> list[Any]:
        """Return the items that the runs after this one will read."""
        due = (self._due[number] for number in range(place + 1, len(self._due)))
        unread = islice((each for each in due if each.identity not in self._results), self._size - 1)
        items = await asyncio.gather(*(each.item(self._plugin) for each in unread))
        return [each for each in items if each is not None]

    def _keep(self, items: Sequence[Any], answers: Sequence[Any], until: float) -> None:
        """Keep the results. A failure is left to the run of its resource, which reads it again."""
        for item, answer in zip(items, answers, strict=True):
            if not isinstance(answer, BaseException) and not answer.failure.code:
                self._results[item.subject.trace] = EarlyAnswer(item, answer, until)

    def watch(self, token: str, identifier: Callable[[], str]) -> Watch:
        """Watch a resource: see the protocol."""
        return self._plugin.watch(token, identifier)

    async def poll(self, seconds: float) -> bool:
        """Wait for the time of a poll: see the protocol."""
        return await self._plugin.poll(seconds)

    async def remembered(self, token: str, name: str) -> RemoteRecord | None:
        """Return the record of a resource: see the protocol."""
        return await self._plugin.remembered(token, name)

    async def remember(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Write the record of a resource: see the protocol."""
        await self._plugin.remember(token, name, record)
