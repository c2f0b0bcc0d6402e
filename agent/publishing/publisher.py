"""Publishes the records to the broker, in their order, each at least once.

The store is the backlog: writes from while the broker was out of reach are read from its history. The position up to
which the broker has acknowledged messages is itself a record, which is written at most once a second. So a restart or
`kill -9` loses no message, but may repeat some, with the same IDs. If the history no longer reaches back to the
position, a message reports the gap.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing, suppress

from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.errors import Compacted, NorthboundError, NotFound
from holdfast.agent.northbound.pubsub.base import Message, MessageRefused, PubSub
from holdfast.agent.northbound.store.base import StoreView
from holdfast.agent.publishing.messages import LOGGED, MessageWriter
from holdfast.agent.records.models import Condition, Published

ID = "mqtt"
WINDOW = 20
"""Most messages that wait for their acknowledgement at once."""
PAUSE = 1.0
"""Seconds between two writes of the position: messages since the last write are repeated after `kill -9`."""
RETRY = 5.0
"""Seconds between two attempts to write the position."""
AHEAD = 1000
"""Revisions without messages after which the position is written again: the history is bounded by their number."""
RENEW = 86_400.0
"""Seconds after which the position is written again without a change: the history is bounded by its age, too."""
LEAVE = 1.0
"""Seconds for the last write of the position."""


class Publisher:
    """Publishes while there is a connection. `gap` is called with the time since which messages may be missing."""

    def __init__(
        self, api: NbApi, pubsub: PubSub, writer: MessageWriter, gap: Callable[[float], None], told: Callable[[], None]
    ) -> None:
        self.refused: dict[str, str] = {}
        """Topic -> why the broker does not accept the message that is due there. `told` is called when this changes."""
        self._api, self._pubsub, self._writer = api, pubsub, writer
        self._gap, self._told = gap, told
        self._published = Published(id=ID, revision=0, at=0.0)
        """The position as it was last written."""
        self._position = self._reached = 0
        """Revisions up to which all messages are acknowledged, and sent."""
        self._moved = asyncio.Event()
        self._sent: asyncio.Queue[asyncio.Task[None] | int]
        """Messages that wait for their acknowledgement, and the positions between them."""

    async def run(self) -> None:
        """Publish until something fails. Raises errors of the store and of the connection, alone or as a group."""
        self._sent = asyncio.Queue(WINDOW)
        view = self._api.view
        await self._publish_conditions()
        await self._find_position()
        try:
            async with asyncio.TaskGroup() as group:
                for work in (
                    self._send(group),
                    self._acknowledge(),
                    self._keep_position(),
                    self._keep_conditions(view),
                ):
                    group.create_task(work)
        finally:
            if self._position > self._published.revision:
                with suppress(NorthboundError, TimeoutError):
                    async with asyncio.timeout(LEAVE):
                        await self._write_position()

    # -- the position ------------------------------------------------------------------------------------------

    async def _find_position(self) -> None:
        """Continue from the written position; without one, begin now and report that."""
        found = await self._api.get(Published, ID)
        if found is None:
            found = Published(id=ID, revision=self._api.view.revision, at=time.time())
            await self._publish(self._writer.gap(found.revision, None))
            await self._api.create(found)
        self._published, self._position = found, found.revision

    async def _write_position(self) -> None:
        published = self._published.replace(revision=self._position, at=time.time())
        try:
            await self._api.update(published)
        except NotFound:  # the database was recreated
            await self._api.create(published)
        self._published = published

    async def _keep_position(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEW):
                    await self._moved.wait()
            self._moved.clear()
            try:
                await self._write_position()
            except NorthboundError:  # health reports the problem of the records
                self._moved.set()
                await asyncio.sleep(RETRY)
            else:
                await asyncio.sleep(PAUSE)

    # -- messages ----------------------------------------------------------------------------------------------

    async def _send(self, group: asyncio.TaskGroup) -> None:
        """Send a message for each write after the position, until the store is closed."""
        self._reached = self._position
        while True:
            try:
                await self._send_writes(group)
            except Compacted as error:
                self._gap(self._published.at)
                self.refused.clear()  # those messages are gone
                self._told()
                await self._begin(self._writer.gap(error.kept, self._published.at), group)
                await self._reach(error.kept)
            else:
                return

    async def _send_writes(self, group: asyncio.TaskGroup) -> None:
        async with aclosing(self._api.follow_batches(tuple(LOGGED), self._reached)) as batches:
            async for batch in batches:
                for write in batch.writes:
                    if message := self._writer.written(write, self._pubsub.room):
                        await self._begin(message, group)
                        await asyncio.sleep(0)  # a long backlog must not delay repairs
                await self._reach(batch.revision)

    async def _begin(self, message: Message, group: asyncio.TaskGroup) -> None:
        """Begin to publish a message, once fewer than `WINDOW` messages wait for their acknowledgement."""
        await self._sent.put(group.create_task(self._publish(message)))

    async def _reach(self, revision: int) -> None:
        """Note that all messages up to a revision are sent."""
        self._reached = revision
        await self._sent.put(revision)

    async def _acknowledge(self) -> None:
        """Move the position when all messages up to it are acknowledged."""
        news = False
        while True:
            sent = await self._sent.get()
            if isinstance(sent, int):
                self._position = sent
                if news or sent > self._published.revision + AHEAD:
                    news = False
                    self._moved.set()
            else:
                await sent
                news = True

    async def _keep_conditions(self, since: StoreView) -> None:
        """Publish the present conditions whenever they change."""
        async for _ in self._api.watch(Condition, since=since):
            await self._publish_conditions()

    async def _publish_conditions(self) -> None:
        await self._publish(self._writer.conditions(self._api.view.get_all(Condition)))

    async def _publish(self, message: Message) -> None:
        try:
            await self._pubsub.publish(message)
        except MessageRefused as error:
            self.refused[message.topic] = str(error)
            self._told()
            raise
        if self.refused.pop(message.topic, None) is not None:
            self._told()
