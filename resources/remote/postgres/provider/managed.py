"""What the operations of all resources have in common: identifiers, reading in batches, transactions and revisions."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import identifiers
from holdfast import plugin
from sessions import NoDatabase, Session, Sessions

V = TypeVar("V")


class WantedResource(NamedTuple, Generic[V]):
    """A resource to be read."""

    names: tuple[str, ...]
    """The names of its identifier."""
    inputs: V
    known: bool = True
    """Whether the provider has created or found the resource before."""


class SeenResource(NamedTuple, Generic[V]):
    """A resource in the server."""

    state: V
    facts: Any
    """Everything that the server reports about the resource; each value has its own revision."""
    differs: tuple[str, ...] = ()


Result = plugin.Found[V] | Exception | None


class ManagedOperations(plugin.Operations[V]):
    """The operations on a kind of resource.

    A subclass finds several resources at once, and creates, alters and drops one.
    """

    in_transaction = True
    """Whether a change is made in one transaction."""
    named: ClassVar[tuple[str, ...]] = ("name",)
    """Fields with names of things in the server, or with sets of such names."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions

    @abstractmethod
    def identifier(self, inputs: V) -> str:
        """Return the identifier of the resource with these inputs."""

    def names(self, identifier: str) -> tuple[str, ...]:
        """Return the names of an identifier."""
        return identifiers.parts(identifier)

    def joined(self, names: Sequence[str]) -> str:
        """Return the identifier of these names."""
        return identifiers.joined(*names)

    def database(self, names: Sequence[str]) -> str:
        """Return the database in which a resource is found and changed; empty: any."""
        return ""

    @abstractmethod
    async def find(self, session: Session, wanted: Sequence[WantedResource[V]]) -> Sequence[SeenResource[V] | None]:
        """Return several resources of one database, in order; None for each that does not exist."""

    @abstractmethod
    async def make(self, session: Session, inputs: V) -> None:
        """Create a resource."""

    @abstractmethod
    async def alter(self, session: Session, seen: SeenResource[V], inputs: V) -> None:
        """Change what differs from the inputs."""

    @abstractmethod
    async def drop(self, session: Session, seen: SeenResource[V]) -> None:
        """Remove a resource."""

    def refused(self, inputs: V) -> Sequence[plugin.Violation]:
        """Return what is wrong with the inputs besides names."""
        return ()

    # -- what the agent calls ----------------------------------------------------------------------------------

    async def check(self, inputs: V) -> Sequence[plugin.Violation]:
        """Refuse names that the server would refuse or truncate, and inputs that the kind refuses."""
        wrong = [each for field in self.named for each in identifiers.wrong_name(field, getattr(inputs, field))]
        return [*wrong, *self.refused(inputs)]

    async def read_many(self, wanted: Sequence[tuple[plugin.Key, V]]) -> Sequence[Result[V]]:
        """Read the resources with one query for each database."""
        results: list[Result[V]] = [None] * len(wanted)
        groups: dict[str, dict[int, WantedResource[V]]] = defaultdict(dict)
        for number, (key, inputs) in enumerate(wanted):
            names = self.names(key.id or self.identifier(inputs))
            groups[self.database(names)][number] = WantedResource(names, inputs, bool(key.id))

        async def look(database: str, group: dict[int, WantedResource[V]]) -> None:
            for number, found in zip(group, await self._group(database, list(group.values())), strict=True):
                results[number] = found

        await asyncio.gather(*(look(database, group) for database, group in groups.items()))
        return results

    async def _group(self, database: str, wanted: Sequence[WantedResource[V]]) -> Sequence[Result[V]]:
        try:
            async with self.sessions.session(database) as session:
                found = await self.find(session, wanted)
        except (plugin.Temporary, plugin.Permanent) as error:
            return [error] * len(wanted)
        return [seen and self._found(each.names, seen) for each, seen in zip(wanted, found, strict=True)]

    async def create(self, inputs: V) -> plugin.Found[V]:
        """Create the resource, and return it as the server has it then."""
        names = self.names(self.identifier(inputs))
        async with self._changing(names) as session:
            await self.make(session, inputs)
            return await self._result(session, names, inputs)

    async def update(self, found: plugin.Found[V], inputs: V) -> plugin.Found[V]:
        """Change what differs, if the resource still has the revision that was read."""
        names = self.names(found.id)
        async with self._changing(names) as session:
            seen = await self._present(session, found, inputs)
            if seen is None:
                raise plugin.Conflict(f"{found.id} does not exist any more")
            await self.alter(session, seen, inputs)
            return await self._result(session, names, inputs)

    async def delete(self, found: plugin.Found[V]) -> None:
        """Drop the resource, if it exists and still has the revision that was read."""
        try:
            async with self._changing(self.names(found.id)) as session:
                if (seen := await self._present(session, found, found.state)) is not None:
                    await self.drop(session, seen)
        except NoDatabase:
            return

    @asynccontextmanager
    async def _changing(self, names: Sequence[str]) -> AsyncIterator[Session]:
        database, sessions = self.database(names), self.sessions
        if not self.in_transaction:
            async with sessions.turn(sessions.building, database), sessions.session(database) as session:
                yield session
            return
        async with (
            sessions.turn(sessions.changes[database], database),
            sessions.session(database) as session,
            session.connection.transaction(),
        ):
            yield session

    async def _present(self, session: Session, found: plugin.Found[V], inputs: V) -> SeenResource[V] | None:
        """Return the present resource. Raises `Conflict` if it is not the one that was read."""
        seen = (await self.find(session, [WantedResource(self.names(found.id), inputs)]))[0]
        if seen is not None and found.revision and revision(seen) != found.revision:
            raise plugin.Conflict(f"{found.id} has been changed by others meanwhile")
        return seen

    async def _result(self, session: Session, names: tuple[str, ...], inputs: V) -> plugin.Found[V]:
        seen = (await self.find(session, [WantedResource(names, inputs)]))[0]
        if seen is None:
            raise plugin.Temporary(f"{self.joined(names)} has disappeared as soon as it was made")
        return self._found(names, seen)

    def _found(self, names: tuple[str, ...], seen: SeenResource[V]) -> plugin.Found[V]:
        return plugin.Found(self.joined(names), seen.state, revision(seen), seen.differs)


class Single(ManagedOperations[V]):
    """The operations on a kind of resource whose identifier is its name, by which other resources refer to it."""

    def names(self, identifier: str) -> tuple[str, ...]:
        """Return the name."""
        return (identifier,)

    def joined(self, names: Sequence[str]) -> str:
        """Return the name."""
        return names[0]


def revision(seen: SeenResource[Any]) -> str:
    """Return a text that changes whenever the server reports other facts."""
    return sha256(repr(seen.facts).encode(errors="replace")).hexdigest()[:32]


def given(value: Any, default: Any = None) -> Any:
    """Return a value; the default if it is not given."""
    return default if value is plugin.UNSET else value
