"""What the agent remembers of remote resources: identifier and last state of each, across restarts.

Each resource is remembered under its token and the name of its declaration. The process that runs the resource writes
its record: the agent, or a one-shot run, beside an agent or without one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from holdfast.agent.host.blocking import Blocking
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.errors import Invalid, NorthboundError, NotFound
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.privacy import Private
from holdfast.agent.records.reading import RecordReader
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.plugin import RemoteRecord

PAGE = 1000
"""Records that are read at once."""


class RememberedResource(Model, table="remote_resources"):
    """A remote resource. The ID is its token, a space and the name of its declaration."""

    token: str
    """Kind: `package:module:Name`."""
    name: str
    identifier: Annotated[str, Private()]
    """What the plugin calls it."""
    state: Annotated[str, Private()] = ""
    """State when it was last read or changed, in JSON, without secrets; empty: not known."""
    version: int = 1
    """Version of the form of the state."""
    revision: Annotated[str, Private()] = ""
    unfinished: bool = False
    """Its creation has failed half-way."""
    replaced: Annotated[str, Private()] = ""
    """Identifier of the resource that it has replaced and that is still to be deleted."""
    hidden: Annotated[str, Private()] = ""
    """Salted hash of the write-only arguments that were sent last."""

    def remembered(self) -> RemoteRecord:
        """Return the record as kinds use it."""
        state = self.state.encode(errors="surrogatepass")
        same = (self.version, self.revision, self.unfinished, self.replaced, self.hidden)
        return RemoteRecord(self.identifier, state, *same)


def key_of(token: str, name: str) -> str:
    """Return the ID of a record."""
    return f"{token} {name}"


class RemoteMemory:
    """The records in a database. `open_` opens it when a resource needs it."""

    def __init__(self, open_: Callable[[], Awaitable[NbApi]]) -> None:
        self._open = open_

    async def get(self, token: str, name: str) -> RemoteRecord | None:
        """Return what is remembered; None if nothing is. Raises `Temporary` while the database cannot be read.

        It is read from the file: the cache may not show yet what another process has written.
        """
        try:
            found = await (await self._open()).get(RememberedResource, key_of(token, name))
        except NorthboundError as error:
            raise Temporary(f"cannot read what is known about {name}: {error}") from error
        return found.remembered() if found else None

    async def put(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Remember, durable on return; None forgets.

        Raises `Temporary` while the database cannot be written, and `Permanent` for what it cannot hold.
        """
        try:
            api = await self._open()
            if record is None:
                await api.delete(_row(token, name, RemoteRecord("", b"", 1)))
                return
            async with api.transaction() as writing:
                writing.put(_row(token, name, record))
        except NotFound:
            return
        except (Invalid, UnicodeError) as error:
            raise Permanent(f"cannot record what is known about {name}: {error}") from error
        except NorthboundError as error:
            raise Temporary(f"cannot record what is known about {name}: {error}") from error


class CopiedMemory:
    """The records of an agent, for a run that changes nothing: it reads them once, and keeps what is new in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[str, RemoteRecord | None] | None = None

    async def get(self, token: str, name: str) -> RemoteRecord | None:
        """Return what is remembered; None if nothing is, or if this user may not read the records."""
        if self._records is None:
            self._records = await Blocking(1)(_read, self._path)
        return self._records.get(key_of(token, name))

    async def put(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Remember until the run ends."""
        await self.get(token, name)
        if self._records is not None:
            self._records[key_of(token, name)] = record


def all_in(reader: RecordReader) -> Iterator[RememberedResource]:
    """Yield all records in a file. Raises `Unavailable`, and `Invalid` for one that cannot be read."""
    after = ""
    while rows := reader.scan(RememberedResource.table, after=after, limit=PAGE):
        for row in rows:
            yield RememberedResource.decode(row.data)
        after = rows[-1].id


def _read(path: Path) -> dict[str, RemoteRecord | None]:
    """Return the records in a file, up to the first that cannot be read. Blocks."""
    found: dict[str, RemoteRecord | None] = {}
    try:
        with RecordReader(path) as reader:
            for each in all_in(reader):
                found[each.id] = each.remembered()
    except (HoldfastError, OSError):
        return found
    return found


def _row(token: str, name: str, record: RemoteRecord) -> RememberedResource:
    return RememberedResource(
        id=key_of(token, name),
        token=token,
        name=name,
        identifier=record.id,
        state=_without_secrets(record.state),
        version=record.version,
        revision=record.revision,
        unfinished=record.unfinished,
        replaced=record.replaced,
        hidden=record.hidden,
    )


def _without_secrets(state: bytes) -> str:
    """Return a state without the members that are secret."""
    if b"$secret" not in state:
        return state.decode(errors="surrogatepass")
    return json.dumps(_open(json.loads(state)), ensure_ascii=False, separators=(",", ":"))


def _open(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _open(item) for key, item in data.items() if not (isinstance(item, dict) and "$secret" in item)}
    return [_open(item) for item in data] if isinstance(data, list) else data
