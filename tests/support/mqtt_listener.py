"""A client of a broker that collects all messages, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from deadline import DEADLINE


class Heard(NamedTuple):
    """One message. `values` is its payload; None if that is empty."""

    topic: str
    values: dict[str, Any] | None
    retained: bool
    """Whether it was sent before the subscription."""


class Listener:
    """Collects all messages below a topic from the beginning of the block on."""

    def __init__(self, port: int, pattern: str = "#") -> None:
        self.heard: list[Heard] = []
        self._port, self._pattern = port, pattern
        self._subscribed = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
        self._client.on_connect = lambda *_: self._client.subscribe(self._pattern, 1)
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = self._take

    def _take(self, client: Client, userdata: object, message: MQTTMessage) -> None:
        values = json.loads(message.payload) if message.payload else None
        self.heard.append(Heard(message.topic, values, message.retain))

    def __enter__(self) -> Self:
        """Connect, and subscribe."""
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        assert self._subscribed.wait(DEADLINE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the payloads of all topics that end like this."""
        return [each.values or {} for each in list(self.heard) if each.topic.endswith(f"/{name}")]

    def ids(self, name: str) -> list[str]:
        """Return the IDs of the records in these payloads."""
        return [each["record"]["id"] for each in self.of(name)]

    def wait(self, condition: Callable[[], Any], what: str = "a message") -> Any:
        """Wait until the condition holds; return its value."""
        until = time.monotonic() + DEADLINE
        while not (found := condition()):
            assert time.monotonic() < until, f"waited in vain for {what}: {self.heard}"
            time.sleep(0.01)
        return found

    async def until(self, condition: Callable[[], Any], what: str = "a message") -> Any:
        """Do the same without blocking the event loop."""
        return await until(condition, lambda: f"{what}: {self.heard}")


async def until(condition: Callable[[], Any], what: Callable[[], str] = lambda: "a condition") -> Any:
    """Wait until the condition holds; return its value."""
    end = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what()}"
        await asyncio.sleep(0.01)
    return found
