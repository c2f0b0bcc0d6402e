"""Connections of clients: each is a task of its own, they are bounded in number, and they end with their server."""

from __future__ import annotations

import asyncio
import errno
import resource
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from holdfast.agent.health import Health

RequestOrError = TypeVar("RequestOrError")
"""A request, or the error in an invalid one."""

BACKLOG = 64
"""Most connections that asyncio accepts at once, and so the number by which the limit can be exceeded for a moment."""
SHARE = 8
"""The clients of one server may use this fraction of the descriptors of the process; the others are for repairs."""
SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors for which accepting a connection may succeed later."""
NO_DESCRIPTORS = "descriptors-exhausted"
"""Code of the health condition for a lack of descriptors in the process or the machine."""
CALM = 5.0
"""Seconds from the last refusal to the end of that condition; asyncio tries to accept again each second."""


class Connections(Generic[RequestOrError]):
    """Open connections of one server, at most `most`.

    `read` reads one request, `talk` answers it; `OSError` and `TimeoutError` from either end the connection. When all
    slots are taken, a new client takes the slot of the client that has been silent longest, so idle connections do not
    block others. That client, or the new one if all others have sent a request, gets `refusal` and is disconnected.
    """

    def __init__(
        self,
        read: Callable[[asyncio.StreamReader], Awaitable[RequestOrError]],
        talk: Callable[[RequestOrError, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        refusal: Callable[[], bytes],
        most: int,
    ) -> None:
        self._read, self._talk, self._refusal = read, talk, refusal
        self._most = most
        self._open: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}
        """Connections that have not sent their request yet, oldest first."""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a new connection and close it. asyncio's servers call this in a task of its own."""
        writer.transport.set_write_buffer_limits(0)  # `drain` waits until all is sent, so that `close` loses nothing
        try:
            if self._place():
                await self._serve(reader, writer)
            else:
                writer.write(self._refusal())
        except (OSError, TimeoutError, asyncio.CancelledError):
            # The client has disconnected or does not read, has lost its slot, or the server stops. `close` would keep
            # the descriptor until the client has read what was written for it.
            writer.transport.abort()
        finally:
            writer.close()

    async def stop(self) -> None:
        """Disconnect all clients."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _place(self) -> bool:
        """Take a slot, if necessary that of a silent connection; return whether there was one."""
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
        except asyncio.CancelledError:
            if task not in self._open:  # the client has lost its slot; its request may be on its way
                writer.write(self._refusal())
            raise
        finally:
            self._silent.pop(task, None)
            self._open.discard(task)


def affordable(most: int) -> int:
    """Return how many of `most` clients the process can have with its limit of descriptors; at least one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, soft // SHARE))


class Exhaustion:
    """The event loop's handler of uncaught errors. If no connection can be accepted, health says so once."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._end: asyncio.TimerHandle | None = None

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception for asyncio; errors other than those of a scarce resource are logged as by default."""
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
