"""The agent's records of remote resources: identifier and last state of each, across restarts.

Each resource is remembered under its token and the name of its declaration. The process that runs the resource writes
its record: the agent, or a one-shot run, beside an agent or without one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar

from holdfast.agent.host.blocking import Blocking
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.base import TableRow
from holdfast.agent.northbound.errors import Invalid, NorthboundError, NotFound
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.privacy import Private
from holdfast.agent.records.reading import RecordReader
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.plugin import RemoteRecord

PAGE = 1000
"""Records that are read at once."""


def _several_replaced(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of schema 1, which had one identifier, as one of schema 2."""
    replaced = record.get("replaced", "")
    return {**record, "replaced": [replaced] if replaced else []}


class RememberedResource(Model, table="remote_resources", schema=2):
    """A remote resource. The ID is its token, a space and the name of its declaration."""

    upgrades: ClassVar[Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {1: _several_replaced}

    token: str
    """Kind: `package:module:Name`."""
    name: str
    identifier: Annotated[str, Private()]
    """The plugin's identifier of the resource."""
    state: Annotated[str, Private()] = ""
    """State when it was last read or changed, in JSON, without secrets; empty: not known."""
    version: int = 1
    """Version of the form of the state."""
    revision: Annotated[str, Private()] = ""
    unfinished: bool = False
    """Its creation has failed after it had begun."""
    replaced: Annotated[tuple[str, ...], Private()] = ()
    """Identifiers of the resources that it has replaced and that are still to be deleted, the oldest first."""
    hidden: Annotated[str, Private()] = ""
    """Salted hash of the write-only arguments that were sent last."""
    intent: Annotated[str, Private()] = ""
    """Token of a creation that was begun and whose result is unknown."""

    def remembered(self) -> RemoteRecord:
        """Return the record as kinds use it."""
        state = self.state.encode(errors="surrogatepass")
        same = (self.version, self.revision, self.unfinished, tuple(self.replaced), self.hidden, self.intent)
        return RemoteRecord(self.identifier, state, *same)


def key_of(token: str, name: str) -> str:
    """Return the ID of a record."""
    return f"{token} {name}"


MANY = 50
"""Number of records above which all are read at once."""


class RemoteMemory:
    """The records in a database. `open_` opens it when a resource needs it."""

    def __init__(self, open_: Callable[[], Awaitable[NbApi]]) -> None:
        self._open = open_
        self._waiting: list[tuple[str, asyncio.Future[RemoteRecord | None]]] = []
        """Keys of records that are wanted, with the futures of their callers."""
        self._reading: asyncio.Task[None] | None = None

    async def get(self, token: str, name: str) -> RemoteRecord | None:
        """Return the record; None if there is none.

        Raises `Temporary` while the database cannot be read. The record is read from the file: the cache may lag behind
        another process. Records that are requested during a read are then read together.
        """
        answer: asyncio.Future[RemoteRecord | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key_of(token, name), answer))
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        try:
            return await answer
        except NorthboundError as error:
            raise Temporary(f"cannot read what is known about {name}: {error}") from error

    async def _read(self) -> None:
        """Read the wanted records until no more are wanted."""
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                found = await self._found({key for key, answer in waiting if not answer.done()})
            except Exception as error:  # noqa: BLE001 - those who wait get it
                for _, answer in waiting:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for key, answer in waiting:
                if not answer.done():
                    answer.set_result(found.get(key))

    async def _found(self, keys: Collection[str]) -> dict[str, RemoteRecord]:
        """Return the records with these keys, as far as they exist."""
        api = await self._open()
        if len(keys) <= MANY:
            rows = [await api.get(RememberedResource, key) for key in keys]
            return {row.id: row.remembered() for row in rows if row}
        found: dict[str, RemoteRecord] = {}
        after, more = "", True
        while more:
            page = await api.page(RememberedResource, after=after, limit=PAGE)
            found |= {row.id: row.remembered() for row in page if row.id in keys}
            after, more = page[-1].id if page else "", len(page) == PAGE
        return found

    async def put(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Write a record durably; None deletes it.

        Raises `Temporary` while the database cannot be written, and `Permanent` for a record that it cannot hold.
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
    """The records of an agent, for a run that changes nothing: it reads them once, and keeps new ones in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = asyncio.Lock()
        self._records: dict[str, RemoteRecord | None] | None = None

    async def get(self, token: str, name: str) -> RemoteRecord | None:
        """Return the record; None if there is none, or if this user may not read the records."""
        return (await self._all()).get(key_of(token, name))

    async def put(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Keep a record until the run ends."""
        (await self._all())[key_of(token, name)] = record

    async def _all(self) -> dict[str, RemoteRecord | None]:
        """Return all records. They are read once: several resources ask at the same time."""
        async with self._reading:
            if self._records is None:
                self._records = await Blocking(1)(_read, self._path)
        return self._records


def all_in(reader: RecordReader) -> Iterator[RememberedResource]:
    """Yield all records in a file. Raises `Unavailable`, and `Invalid` for one that cannot be read."""
    return (RememberedResource.decode(row.data) for row in _rows(reader))


def _rows(reader: RecordReader) -> Iterator[TableRow]:
    after = ""
    while rows := reader.scan(RememberedResource.table, after=after, limit=PAGE):
        yield from rows
        after = rows[-1].id


def _read(path: Path) -> dict[str, RemoteRecord | None]:
    """Return the records in a file, without those that cannot be read. Blocks."""
    found: dict[str, RemoteRecord | None] = {}
    with suppress(HoldfastError, OSError), RecordReader(path) as reader:
        for row in _rows(reader):
            with suppress(Invalid):
                found[row.id] = RememberedResource.decode(row.data).remembered()
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
        intent=record.intent,
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
