"""Changes of the machine that have no path: addresses, routes, the host's name, devices, modules, mounts, swaps.

`SystemEvents` follows the topics on which the grains in use depend; `topic_watches.py` follows those of resources. The
messages of the kernel say little more than that something has changed, so they are not parsed: the listener is called
`CALM` seconds after the first message and reads the new values itself. Many changes at once thus count as one. Messages
that the kernel had to drop (`ENOBUFS`) count as a change.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import Protocol

from holdfast.agent.host.mounts import Mounts

CALM = 1.0
"""Seconds for which changes are collected."""
AGAIN = 60.0
"""Seconds until a topic that could not be followed is tried again."""
_CHUNK = 1 << 16
_DRAINED = 64
"""Messages read and dropped at once. The rest of a flood stays in the kernel, which drops it."""
_KOBJECT_UEVENT = 15
"""The netlink protocol of device events (`linux/netlink.h`); group 1 is the kernel's."""


class EventTopic(Enum):
    """A topic that can change. The values of the first two are groups of rtnetlink(7)."""

    ADDRESSES = 0x1 | 0x10 | 0x100
    """RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR."""
    ROUTES = 0x40 | 0x400
    """RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE."""
    NAME = 0
    DEVICES = -1
    MOUNTS = -2
    SWAPS = -3
    MODULES = -4


class ChangeSource(Protocol):
    """A descriptor that becomes readable when a topic changes."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...

    def take(self) -> bool:
        """Read what is available; return whether the topic has changed."""
        ...

    def close(self) -> None:
        """Close the descriptor."""
        ...


class _Netlink:
    """A netlink socket."""

    def __init__(self, protocol: int, groups: int, about: bytes = b"") -> None:
        self._about = about
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, protocol
        )
        try:
            self._socket.bind((0, groups))
        except OSError:
            self._socket.close()
            raise
        self.fileno, self.close = self._socket.fileno, self._socket.close

    def take(self) -> bool:
        news = False
        for _ in range(_DRAINED):
            try:
                message = self._socket.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError:  # messages were lost
                news = True
                continue
            news = news or self._about in message
        return news


class _Signalling:
    """A file in /proc that signals a change by EPOLLERR until it is read: the host's name, the table of swaps."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.epoll()
        try:
            self._poll.register(self._file, select.EPOLLPRI)
        except OSError:
            self.close()
            raise
        self.take()

    def fileno(self) -> int:
        return self._poll.fileno()

    def take(self) -> bool:
        """Return true: the event that has made the descriptor readable is consumed by then."""
        self._poll.poll(0)
        os.pread(self._file, 256, 0)
        return True

    def close(self) -> None:
        self._poll.close()
        os.close(self._file)


class _Mounts(Mounts):
    """The mount table."""

    def take(self) -> bool:
        return bool(self.changed())


SOURCES: dict[EventTopic, Callable[[], ChangeSource]] = {
    EventTopic.ADDRESSES: lambda: _Netlink(socket.NETLINK_ROUTE, EventTopic.ADDRESSES.value),
    EventTopic.ROUTES: lambda: _Netlink(socket.NETLINK_ROUTE, EventTopic.ROUTES.value),
    EventTopic.NAME: lambda: _Signalling("/proc/sys/kernel/hostname"),
    EventTopic.DEVICES: lambda: _Netlink(_KOBJECT_UEVENT, 1, b"\0SUBSYSTEM=block\0"),
    EventTopic.MODULES: lambda: _Netlink(_KOBJECT_UEVENT, 1, b"\0SUBSYSTEM=module\0"),
    EventTopic.MOUNTS: _Mounts,
    EventTopic.SWAPS: lambda: _Signalling("/proc/swaps"),
}
NAMES = ("/etc/hosts", "/etc/hostname")
"""Other files that determine a host's names."""


class SystemEvents:
    """Follows the wanted topics, and calls `changed` with all topics that have changed.

    `watch` watches paths like `PathWatcher.watch`. A topic that cannot be followed is tried again with each `follow`,
    and every minute.
    """

    def __init__(
        self, changed: Callable[[frozenset[EventTopic]], None], watch: Callable[..., AsyncIterator[None]]
    ) -> None:
        self._changed = changed
        self._watch = watch
        self._sources: dict[EventTopic, ChangeSource] = {}
        self._wanted: frozenset[EventTopic] = frozenset()
        self._news: set[EventTopic] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._files: asyncio.Task[None] | None = None

    def follow(self, wanted: frozenset[EventTopic]) -> None:
        """Follow these topics and no others."""
        self._wanted = wanted
        for topic in self._sources.keys() - wanted:
            self._leave(topic)
        for topic in wanted - self._sources.keys():
            with contextlib.suppress(
                OSError
            ):  # the kernel lacks this, or there are no descriptors now: the next recheck finds changes
                source = SOURCES[topic]()
                self._sources[topic] = source
                asyncio.get_running_loop().add_reader(source.fileno(), self._heard, topic)
        if EventTopic.NAME in wanted and self._files is None:
            self._files = asyncio.create_task(self._follow_files(), name="names of the host")
        elif EventTopic.NAME not in wanted and self._files is not None:
            self._files.cancel()
            self._files = None
        if self._retry:
            self._retry.cancel()
        missing = wanted - self._sources.keys()
        self._retry = asyncio.get_running_loop().call_later(AGAIN, self.follow, wanted) if missing else None

    async def close(self) -> None:
        """Stop following."""
        files = self._files
        self.follow(frozenset())
        if self._timer:
            self._timer.cancel()
        if files:
            await asyncio.gather(files, return_exceptions=True)

    def _leave(self, topic: EventTopic) -> None:
        source = self._sources.pop(topic)
        asyncio.get_running_loop().remove_reader(source.fileno())
        source.close()

    async def _follow_files(self) -> None:
        armed = False
        async for _ in self._watch(*NAMES):
            if armed:
                self._note(EventTopic.NAME)
            armed = True

    def _heard(self, topic: EventTopic) -> None:
        """Handle a readable source. The data is read when `changed` is called; until then a flood costs nothing."""
        asyncio.get_running_loop().remove_reader(self._sources[topic].fileno())
        self._note(topic)

    def _note(self, topic: EventTopic) -> None:
        self._news.add(topic)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CALM, self._tell)

    def _tell(self) -> None:
        """Report the changes. Listening starts again first, so that changes during the call are not missed."""
        self._timer = None
        news, self._news = self._news, set()
        real = set()
        for topic in news & self._sources.keys():
            source = self._sources[topic]
            if source.take():
                real.add(topic)
            asyncio.get_running_loop().add_reader(source.fileno(), self._heard, topic)
        if real:
            self._changed(frozenset(real))
