"""Messages within one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.northbound.pubsub.base import Message, PubSub
from holdfast.agent.northbound.pubsub.topics import demand_topic, matches

BACKLOG = 1000
"""Messages that wait for one subscriber; then the oldest are dropped."""


class MessageListeners:
    """Subscriptions by pattern."""

    def __init__(self) -> None:
        self._queues: dict[asyncio.Queue[Message | None], str] = {}

    def offer(self, message: Message) -> None:
        """Give a message to the subscribers whose pattern covers its topic."""
        for queue, pattern in self._queues.items():
            if matches(pattern, message.topic):
                if queue.full():
                    queue.get_nowait()
                queue.put_nowait(message)

    def end(self) -> None:
        """End all subscriptions after the waiting messages."""
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

    @property
    def patterns(self) -> set[str]:
        """All patterns."""
        return set(self._queues.values())

    async def listen(self, pattern: str, first: Sequence[Message] = ()) -> AsyncIterator[Message]:
        """Yield some messages, then those that arrive from now on, until `end`."""
        queue: asyncio.Queue[Message | None] = asyncio.Queue(BACKLOG)
        self._queues[queue] = pattern
        try:
            for known in first:
                yield known
            while (message := await queue.get()) is not None:
                yield message
        finally:
            del self._queues[queue]


class LocalPubSub(PubSub):
    """Messages to subscribers in this process; retained ones are kept until the process ends."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners = MessageListeners()
        self._retained: dict[str, Message] = {}

    async def __aenter__(self) -> Self:
        """Connect."""
        self.connected.set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self.connected.clear()
        self._listeners.end()

    async def publish(self, message: Message) -> None:
        """Give the message to all subscribers."""
        demand_topic(message.topic)
        self.demand_room(message)
        if not self.connected.is_set():
            raise Unavailable("not connected")
        if message.retain and message.payload:
            self._retained[message.topic] = message
        elif message.retain:
            self._retained.pop(message.topic, None)
        self._listeners.offer(message)

    async def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """Yield the retained messages, then those that follow."""
        retained = [each for each in self._retained.values() if matches(pattern, each.topic)]
        async for message in self._listeners.listen(pattern, retained):
            yield message
