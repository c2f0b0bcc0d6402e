"""The contract for messages: publish to a topic, subscribe by a pattern of MQTT (`+` one level, `#` all below)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from holdfast.agent.northbound.errors import Unavailable

ROOM = 256 << 20
"""Most bytes of a message, with its topic."""


class Message(NamedTuple):
    """One message."""

    topic: str
    payload: bytes
    retain: bool = False
    """The broker keeps the last such message of a topic for later subscribers. An empty one removes it."""


class MessageRefused(Unavailable):
    """The broker does not accept a message; it may accept others, and this one later."""


class PubSub(ABC):
    """A connection that lasts as long as its block, and is restored after a loss."""

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        """Set while messages can be published."""
        self.trouble = ""
        """Why messages cannot be published; empty before the first attempt, and while they can unless the connection is
        lost often."""
        self.room = ROOM
        """Most bytes of a message, with its topic; a broker that takes less says so when it is connected."""
        self.listen: Callable[[], None] = lambda: None
        """Called when `connected` or `trouble` changes."""

    @abstractmethod
    async def publish(self, message: Message) -> None:
        """Return once the broker has the message.

        Raises `Unavailable`, `MessageRefused`, and `Invalid` for a topic that no message can have.
        """

    @abstractmethod
    def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """Yield messages from now on, also after a loss of the connection; messages sent meanwhile are lost.

        A subscriber that is too slow loses the oldest messages.
        """

    def demand_room(self, message: Message) -> None:
        """Raise `MessageRefused` for a message that is too large."""
        size = len(message.topic.encode()) + len(message.payload)
        if size > self.room:
            raise MessageRefused(
                f"cannot publish {size} bytes to {message.topic}: the broker takes {self.room}, with the topic"
            )
