"""The answers of the server: pages of records, single records, the stream of writes, and the OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.agent.control.schema import ControlError
from holdfast.agent.control.table_requests import GetRecord, ListRecords, Subscribe
from holdfast.agent.serve import parameters
from holdfast.agent.serve.access_control import AccessControl
from holdfast.agent.serve.events import Subscriptions
from holdfast.agent.serve.http import TIMEOUT, HttpError, Request, refusal, response
from holdfast.agent.serve.view_client import ViewClient

VERSION = "v1"
STREAM = tuple(f"{VERSION}/watch".split("/"))
"""The path of the stream of writes."""
RETRY = {"Retry-After": "1"}


class Routes:
    """Answers the requests of one server."""

    def __init__(
        self, agent: ViewClient, access: AccessControl, tables: frozenset[str], document: Callable[[], Any]
    ) -> None:
        self._agent, self._access, self._tables, self._document = agent, access, tables, document
        self._subscriptions = Subscriptions(agent)

    async def talk(
        self, request: Request | HttpError, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer a request; then close. Raises `OSError` and `TimeoutError` if the client does not read."""
        head_only = isinstance(request, Request) and request.method == "HEAD"
        try:
            if isinstance(request, HttpError):
                raise request
            self._access.demand(request)
            if request.path == STREAM:
                await self._watch(request, reader, writer)
                return
            data = response(200, await self._found(request), head_only=head_only)
        except HttpError as error:
            data = refusal(error, head_only=head_only)
        writer.write(data)
        await asyncio.wait_for(writer.drain(), TIMEOUT)

    async def _found(self, request: Request) -> Any:
        """Return the requested document. Raises `HttpError`."""
        match request.path:
            case (version, "openapi.json") if version == VERSION:
                parameters.values(request, ())
                return self._document()
            case (version, table) if version == VERSION and table in self._tables:
                return await self._page(table, parameters.values(request, parameters.OF_PAGE))
            case (version, table, id) if version == VERSION and table in self._tables:
                given = parameters.values(request, parameters.OF_RECORD)
                record = await self._asked(GetRecord(table, id), given.get("timeout", parameters.ANSWER))
                if record is None:
                    raise HttpError(404, f"there is no record {id!r} in {table}")
                return record
        raise HttpError(404, f"there is no such path; /{VERSION}/openapi.json describes all")

    async def _page(self, table: str, given: dict[str, Any]) -> Any:
        timeout = given.pop("timeout", parameters.ANSWER)
        request = ListRecords(table, **given)
        found = await self._asked(request, timeout)
        records = found["records"]
        return {**found, "next": records[-1]["id"] if len(records) == request.limit else None}

    async def _asked(self, request: GetRecord | ListRecords, timeout: float) -> Any:
        """Return the answer of the agent. Raises `HttpError`."""
        try:
            return await self._agent.ask(request, timeout)
        except ControlError as error:
            raise failed(error) from error
        except TimeoutError:
            raise HttpError(503, f"the agent has not answered within {timeout:g} s", RETRY) from None

    async def _watch(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send the events of writes until the client disconnects. Raises `HttpError` before the first event."""
        given = parameters.values(request, parameters.OF_WATCH)
        names = given.get("table", [])
        if unknown := sorted({*names} - self._tables):
            raise HttpError(400, f"there is no table {unknown[0]!r}")
        begin = Subscribe(tuple(names), after=revision(request.headers.get("last-event-id", "")))
        if request.method == "HEAD":
            writer.write(Subscriptions.head())
            return
        try:
            await self._subscriptions.send(begin, given.get("timeout", parameters.STREAM), reader, writer)
        except ControlError as error:
            raise failed(error) from error


def revision(text: str) -> int | None:
    """Return the revision of a `Last-Event-ID`; None without one. Raises `HttpError`."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise HttpError(400, "Last-Event-ID is not a revision")
    return int(text)


def failed(error: ControlError) -> HttpError:
    """Return the response for a failure at the agent."""
    if error.code in {"no-agent", "busy"}:
        return HttpError(503, str(error), RETRY)
    return HttpError(502, str(error))
