"""The session with one broker: a connection that is restored after a loss, and a publisher.

Imported only if there is a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.agent.northbound.errors import NorthboundError
from holdfast.agent.northbound.pubsub.mqtt import MqttPubSub
from holdfast.agent.publishing.broker import make_broker
from holdfast.agent.publishing.messages import MessageWriter
from holdfast.agent.publishing.mqtt_settings import MqttSettings
from holdfast.agent.publishing.publisher import Publisher
from holdfast.agent.records.records import Records

RETRY = 30.0
"""Seconds until the next attempt after the broker has refused a message, or the store has failed."""


class BrokerSession:
    """Publishes the records of one host to one broker.

    `tell` is called with the present trouble, which may be empty; `gap` with the time since which messages may be lost.
    """

    def __init__(
        self,
        settings: MqttSettings,
        host: str,
        records: Records,
        *,
        redact: Callable[[Any], Any],
        started: float,
        tell: Callable[[str], None],
        gap: Callable[[float], None],
    ) -> None:
        self._records, self._gap, self._report = records, gap, tell
        self._writer = MessageWriter(settings.prefix, host, redact, started)
        presence = self._writer.presence
        broker = partial(make_broker, settings, host)
        self._pubsub = MqttPubSub(broker, birth=presence(online=True), will=presence(online=False))
        self._publisher: Publisher | None = None
        self._publishing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Publish until cancelled."""
        async with self._pubsub:
            self._pubsub.listen = self._changed
            while True:
                await self._pubsub.connected.wait()
                self._publishing = asyncio.create_task(self._publish(), name="publisher")
                try:
                    await asyncio.wait([self._publishing])
                finally:
                    self._publishing.cancel()
                    await asyncio.wait([self._publishing])
                if not self._publishing.cancelled():
                    self._publishing.result()

    async def _publish(self) -> None:
        """Publish until an error, and then pause. This is cancelled when the connection is lost."""
        try:
            if self._publisher is None:
                api = await self._records.api()
                self._publisher = Publisher(api, self._pubsub, self._writer, self._gap, self._tell)
            await self._publisher.run()
        except* NorthboundError:  # reported by the connection, by the publisher or by the records
            await asyncio.sleep(RETRY)

    def _changed(self) -> None:
        if self._publishing and not self._pubsub.connected.is_set():
            self._publishing.cancel()
        self._tell()

    def _tell(self) -> None:
        refused = self._publisher.refused.values() if self._publisher else ()
        self._report(self._pubsub.trouble or next(iter(refused), ""))
