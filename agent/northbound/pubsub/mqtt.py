"""Messages by MQTT 5. The connection is made again whenever it is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import aiomqtt

from holdfast.agent.northbound.call_thread import CallThread
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.northbound.pubsub.base import Message, PubSub
from holdfast.agent.northbound.pubsub.local import MessageListeners
from holdfast.agent.northbound.pubsub.mqtt_session import ANSWER, Broker, MqttSession, taken_over, why
from holdfast.agent.northbound.pubsub.topics import demand_topic

RETRIES = (0.2, 1.0, 2.0, 5.0, 15.0, 30.0)
"""Seconds between attempts to connect; the last value repeats. Each is shortened at random, by up to a half, so that
not all hosts of a fleet reconnect at once."""
LASTING = 60.0
"""Seconds after which a connection counts as good."""
LOSSES = 3
"""After so many consecutive connections that were lost before they counted as good, another client is suspected: a
broker ends a session when another client with the same name connects, and not all brokers say so."""
LOSSES_REST = 60.0
"""Seconds between attempts after that, so that two such clients do not end each other's sessions all the time."""


class MqttPubSub(PubSub):
    """A connection to a broker.

    `broker` is called before each attempt, in a thread, so that it may read passwords and certificates; it raises
    `Unavailable` if it cannot. `birth` is published after each connect, before any other message. The broker publishes
    `will` when the connection has ended, for whatever reason.
    """

    def __init__(self, broker: Callable[[], Broker], birth: Message | None = None, will: Message | None = None) -> None:
        super().__init__()
        for each in (birth, will):
            if each:
                demand_topic(each.topic)
        self._broker, self._birth, self._will = broker, birth, will
        self._session: MqttSession | None = None
        self._listeners = MessageListeners()
        self._thread = CallThread("mqtt")
        self._task: asyncio.Task[None] | None = None
        self._tries = self._losses = 0
        """Attempts since the last connection that counted as good; consecutive connections that were lost before they
        did."""

    async def __aenter__(self) -> Self:
        """Begin to connect; `connected` says when that succeeded."""
        self._task = asyncio.create_task(self._stay_connected(), name="mqtt")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect at once. The broker publishes the will."""
        if self._session:
            self._session.leave()
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._listeners.end()

    async def publish(self, message: Message) -> None:
        """Publish with quality of service 1: at least once."""
        demand_topic(message.topic)
        self.demand_room(message)
        if self._session is None:
            raise Unavailable(self.trouble or "not connected to the broker yet")
        await self._session.deliver(message)

    async def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """Yield messages; the broker gets the pattern again after each connect."""
        listening = self._listeners.listen(pattern)
        first = asyncio.ensure_future(anext(listening, None))
        try:
            await asyncio.sleep(0)  # the listener is known now
            if self._session is not None:
                with suppress(aiomqtt.MqttError):  # the next connection subscribes
                    await self._session.subscribe(pattern, qos=1)
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
        while True:
            await self._connect()
            rest = RETRIES[min(self._tries, len(RETRIES) - 1)] if self._losses < LOSSES else LOSSES_REST
            self._tries += 1
            await asyncio.sleep(rest * random.uniform(0.5, 1))  # noqa: S311 - no secret

    async def _connect(self) -> None:
        """Hold one connection until it ends, and report why it has ended."""
        broker = None
        try:
            broker = await self._thread.run(self._broker)
            await self._converse(broker)
        except Exception as error:  # noqa: BLE001 - a broker may send anything, and the next connection may be better
            if taken_over(error):
                self._losses = LOSSES
            self._tell(f"the broker {broker}: {why(error)}{self._suspicion(broker)}" if broker else why(error))

    def _suspicion(self, broker: Broker) -> str:
        if self._losses < LOSSES:
            return ""
        return f"; another client may use the name {broker.identifier!r}: do two hosts have one name?"

    async def _converse(self, broker: Broker) -> None:
        """Hold one connection until it ends. Raises the error that has ended it."""
        loop = asyncio.get_running_loop()
        session = MqttSession(broker, self._will)
        timer = loop.call_later(ANSWER, lambda: self._tell(f"the broker {broker}: it does not answer"))
        try:
            await session.open(self._thread)
            if self._birth:
                await session.deliver(self._birth)
            for pattern in self._listeners.patterns:
                await session.subscribe(pattern, qos=1)
            timer.cancel()
            self._session, self.room = session, session.room
            self._losses += 1
            self.connected.set()
            self._tell("" if self._losses < LOSSES else self.trouble)
            timer = loop.call_later(LASTING, self._count_as_good)
            async for message in session.messages:
                payload = message.payload if isinstance(message.payload, bytes) else b""
                self._listeners.offer(Message(str(message.topic), payload, bool(message.retain)))
        except aiomqtt.MqttError as error:
            raise error.__cause__ or error from None  # the reason why the iteration has ended
        finally:
            timer.cancel()
            self._session = None
            self.connected.clear()
            session.drop()

    def _count_as_good(self) -> None:
        self._tries = self._losses = 0
        self._tell("")

    def _tell(self, trouble: str) -> None:
        self.trouble = trouble
        self.listen()
