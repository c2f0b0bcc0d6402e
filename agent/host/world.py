"""The world of one host: strings and host maps in a file of the agent's own directory, shared with one-shot runs beside it.

Written whole, under a lock, so that nobody reads half of it and no change is lost; watched through inotify like any other file. A fleet keeps the same
things where all of its hosts see them.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.agent.host.files import Replacement
from holdfast.resources.context import Watch
from holdfast.resources.errors import Permanent

LIMIT = 1 << 20
"""Bytes that all of it may have."""
NAME = 256
"""Characters of a key, namespace or host."""

Content = dict[str, dict[str, Any]]
"""`strings`: key -> text; `hosts`: namespace -> host -> text."""


class LocalWorld:
    """Strings and host maps of this host. `host` is its name, under which it has its place in host maps."""

    def __init__(
        self, path: Path, host: Callable[[], str], blocking: Callable[..., Awaitable[Any]], watch: Callable[..., Watch], *, durable: bool
    ) -> None:
        self._path, self._host = path, host
        self._blocking, self._watch = blocking, watch
        self._durable = durable
        self._turn = asyncio.Lock()

    async def string(self, key: str) -> str | None:
        """The string of a key; None where there is none."""
        text: str | None = (await self._blocking(self._read))["strings"].get(key)
        return text

    async def set_string(self, key: str, value: str | None) -> None:
        """Set a string, or with None remove it. Raises `Permanent` for what is too large, `OSError` when it cannot be written."""
        await self._change(lambda content: _put(content["strings"], key, value))

    def watch_string(self, key: str) -> Watch:
        """Armed; then one item whenever the string of this key is another one."""
        return self._changes(lambda content: content["strings"].get(key))

    async def hosts(self, namespace: str) -> Mapping[str, str]:
        """What each host has said under this name."""
        return dict((await self._blocking(self._read))["hosts"].get(namespace, {}))

    async def set_host(self, namespace: str, value: str | None) -> None:
        """Say something for this host under a name, or with None no more. Raises as `set_string` does."""
        host = self._host()

        def change(content: Content) -> None:
            _put(content["hosts"].setdefault(namespace, {}), host, value, namespace)
            if not content["hosts"][namespace]:
                del content["hosts"][namespace]

        await self._change(change)

    def watch_hosts(self, namespace: str) -> Watch:
        """Armed; then one item whenever some host says something else under this name."""
        return self._changes(lambda content: content["hosts"].get(namespace, {}))

    async def _changes(self, look: Callable[[Content], Any]) -> AsyncIterator[None]:
        """One item for each change of what is looked at."""
        seen: Any = None
        armed = False
        async for _ in self._watch(str(self._path)):
            now = look(await self._blocking(self._read))
            if not armed or now != seen:
                seen, armed = now, True
                yield None

    async def _change(self, change: Callable[[Content], None]) -> None:
        async with self._turn:
            await self._blocking(self._rewrite, change)

    def _rewrite(self, change: Callable[[Content], None]) -> None:
        """Read, change, write, with nobody in between. Blocks."""
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = self._read()
            before = json.dumps(content, sort_keys=True)
            change(content)
            after = json.dumps(content, sort_keys=True)
            if len(after) > LIMIT:
                raise Permanent(f"cannot keep that in {self._path}: all of it may have {LIMIT} bytes")
            if after != before:
                Replacement(str(self._path), after.encode(), 0o600, -1, -1, self._durable).place()
        finally:
            os.close(lock)

    def _read(self) -> Content:
        """What is there. Raises `Permanent` for a file that somebody else has written. Blocks."""
        try:
            found = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            found = {}
        except ValueError as error:
            raise Permanent(f"cannot read {self._path}: {error}; remove it to begin anew") from None
        if not isinstance(found, dict) or not all(isinstance(found.get(part, {}), dict) for part in ("strings", "hosts")):
            raise Permanent(f"cannot read {self._path}: it holds something else; remove it to begin anew")
        return {"strings": found.get("strings", {}), "hosts": found.get("hosts", {})}


def _put(where: dict[str, str], key: str, value: str | None, *more: str) -> None:
    for name in (key, *more):
        if not 0 < len(name) <= NAME:
            raise Permanent(f"cannot keep anything as {name[:20]!r}: a name has 1 to {NAME} characters")
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value
