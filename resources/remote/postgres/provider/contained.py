"""Resources within databases, which event triggers report."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from events import Events
from holdfast import plugin
from managed import ManagedOperations, Result
from sessions import NoDatabase, Sessions

V = TypeVar("V")
UNREAD = "unread"
"""Used as the revision of a resource that could not be read; no real revision is this text."""


class KnownResource(NamedTuple, Generic[V]):
    """A resource as it was last read or changed."""

    key: plugin.Key
    inputs: V
    revision: str | None
    """None if the resource did not exist."""


class Contained(ManagedOperations[V]):
    """The operations on a kind of resource within databases. The first of its names is that of its database."""

    def __init__(self, sessions: Sessions, events: Events) -> None:
        super().__init__(sessions)
        self._events = events
        self._known: dict[str, KnownResource[V]] = {}

    def database(self, names: Sequence[str]) -> str:
        """Return the database of a resource."""
        return names[0]

    async def read_many(self, wanted: Sequence[tuple[plugin.Key, V]]) -> Sequence[Result[V]]:
        """Read resources, and follow their databases from now on."""
        results = await super().read_many(wanted)
        found = [_found(each) for each in results]
        for (key, inputs), result, now in zip(wanted, results, found, strict=True):
            identifier = key.id or self.identifier(inputs)
            if isinstance(now, Exception):
                self._known.setdefault(identifier, KnownResource(key, inputs, UNREAD))
            else:
                self._known[identifier] = KnownResource(key, inputs, now.revision if now else None)
            self._events.follow(self._database_of(identifier), exists=not isinstance(result, NoDatabase))
        return found

    async def create(self, inputs: V) -> plugin.Found[V]:
        """Create the resource. The watch does not report this change."""
        return self._remembered(inputs, await super().create(inputs))

    async def update(self, found: plugin.Found[V], inputs: V) -> plugin.Found[V]:
        """Change the resource. The watch does not report this change."""
        return self._remembered(inputs, await super().update(found, inputs))

    async def delete(self, found: plugin.Found[V]) -> None:
        """Drop the resource. The watch does not report this change."""
        await super().delete(found)
        if found.id in self._known:
            self._known[found.id] = KnownResource(plugin.Key(""), self._known[found.id].inputs, None)

    def _database_of(self, identifier: str) -> str:
        return self.database(self.names(identifier))

    def _remembered(self, inputs: V, found: plugin.Found[V]) -> plugin.Found[V]:
        """Remember the result of a change. Nothing is awaited between the end of the change and this call."""
        self._known[found.id] = KnownResource(plugin.Key(found.id), inputs, found.revision)
        self._events.follow(self._database_of(found.id))
        return found

    async def watch(self, revision: str, noop: bool) -> AsyncIterator[tuple[str, str] | plugin.Unwatched]:
        """Report the resources that differ from what was last read, whenever a database may have changed.

        While the connection to a database is lost, its resources are reported as not watched; afterwards, as changed.
        """
        lost: set[str] = set()
        async with self._events.watched(noop=noop) as changes:
            for database in set(map(self._database_of, self._known)):
                self._events.follow(database)
            yield "", ""
            while True:
                database, why = await changes.take()
                if why:
                    lost.add(database)
                    for identifier in self._within(database):
                        yield plugin.Unwatched(why, identifier)
                elif database in lost:
                    lost.remove(database)
                    for identifier in self._within(database):
                        yield identifier, ""
                else:
                    for identifier in await self._changed(database):
                        yield identifier, ""

    def _within(self, database: str) -> Sequence[str]:
        """Return the identifiers of the known resources in a database."""
        return [name for name in self._known if self._database_of(name) == database]

    async def _changed(self, database: str) -> Sequence[str]:
        """Return the identifiers of the resources in a database that have changed since they were last read.

        Changes by the provider itself wait until this ends; earlier ones are remembered already.
        """
        async with self.sessions.changes[database]:
            wanted = {name: self._known[name] for name in self._within(database)}
            results = map(_found, await super().read_many([(each.key, each.inputs) for each in wanted.values()]))
        changed = []
        for (name, before), now in zip(wanted.items(), results, strict=True):
            known = self._known[name]  # the resource may have been read meanwhile
            revision = None if now is None or isinstance(now, Exception) else now.revision
            if not isinstance(now, Exception) and revision != known.revision:
                changed.append(name)
                if known is before:
                    self._known[name] = known._replace(revision=revision)
        return changed


def _found(result: Result[V]) -> Result[V]:
    """Return a result; None if the whole database does not exist."""
    return None if isinstance(result, NoDatabase) else result
