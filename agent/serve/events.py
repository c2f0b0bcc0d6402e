"""Server-sent events: writes to the records, as a stream that a browser follows and resumes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from holdfast.agent.control.schema import ControlError
from holdfast.agent.control.table_requests import Subscribe
from holdfast.agent.serve.http import TIMEOUT, head_of
from holdfast.agent.serve.view_client import ViewClient

MOST = 12
"""Most streams at once: each is a connection to the agent, which serves a limited number of viewers."""
BEAT = 15.0
"""Seconds without an event after which a comment is sent, so that both ends notice a lost connection."""
KIND = "text/event-stream"


class Subscriptions:
    """The streams of one server."""

    def __init__(self, agent: ViewClient) -> None:
        self._agent = agent
        self._open = 0

    @staticmethod
    def head() -> bytes:
        """Return the head of a stream."""
        return head_of(200, KIND, {})

    async def send(
        self, request: Subscribe, timeout: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send events until the client disconnects, the time has run out or the agent stops.

        Raises `ControlError` before the first event.
        """
        if self._open >= MOST:
            raise ControlError(f"there are {MOST} streams already", "busy")
        self._open += 1
        try:
            async with contextlib.AsyncExitStack() as stack:
                messages, first = await self._begun(request, stack)
                sending = asyncio.create_task(_send(messages, first, writer), name="events")
                gone = asyncio.create_task(_end_of(reader), name="client of events")
                try:
                    await asyncio.wait({sending, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in (sending, gone):
                        task.cancel()
                    await asyncio.gather(sending, gone, return_exceptions=True)
        finally:
            self._open -= 1

    async def _begun(
        self, request: Subscribe, stack: contextlib.AsyncExitStack
    ) -> tuple[AsyncIterator[dict[str, Any]], bytes]:
        """Return the messages of a subscription, and the head with the events before them.

        If the writes after its revision are no longer kept, it begins now, and the first event is `reset`.
        """
        messages = await stack.enter_async_context(self._agent.answers(request))
        head = self.head()
        try:
            first = await anext(messages)
        except ControlError as error:
            if error.code != "gone":
                raise
            messages = await stack.enter_async_context(self._agent.answers(replace(request, after=None)))
            first, head = await anext(messages), head + b"event: reset\ndata: {}\n\n"
        return messages, head + event(first)


async def _end_of(reader: asyncio.StreamReader) -> None:
    """Wait until the client disconnects. Data that it sends is ignored."""
    while await reader.read(1024):
        pass


async def _send(messages: AsyncIterator[dict[str, Any]], first: bytes, writer: asyncio.StreamWriter) -> None:
    """Send events, and a comment after `BEAT` seconds without one, until the agent stops."""
    await _write(first, writer)
    following = asyncio.ensure_future(anext(messages))
    try:
        while True:
            await asyncio.wait({following}, timeout=BEAT)
            if not following.done():
                await _write(b":\n\n", writer)
                continue
            await _write(event(following.result()), writer)
            following = asyncio.ensure_future(anext(messages))
    finally:
        following.cancel()


async def _write(data: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(data)
    await asyncio.wait_for(writer.drain(), TIMEOUT)


def event(message: Mapping[str, Any]) -> bytes:
    """Return a message of the agent as an event.

    A revision has no data: browsers remember its ID and do not report it.
    """
    if "write" not in message:
        return f"id: {int(message['revision'])}\n\n".encode() if "revision" in message else b""
    write = message["write"]
    data = json.dumps({"id": write["id"], "record": write["record"]}, ensure_ascii=False)
    return f"event: {write['table']}\ndata: {data}\n\n".encode()
