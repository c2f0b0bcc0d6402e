"""What carries messages: publish to a topic, subscribe by a pattern of MQTT (`+` one level, `#` all below)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import NamedTuple

from holdfast.agent.northbound.errors import Invalid

LONGEST = 65_535
"""Most bytes of a topic."""


class Message(NamedTuple):
    """One message."""

    topic: str
    payload: bytes
    retain: bool = False
    """The broker keeps the last such message of a topic for those who subscribe later. Empty: it keeps none."""


class PubSub(ABC):
    """A connection that lasts as long as its block, and comes back by itself."""

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        """Set while messages can be published."""
        self.trouble = ""
        """Why they cannot; empty while they can, and before the first try."""

    @abstractmethod
    async def publish(self, message: Message) -> None:
        """Return once the broker has the message. Raises `Unavailable`, and `Invalid` for a wrong topic."""

    @abstractmethod
    def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """Yield messages from now on, also after the connection was lost; what was sent meanwhile is lost.

        A subscriber that does not keep up loses the oldest messages.
        """


def topic_part(text: str) -> str:
    """Return a text that may be one level of a topic. Raises `Invalid` that says what is wrong with it."""
    if not text or len(text.encode("utf-8", "surrogateescape")) > 256:
        raise Invalid(f"{text[:20]!r} cannot be a part of a topic: it must have 1 to 256 bytes")
    if wrong := sorted({each for each in text if each in "/+#" or not each.isprintable()}):
        raise Invalid(f"{text!r} cannot be a part of a topic: it has {', '.join(map(repr, wrong))}")
    if text.startswith("$"):
        raise Invalid(f"{text!r} cannot be a part of a topic: names that begin with '$' are the broker's own")
    return text


def demand_topic(topic: str) -> None:
    """Raise `Invalid` if messages cannot be published to a topic."""
    if len(topic.encode("utf-8", "surrogateescape")) > LONGEST:
        raise Invalid(f"a topic has at most {LONGEST} bytes")
    for part in topic.split("/"):
        topic_part(part)


def matches(pattern: str, topic: str) -> bool:
    """Return whether a pattern covers a topic."""
    wanted, parts = pattern.split("/"), topic.split("/")
    for number, part in enumerate(wanted):
        if part == "#":
            return True
        if number >= len(parts) or part not in ("+", parts[number]):
            return False
    return len(wanted) == len(parts)
