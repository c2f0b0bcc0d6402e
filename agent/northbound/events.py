"""Events of records, and the queues of those that watch them.

Per record, events come in the order of revisions, after the cache shows the change. A slow subscriber gets fewer
events: those of one record are merged, so that its last state is right. It never delays others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from holdfast.agent.northbound.indexing import scalar
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.values import ANY

T = TypeVar("T", bound=Model)

QUEUE = 1000
"""Events that wait for one subscriber before those of the same record are merged."""


class Event(NamedTuple, Generic[T]):
    """What happened to one record."""

    kind: Literal["created", "updated", "deleted"]
    model: type[T]
    id: str
    old: T | None
    new: T | None
    changed: frozenset[str]
    """Names of the fields that differ; all fields when it was created, none when it was deleted."""
    revision: int
    merged: int = 1
    """Number of events that this one stands for; more than one if the subscriber was slow."""


def event(model: type[T], id: str, old: T | None, new: T | None, revision: int, *, merged: int = 1) -> Event[T] | None:
    """Return what happened between two states of a record; None if nothing did."""
    if new is None:
        return None if old is None else Event("deleted", model, id, old, None, frozenset(), revision, merged)
    if old is None:
        return Event("created", model, id, None, new, frozenset(model.model_fields), revision, merged)
    changed = new.changed_from(old)
    return Event("updated", model, id, old, new, changed, revision, merged) if changed else None


class Filter(Generic[T]):
    """The records that a subscriber wants: of a model, with these values in their fields, for which `where` is true.

    A value may be a set, which matches each of its elements, or `ANY`. A record that begins to match counts as created,
    one that ceases to match as deleted.
    """

    def __init__(
        self,
        model: type[T],
        values: Mapping[str, Any] | None = None,
        where: Callable[[T], bool] | None = None,
        *,
        subclasses: bool = False,
    ) -> None:
        self.model, self.where, self.subclasses = model, where, subclasses
        self.values = {
            name: frozenset(map(scalar, value)) if isinstance(value, (set, frozenset)) else frozenset((scalar(value),))
            for name, value in (values or {}).items()
            if value is not ANY
        }

    def covers(self, model: type[Model]) -> bool:
        """Return whether records of a model may match."""
        return model is self.model or (self.subclasses and issubclass(model, self.model))

    def matches(self, record: T | None) -> bool:
        """Return whether a record matches."""
        if record is None or any(scalar(getattr(record, name)) not in wanted for name, wanted in self.values.items()):
            return False
        return self.where is None or self.where(record)

    def seen(self, found: Event[Any]) -> Event[T] | None:
        """Return an event as a subscriber with this filter sees it; None if it does not see it."""
        if not self.covers(found.model):
            return None
        if not self.values and self.where is None:
            wanted: Event[T] | None = found
        else:
            old, new = (record if self.matches(record) else None for record in (found.old, found.new))
            wanted = event(found.model, found.id, old, new, found.revision, merged=found.merged)
        return wanted if wanted and wanted.kind in found.model.events else None


class EventQueue(Generic[T]):
    """The events that wait for one subscriber.

    The iteration ends when the queue is closed, or with an error of the subscriber's own condition.
    """

    def __init__(self, wanted: Filter[T], limit: int = QUEUE) -> None:
        self.wanted = wanted
        self._limit = self._merge_at = limit
        self._events: deque[Event[T]] = deque()
        self._ready = asyncio.Event()
        self.closed = False
        self._error: Exception | None = None
        """The error of the subscriber's own condition."""

    def offer(self, found: Event[Any]) -> None:
        """Add an event, if the subscriber wants it."""
        try:
            seen = self.wanted.seen(found)
        except Exception as error:  # noqa: BLE001 - `where` is the subscriber's code, which alone hears of it
            self._error = error
            self.close()
            return
        if seen is None or self.closed:
            return
        self._events.append(seen)
        if len(self._events) > self._merge_at:
            self._events = deque(merge(self._events))
            self._merge_at = max(self._limit, 2 * len(self._events))
        self._ready.set()

    def close(self) -> None:
        """End the iteration after the waiting events."""
        self.closed = True
        self._ready.set()

    def __len__(self) -> int:
        """Return the number of events that wait."""
        return len(self._events)

    async def __aiter__(self) -> AsyncIterator[Event[T]]:
        """Yield the events as they arrive."""
        while True:
            while self._events:
                yield self._events.popleft()
            self._merge_at = self._limit
            if self._error:
                raise self._error
            if self.closed:
                return
            self._ready.clear()
            await self._ready.wait()


def merge(events: Iterable[Event[T]]) -> list[Event[T]]:
    """Return one event for each record, from its state before the first to its state after the last.

    Records keep the order of their last event, so that what a record refers to still comes before it.
    """
    merged: dict[tuple[type[Model], str], tuple[T | None, Event[T], int]] = {}
    for each in events:
        key = (each.model, each.id)
        first, _, number = merged.pop(key, (each.old, each, 0))
        merged[key] = (first, each, number + each.merged)
    found = (
        event(last.model, last.id, first, last.new, last.revision, merged=count)
        for first, last, count in merged.values()
    )
    return [each for each in found if each is not None]
