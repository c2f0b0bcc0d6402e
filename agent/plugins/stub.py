"""The base classes of a provider, and the types of its arguments and results: the vocabulary of `holdfast.plugin`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

from holdfast.agent.plugins.values import Secret, Violation
from holdfast.resources.errors import HoldfastError
from holdfast.resources.idl import UNSET

V = TypeVar("V")
R = TypeVar("R")
Configure = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Receives the configuration of the provider, decoded and validated."""


class Conflict(HoldfastError):
    """The resource no longer has the revision that was expected."""


@dataclass(frozen=True)
class Key:
    """The known facts about a resource before it is read."""

    id: str
    """Identifier that `create` has returned; empty if it is unknown."""
    trace: str = ""
    """Identifier of the run, for the log."""
    intent: str = ""
    """Token of a creation whose result the agent does not know: see `create_once`; empty if there was none."""


@dataclass(frozen=True)
class Found(Generic[V]):
    """A resource that exists."""

    id: str
    state: V
    revision: str = ""
    """A value that changes whenever the resource does; empty if the provider has none."""
    differs: tuple[str, ...] = ()
    """Write-only fields whose value in the resource differs from the inputs, if `read` can find out."""


class Partial(HoldfastError):
    """A resource was created, but not finished; the next attempt updates `found`."""

    def __init__(self, message: str, found: Found[Any]) -> None:
        super().__init__(message)
        self.found = found


@dataclass(frozen=True)
class Unwatched:
    """Yielded by `watch`: changes are not reported from now on, for example because the connection is lost.

    The next event about the same resource or kind ends this state, and says that the resource may have changed
    meanwhile.
    """

    why: str
    id: str = ""
    """The resource; empty: all of the kind."""


class Struct:
    """Base of the generated dataclasses. A field that is not given is `UNSET`."""

    _tag: ClassVar[str] = ""
    """Value of the member `type` that identifies the struct in a union; no name of a field begins with an
    underscore."""


def tag_of(struct: type[Struct]) -> str:
    """Return the value that identifies a struct in a union; empty if it has none."""
    return struct._tag  # noqa: SLF001 - it has the underscore because of the names of fields


def plain(value: Any) -> Any:
    """Return a value with generated dataclasses as dicts, without fields that are not given."""
    if isinstance(value, Struct):
        given = {each.name: getattr(value, each.name) for each in fields(value)}  # type: ignore[arg-type]
        tag = tag_of(type(value))
        tagged = {"type": tag} if tag else {}
        return tagged | {name: plain(item) for name, item in given.items() if item is not UNSET}
    if isinstance(value, Secret):
        return Secret(plain(value.value))
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


class Function(Generic[V, R]):
    """A function of the package. `V` and `R` are the generated dataclasses of its arguments and of its result."""

    token: ClassVar[str]
    """`package:module:Name`."""
    arguments: ClassVar[type[Any]]
    result: ClassVar[type[Any]]

    async def call(self, arguments: V) -> R:
        """Return the result for arguments that satisfy the schema."""
        raise NotImplementedError


class Operations(Generic[V]):
    """The operations on one kind of resource. `V` is the generated dataclass with all of its fields.

    If the author does not write a method, its documentation says what it does.
    """

    token: ClassVar[str]
    """`package:module:Name`."""
    struct: ClassVar[type[Any]]
    """The generated dataclass."""

    async def check(self, inputs: V) -> Sequence[Violation]:
        """Return the problems of inputs that satisfy the schema and are all known; by default none."""
        return ()

    async def diff(self, found: Found[V], inputs: V) -> Sequence[str]:
        """Return further fields whose difference replaces the resource; by default only those declared so do."""
        return ()

    async def read(self, key: Key, inputs: V) -> Found[V] | None:
        """Return the resource; None if it does not exist. Without an id, find it by its inputs.

        An author writes this or `read_many`.
        """
        if type(self).read_many is Operations.read_many:
            raise NotImplementedError
        found = (await self.read_many([(key, inputs)]))[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def read_many(self, wanted: Sequence[tuple[Key, V]]) -> Sequence[Found[V] | Exception | None]:
        """Return several resources, in order. By default one by one; write this if one query can return all."""
        results: list[Found[V] | Exception | None] = []
        for key, inputs in wanted:
            try:
                results.append(await self.read(key, inputs))
            except Exception as error:  # noqa: BLE001 - each resource fails by itself
                results.append(error)
        return results

    async def create(self, inputs: V) -> Found[V]:
        """Create the resource, and return it."""
        raise NotImplementedError

    async def create_once(self, inputs: V, intent: str) -> Found[V]:
        """Create the resource as `create` does, which is the default; override this if a server accepts such tokens.

        `intent` is the same whenever the creation is tried again because its result is unknown: the agent or the
        provider died during it. If a resource was created with this token before, it is returned, and none is created.
        """
        return await self.create(inputs)

    async def update(self, found: Found[V], inputs: V) -> Found[V]:
        """Change the resource to these inputs, and return it."""
        raise NotImplementedError

    async def delete(self, found: Found[V]) -> None:
        """Delete the resource; it is no error if it does not exist."""
        raise NotImplementedError

    async def refusal(self, found: Found[V]) -> str:
        """Return why `delete` would fail, without a change. By default that is unknown, so a plan cannot say it."""
        return ""

    def watch(self, revision: str, noop: bool) -> AsyncIterator[tuple[str, str] | Unwatched]:
        """Yield two empty texts when armed, and then id and revision of each changed resource.

        An empty id says that changes may have been missed, and `Unwatched` that changes are not reported for some time;
        both can also come first. `revision` is that of the last event that the agent has received; empty at the start.
        With `noop` the agent changes nothing, and the watch must not change the server either.
        """
        raise NotImplementedError

    async def upgrade(self, version: int, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state that an older version has stored, as data of the present version."""
        raise NotImplementedError
