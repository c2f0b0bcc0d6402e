"""Publishes while the settings name a broker. Without one nothing is imported, connected or kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.pubsub.topics import topic_part
from holdfast.agent.publishing.mqtt_settings import MqttSettings
from holdfast.agent.records.records import Records
from holdfast.agent.tasks import Tasks

if TYPE_CHECKING:
    from holdfast.agent.publishing.session import BrokerSession

UNAVAILABLE, GAP = "mqtt-unavailable", "mqtt-gap"
"""Codes of the health conditions for a broker that does not take messages, and for messages that were lost."""
TOLD = 3600.0
"""Seconds for which health reports that messages were lost."""


class Publishing:
    """Publishes the records of one agent as the settings say, until `stop`. `redact` masks secrets."""

    def __init__(self, records: Records, health: Health, tasks: Tasks, redact: Callable[[Any], Any]) -> None:
        self._records, self._health, self._tasks, self._redact = records, health, tasks, redact
        self._started = time.time()
        self._blocking = Blocking(1)
        self._used: tuple[MqttSettings, str] | None = None
        """The settings in force, and the name of the host."""
        self._task: asyncio.Task[None] | None = None

    async def use(self, settings: MqttSettings, host: str) -> None:
        """Apply settings, and the name of the host. Does not wait for the broker."""
        if (settings, host) == self._used:
            return
        await self.stop()
        self._used = settings, host
        if settings.url is None:
            return
        try:
            topic_part(host)
        except Invalid as error:
            self._tell(f"the name of this host does not fit: {error}; set `id` in agent.yaml")
            return
        self._task = self._tasks.start("publishing", self._publish(settings, host))

    async def stop(self) -> None:
        """Disconnect; the broker then says that the agent is offline."""
        task, self._task, self._used = self._task, None, None
        if task:
            await self._tasks.end(task)
        self._health.clear(UNAVAILABLE)

    async def _publish(self, settings: MqttSettings, host: str) -> None:
        session = (await self._blocking(_load))(
            settings, host, self._records, redact=self._redact, started=self._started, tell=self._tell, gap=self._lost
        )
        await session.run()

    def _tell(self, trouble: str) -> None:
        if trouble:
            self._health.set(UNAVAILABLE, f"cannot publish messages: {trouble}")
        else:
            self._health.clear(UNAVAILABLE)

    def _lost(self, since: float) -> None:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
        text = f"messages that were due after {at} may be lost: the records no longer have what was written then"
        self._health.set(GAP, text, lasts=TOLD)


def _load() -> type[BrokerSession]:
    """Import the modules that publish. Blocks."""
    from holdfast.agent.publishing.session import BrokerSession  # noqa: PLC0415 - most agents have no broker

    return BrokerSession
