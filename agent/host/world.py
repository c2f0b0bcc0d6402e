"""The world of one host: strings and host maps in a file of the agent's own directory, shared with one-shot runs.

The file is replaced as a whole under a lock, so that no reader sees a part of it and no change is lost. inotify watches
the file like any other one. In a fleet, all hosts share these data.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.agent.host.files import Replacement
from holdfast.resources import paths
from holdfast.resources.context import Watch
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.paths.handle import read_whole

LIMIT = 1 << 20
"""Most bytes of the file."""
NAME = 256
"""Most characters of a key, namespace or host."""

PATIENCE = 3.0
"""Seconds to wait for another process that changes the file."""
AGAIN = 0.05
"""Seconds between two attempts."""


class Content(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(defer_build=True)

    strings: dict[str, str] = Field(default_factory=dict)
    """Key -> text."""
    hosts: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Namespace -> host -> text."""


class LocalWorld:
    """Strings and host maps of this host. `host` returns the name under which it appears in host maps."""

    def __init__(
        self,
        path: Path,
        host: Callable[[], str],
        blocking: Callable[..., Awaitable[Any]],
        watch: Callable[..., Watch],
        *,
        durable: bool,
    ) -> None:
        self._path, self._host = path, host
        self._blocking, self._watch = blocking, watch
        self._durable = durable
        self._turn = asyncio.Lock()

    async def string(self, key: str) -> str | None:
        """Return the string of a key; None if there is none."""
        content: Content = await self._blocking(self._read)
        return content.strings.get(key)

    async def set_string(self, key: str, value: str | None) -> None:
        """Set a string; None removes it.

        Raises `Permanent` if the value is too large or not valid text, `OSError` if it cannot be written, `Temporary`
        while another process holds the lock.
        """
        await self._change(lambda content: _put(content.strings, key, value))

    def watch_string(self, key: str) -> Watch:
        """Watch the string of this key: one item once armed, then one for each change."""
        return self._changes(lambda content: content.strings.get(key))

    async def hosts(self, namespace: str) -> Mapping[str, str]:
        """Return the value of each host in this namespace."""
        content: Content = await self._blocking(self._read)
        return content.hosts.get(namespace, {})

    async def set_host(self, namespace: str, value: str | None) -> None:
        """Set this host's value in a namespace; None removes it. Raises the errors of `set_string`."""
        host = self._host()

        def change(content: Content) -> None:
            _put(content.hosts.setdefault(namespace, {}), host, value, namespace)
            if not content.hosts[namespace]:
                del content.hosts[namespace]

        await self._change(change)

    def watch_hosts(self, namespace: str) -> Watch:
        """Watch the hosts' values in this namespace: one item once armed, then one for each change."""
        return self._changes(lambda content: content.hosts.get(namespace, {}))

    async def _changes(self, look: Callable[[Content], Any]) -> AsyncIterator[None]:
        """Watch the result of `look`: one item once armed, then one for each change."""
        seen: Any = None
        armed = False
        async for _ in self._watch(str(self._path)):
            now = look(await self._blocking(self._read))
            if not armed or now != seen:
                seen, armed = now, True
                yield None

    async def _change(self, change: Callable[[Content], None]) -> None:
        """Change the file once no other process changes it; no thread waits for that."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            until = loop.time() + PATIENCE
            while not await self._blocking(self._rewrite, change):
                if loop.time() >= until:
                    raise Temporary(f"cannot change {self._path}: another process holds its lock")
                await asyncio.sleep(AGAIN)

    def _rewrite(self, change: Callable[[Content], None]) -> bool:
        """Read, change and write the file under its lock; return False if another process holds the lock. Blocks."""
        place = paths.at(str(self._path.with_suffix(".lock")))
        lock = os.open(place.at, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=place.fd)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = self._read()
            before = _text(content)
            change(content)
            after = _text(content)
            if len(after) > LIMIT:
                raise Permanent(f"cannot store the value in {self._path}: the file may have at most {LIMIT} bytes")
            if after != before:
                Replacement(str(self._path), after, 0o600, -1, -1, self._durable).place()
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True

    def _read(self) -> Content:
        """Return the content of the file. Raises `Permanent` if the agent has not written the file. Blocks."""
        try:
            handle, seen = paths.at(str(self._path), follow=True).open()
        except FileNotFoundError:
            return Content()
        if seen.st_size > LIMIT:
            raise self._foreign(f"it has more than {LIMIT} bytes")
        try:
            return Content.model_validate_json(read_whole(handle.fd, seen, LIMIT, str(self._path)))
        except ValidationError as error:
            raise self._foreign(error.errors(include_input=False, include_url=False)[0]["msg"]) from None

    def _foreign(self, why: str) -> Permanent:
        return Permanent(f"cannot read {self._path}: {why}; remove it to start again")


def _text(content: Content) -> bytes:
    return json.dumps(content.model_dump(), sort_keys=True).encode()


def _put(where: dict[str, str], key: str, value: str | None, *more: str) -> None:
    for name in (key, *more):
        if not 0 < len(name) <= NAME:
            raise Permanent(f"cannot store a value as {name[:20]!r}: a name has 1 to {NAME} characters")
    try:
        "".join((key, *more, value or "")).encode()
    except UnicodeEncodeError:
        raise Permanent(f"cannot store the value as {key[:20]!r}: it is not text") from None
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value
