"""Delivers events to subscribers: which events a change of the cache causes, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from holdfast.agent.northbound.events import Event, EventQueue, event
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.ref import OnDelete
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.store.base import StoreView

Record = tuple[type[Model], str]

NAMED = 3
"""Most records that one problem names."""


class EventDelivery:
    """Notifies subscribers of changes.

    If a record refers to one that does not exist yet, its event follows that of its target.

    `complete` says whether the cache holds all records of a model; targets of other models are not waited for.
    """

    def __init__(self, complete: Callable[[type[Model]], bool]) -> None:
        self.subscriptions: set[EventQueue[Any]] = set()
        self.order: dict[type[Model], int] = {}
        """Model -> its position: after the models to which it refers."""
        self._complete = complete
        self._held: dict[Record, Event[Any]] = {}
        """Events of records that refer to one that does not exist yet."""

    def publish(self, before: StoreView, after: StoreView, records: Iterable[Record]) -> None:
        """Publish the differences of two views: targets before records that refer to them; deletions last, reversed."""
        found = []
        for record in dict.fromkeys(records):
            held = self._held.pop(record, None)  # subscribers do not know the record yet
            if each := event(*record, held.old if held else before.get(*record), after.get(*record), after.revision):
                found.append(each)
        there = [each for each in found if each.kind != "deleted"]
        gone = [each for each in found if each.kind == "deleted"]
        there.sort(key=lambda each: self.order[each.model])
        gone.sort(key=lambda each: -self.order[each.model])
        for each in (*there, *gone):
            self._deliver(each, after)

    def close(self) -> None:
        """End all subscriptions."""
        for each in list(self.subscriptions):
            each.close()

    def problems(self, view: StoreView) -> Iterator[str]:
        """Yield the records whose events are held back, and why; of many, only a few."""
        for each in [*self._held.values()][:NAMED]:
            if target := self._missing(each.new, view):
                model, key = target
                yield f"{each.model.table} {each.id!r} refers to {model.table} {key!r}, which cannot be found"
        if len(self._held) > NAMED:
            yield f"{len(self._held) - NAMED} more records refer to records that cannot be found"

    def _deliver(self, found: Event[Any], view: StoreView) -> None:
        if self._missing(found.new, view):
            self._held[found.model, found.id] = found
            return
        for each in list(self.subscriptions):
            each.offer(found)
        if found.kind == "created" and self._held:
            for key, held in list(self._held.items()):
                if key in self._held and not self._missing(held.new, view):
                    del self._held[key]
                    self._deliver(held, view)

    def _missing(self, record: Model | None, view: StoreView) -> Record | None:
        """Return the first target of a record that must exist and is not in the view."""
        if record is None:
            return None
        needed = ((model, key) for model, keys in targets(record).items() if self._complete(model) for key in keys)
        return next((target for target in needed if not view.has(*target)), None)


def targets(record: Model) -> Mapping[type[Model], set[str]]:
    """Return the records that must exist because a record refers to them, by model."""
    found: dict[type[Model], set[str]] = {}
    for use, index in type(record).reference_indexes():
        if use.on_delete is not OnDelete.DANGLE:
            keys = {key for (key,) in index.keys(record) if isinstance(key, str)}
            found.setdefault(registry.find(use.target), set()).update(keys)
    return found
