"""Watches of things without a path, for resources: the host's name, mounts, swaps, kernel modules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from holdfast.agent.host.system_events import SOURCES, ChangeSource, EventTopic
from holdfast.resources.errors import Temporary
from holdfast.resources.watch_items import KernelTopic

TOPICS: Mapping[KernelTopic, EventTopic] = {
    "hostname": EventTopic.NAME,
    "modules": EventTopic.MODULES,
    "mounts": EventTopic.MOUNTS,
    "swaps": EventTopic.SWAPS,
}


class TopicWatches:
    """The watches of all resources.

    The watches of one topic share one descriptor, which is open while there are any.
    """

    def __init__(self) -> None:
        self._sources: dict[EventTopic, ChangeSource] = {}
        self._listeners: dict[EventTopic, set[asyncio.Event]] = {}

    async def watch(self, name: KernelTopic) -> AsyncIterator[None]:
        """Report changes of a topic. Raises `Temporary` if the kernel does not report them here."""
        topic, news = TOPICS[name], asyncio.Event()
        self._open(name, topic)
        self._listeners.setdefault(topic, set()).add(news)
        try:
            yield None
            while True:
                await news.wait()
                news.clear()
                yield None
        finally:
            self._listeners[topic].discard(news)
            if not self._listeners[topic]:
                self._close(topic)

    def _open(self, name: KernelTopic, topic: EventTopic) -> None:
        if topic in self._sources:
            return
        try:
            source = SOURCES[topic]()
        except OSError as error:
            raise Temporary(
                f"cannot watch the {name} of the kernel: {(error.strerror or str(error)).lower()}"
            ) from None
        self._sources[topic] = source
        asyncio.get_running_loop().add_reader(source.fileno(), self._heard, topic)

    def _heard(self, topic: EventTopic) -> None:
        if self._sources[topic].take():
            for news in self._listeners[topic]:
                news.set()

    def _close(self, topic: EventTopic) -> None:
        source = self._sources.pop(topic)
        asyncio.get_running_loop().remove_reader(source.fileno())
        source.close()
