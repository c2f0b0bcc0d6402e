"""Requests for the tables of the northbound store: one record, a page of records, and each write as it happens.

Viewers get the records without their private fields (`northbound/privacy`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import ControlError

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.northbound.api import NbApi
    from holdfast.agent.northbound.model import Model
    from holdfast.agent.running_agent import RunningAgent

MOST = 1000
"""Most records of one page."""


@dataclass(frozen=True)
class GetRecord(ControlRequest, verb="get", viewers="whole"):
    """Ask for one record."""

    table: str
    """Name of the table."""
    id: str
    """ID of the record."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the record; None if there is none."""
        async with _store(agent) as api:
            record = await api.get(_model(self.table), self.id)
        return None if record is None else _shown(client)(record)


@dataclass(frozen=True)
class ListRecords(ControlRequest, verb="list", viewers="whole"):
    """Ask for a page of records, in the order of their IDs."""

    table: str
    """Name of the table."""
    after: str = ""
    """Only records with greater IDs."""
    before: str = ""
    """Only records with smaller IDs."""
    limit: int = 100
    """Most records."""
    newest: bool = False
    """Begin with the greatest ID, and go downwards."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for an impossible number of records."""
        if not 0 < self.limit <= MOST:
            raise ValueError(f"a page has 1 to {MOST} records, not {self.limit}")

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the records, and a revision: `subscribe` after it yields all writes that they may not include."""
        async with _store(agent) as api:
            revision = await api.revision()
            page = await api.page(
                _model(self.table),
                after=self.after,
                before=self.before,
                limit=self.limit,
                newest=self.newest,
            )
        return {"revision": revision, "records": map(_shown(client), page)}


@dataclass(frozen=True)
class Subscribe(ControlRequest, verb="subscribe", viewers="whole", stream=True):
    """Ask for every write to some tables, until the client disconnects."""

    tables: tuple[str, ...] = ()
    """Names of the tables; by default all."""
    after: int | None = None
    """Only writes after this revision; by default those from now on."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Send the first revision, then each write, and a revision whenever all writes up to it were sent.

        Refuses with the code `gone` if the writes after the revision are no longer kept: then list the tables again.
        """
        async with _store(agent) as api:
            models = [_model(table) for table in self.tables] or _models()
            revision = await api.revision() if self.after is None else self.after
            await _follow(api, models, revision, client)


async def _follow(api: NbApi, models: Sequence[type[Model]], revision: int, client: ClientConnection) -> None:
    """Send each write after a revision until the client disconnects or the agent stops."""
    async with client.gone() as gone:
        sending = asyncio.create_task(_send_writes(api, models, revision, client), name="subscriber")
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()
            # The client has disconnected: errors of its connection have no meaning.
            await asyncio.gather(sending, return_exceptions=True)


async def _send_writes(api: NbApi, models: Sequence[type[Model]], revision: int, client: ClientConnection) -> None:
    """Send each write, and after the writes of a transaction the revision."""
    shown = _shown(client)
    async with aclosing(api.follow_batches(models, revision)) as batches:
        async for batch in batches:
            for each in batch.writes:
                async with client.turn():
                    record = None if each.record is None else shown(each.record)
                    line = client.line({"write": {"table": each.model.table, "id": each.id, "record": record}})
                await client.write(line)
            await client.write(client.line({"revision": batch.revision}))


@asynccontextmanager
async def _store(agent: RunningAgent) -> AsyncIterator[NbApi]:
    """Yield the store. Turns its errors into `ControlError`."""
    from holdfast.agent.northbound.errors import Compacted, NorthboundError, Unavailable  # noqa: PLC0415 - for records

    try:
        yield await agent.records.api()
    except Compacted as error:
        raise ControlError(str(error), "gone") from error
    except Unavailable as error:
        raise ControlError(f"cannot read the records: {error}", "busy") from error
    except NorthboundError as error:
        raise ControlError(f"cannot read the records: {error}") from error


def _models() -> list[type[Model]]:
    """Return the models of all tables that are not internal; the store is open."""
    from holdfast.agent.northbound.registry import registry  # noqa: PLC0415

    return [model for model in registry.in_order() if not model.internal]


def _model(table: str) -> type[Model]:
    """Return the model of a table. Raises `ControlError`."""
    tables = {model.table: model for model in _models()}
    if table not in tables:
        raise ControlError(f"there is no table {table!r}; the tables are {', '.join(tables)}")
    return tables[table]


def _shown(client: ClientConnection) -> Callable[[Model], dict[str, Any]]:
    """Return the function that makes JSON of a record as this client may see it."""
    from holdfast.agent.northbound.privacy import for_root, for_viewers  # noqa: PLC0415

    return for_viewers if client.viewer else for_root
