"""A watch of paths, as resources use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.resources.watches import CallbackWatch

if TYPE_CHECKING:
    from holdfast.agent.host.path_nodes import Owner, Subscription


class PathWatch(CallbackWatch):
    """Is armed when it is first awaited or listened to."""

    def __init__(self, watcher: Owner, paths: Sequence[str], *, recursive: bool) -> None:
        self._watcher, self._paths, self._recursive = watcher, paths, recursive
        self._events = self._wait()

    def listen(self, callback: Callable[[], None]) -> Subscription:
        """Subscribe a callback; armed on return."""
        return self._watcher.subscribe(self._paths, callback, recursive=self._recursive)

    def asend(self, value: None, /) -> Coroutine[Any, Any, None]:
        """Return the next event."""
        return self._events.asend(value)

    def athrow(self, *error: Any) -> Coroutine[Any, Any, None]:
        """Raise this error where the generator waits."""
        return self._events.athrow(*error)

    def aclose(self) -> Coroutine[Any, Any, None]:
        """End the watch."""
        return self._events.aclose()

    async def _wait(self) -> AsyncGenerator[None, None]:
        rang = asyncio.Event()
        subscription = self.listen(rang.set)
        try:
            yield None
            while True:
                await rang.wait()
                rang.clear()
                yield None
        finally:
            subscription.close()
