"""Connections of those who ask the agent something: each is a task of its own, bounded in number, and none outlives the server that took it."""

from __future__ import annotations

import asyncio
import errno
import resource
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from holdfast.agent.health import Health

Asked = TypeVar("Asked")
"""A request, or what is wrong with it."""

BACKLOG = 64
"""Connections that asyncio accepts before the loop goes on, and so how many can be open beyond the limit for a moment."""
SHARE = 8
"""Clients of one server may have one in so many of the descriptors of the process: the others are for repairs."""
SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Why a connection cannot be accepted now, though it can be later."""
NO_DESCRIPTORS = "descriptors-exhausted"
"""Code of the health condition that says that the process, or the machine, has no more of them."""
CALM = 5.0
"""Seconds after the last refusal when that condition ends; asyncio tries to accept again each second."""


class Connections(Generic[Asked]):
    """Those that are open to one server: at most `most` clients.

    `read` reads one request, `talk` answers it; `OSError` and `TimeoutError` from either end the connection. When all places are taken, a new client gets that of the one that has been silent for longest: whoever only connects
    keeps nobody out. If all have sent a request, the new one is sent `refusal` and let go.
    """

    def __init__(
        self,
        read: Callable[[asyncio.StreamReader], Awaitable[Asked]],
        talk: Callable[[Asked, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        refusal: Callable[[], bytes],
        most: int,
    ) -> None:
        self._read, self._talk, self._refusal = read, talk, refusal
        self._most = most
        self._open: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}
        """Those that have not sent their request yet, oldest first."""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a new connection and close it: what asyncio's servers call, in a task made for that."""
        try:
            if self._place():
                await self._serve(reader, writer)
            else:
                writer.write(self._refusal())
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the client is gone, or its place is another's, or we stop: there is nobody to tell
        finally:
            writer.close()

    async def stop(self) -> None:
        """Let go of all of them."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _place(self) -> bool:
        """Whether there is a place for one more; takes it from one that is silent if need be."""
        if len(self._open) < affordable(self._most):
            return True
        silent = next(iter(self._silent), None)
        if silent is None:
            return False
        self._silent.pop(silent)
        self._open.discard(silent)
        silent.cancel()
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine: it runs in one
        self._open.add(task)
        self._silent[task] = None
        try:
            request = await self._read(reader)
            self._silent.pop(task, None)
            await self._talk(request, reader, writer)
        finally:
            self._silent.pop(task, None)
            self._open.discard(task)


def affordable(most: int) -> int:
    """How many of `most` clients a process with this limit of descriptors can have; at least one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, soft // SHARE))


class Exhaustion:
    """The event loop's handler of errors that nobody awaits: that no connection can be accepted is a condition of health, said once."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._end: asyncio.TimerHandle | None = None

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What asyncio calls; all other errors are logged as ever."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in SCARCE or "socket" not in context:
            loop.default_exception_handler(context)
            return
        self._health.set(
            NO_DESCRIPTORS, f"cannot accept connections: {error.strerror}; find out who holds open files: ls /proc/*/fd"
        )
        if self._end:
            self._end.cancel()
        self._end = loop.call_later(CALM, self._health.clear, NO_DESCRIPTORS)
