"""Messages by MQTT 5, over aiomqtt. The connection is made again whenever it is lost."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import aiomqtt

from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.northbound.pubsub.base import Message, PubSub, demand_topic
from holdfast.agent.northbound.pubsub.local import MessageListeners

RETRIES = (0.2, 1.0, 2.0, 5.0, 15.0, 30.0)
"""Seconds between tries to connect; the last value repeats."""
ANSWER = 10.0
"""Seconds in which the broker must answer."""
KEEP_ALIVE = 20
"""Seconds after which a broker without other messages is asked whether it is there."""


@dataclass(frozen=True)
class Broker:
    """How to reach a broker."""

    host: str
    port: int = 1883
    identifier: str = ""
    """Name of the session; a second connection with the same name ends the first. Empty: the broker chooses one."""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    """None: not encrypted."""


class MqttPubSub(PubSub):
    """A connection to a broker.

    `birth` is published after each connect, and `will` by the broker when the connection is lost, both before any other
    message can be.
    """

    def __init__(self, broker: Broker, birth: Message | None = None, will: Message | None = None) -> None:
        super().__init__()
        for each in (birth, will):
            if each:
                demand_topic(each.topic)
        self._broker, self._birth, self._will = broker, birth, will
        self._client: aiomqtt.Client | None = None
        self._listeners = MessageListeners()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to connect; `connected` says when that succeeded."""
        self._task = asyncio.create_task(self._stay_connected(), name="mqtt")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publish the will, so that nobody waits for the broker to notice, and disconnect."""
        if self._will and self.connected.is_set():
            with suppress(Unavailable):
                await self.publish(self._will)
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._listeners.end()

    async def publish(self, message: Message) -> None:
        """Publish with quality of service 1: at least once."""
        demand_topic(message.topic)
        if self._client is None or not self.connected.is_set():
            raise Unavailable(self.trouble or "not connected to the broker yet")
        await self._send(self._client, message)

    async def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """Yield messages; the broker gets the pattern again after each connect."""
        listening = self._listeners.listen(pattern)
        first = asyncio.ensure_future(anext(listening, None))
        try:
            await asyncio.sleep(0)  # the listener is known now
            if self._client is not None and self.connected.is_set():
                with suppress(aiomqtt.MqttError):  # the next connection subscribes
                    await self._client.subscribe(pattern, qos=1)
            message = await first
            while message is not None:
                yield message
                message = await anext(listening, None)
        finally:
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first
            await listening.aclose()  # type: ignore[attr-defined]

    # -- parts -------------------------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        tries = 0
        while True:
            try:
                async with self._connection() as client:
                    if self._birth:
                        await self._send(client, self._birth)
                    for pattern in self._listeners.patterns:
                        await client.subscribe(pattern, qos=1)
                    self._client, self.trouble, tries = client, "", 0
                    self.connected.set()
                    async for message in client.messages:
                        payload = message.payload if isinstance(message.payload, bytes) else b""
                        self._listeners.offer(Message(str(message.topic), payload, bool(message.retain)))
            except (aiomqtt.MqttError, Unavailable, OSError, ValueError) as error:
                self.trouble = f"the broker {self._broker.host}:{self._broker.port} does not answer: {error}"
            finally:
                self._client = None
                self.connected.clear()
            await asyncio.sleep(RETRIES[min(tries, len(RETRIES) - 1)])
            tries += 1

    def _connection(self) -> aiomqtt.Client:
        broker, will = self._broker, self._will
        return aiomqtt.Client(
            broker.host,
            broker.port,
            username=broker.user or None,
            password=broker.password or None,
            identifier=broker.identifier or None,
            protocol=aiomqtt.ProtocolVersion.V5,
            tls_context=broker.tls,
            will=aiomqtt.Will(will.topic, will.payload, 1, will.retain) if will else None,
            keepalive=KEEP_ALIVE,
            timeout=ANSWER,
        )

    @staticmethod
    async def _send(client: aiomqtt.Client, message: Message) -> None:
        try:
            await client.publish(message.topic, message.payload, qos=1, retain=message.retain, timeout=ANSWER)
        except (aiomqtt.MqttError, ValueError) as error:
            raise Unavailable(f"the broker has not taken the message: {error}", unsure=True) from None
