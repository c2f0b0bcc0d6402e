"""One stream of events for all watched resources of a plugin.

The stream is opened again when the plugin has ended, from the last revision that was received, and when a further kind
is watched. All resources of a kind count as changed then, unless each event of the kind had a revision: the provider
may not remember the others. A short outage is not told to the resources; a longer one ends their watches, so that the
agent shows what is not watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing
from typing import Any

from holdfast.resources.errors import HoldfastError, Permanent, Temporary

OUTAGE = 10.0
"""Seconds after which watches end if there is no stream."""
PAUSE = 0.5
"""Least seconds between two streams that fail."""


class WatchedKey:
    """The watch of one resource."""

    def __init__(self, token: str, identifier: Callable[[], str]) -> None:
        self.token = token
        self.identifier = identifier
        self.armed = False
        self.error: HoldfastError | None = None
        self.news = asyncio.Event()

    def tell(self, error: HoldfastError | None = None) -> None:
        """Note that the resource may have changed, or that its watch ends."""
        self.error = error
        self.news.set()


class EventStream:
    """The watches of one plugin. `open_` opens a stream; it raises as calls do."""

    def __init__(self, open_: Callable[[Collection[str], str], AsyncIterator[Any]]) -> None:
        self._open = open_
        self._watched: set[WatchedKey] = set()
        self._revision = ""
        self._resumes: dict[str, bool] = {}
        """Token -> whether each of its events had a revision."""
        self._task: asyncio.Task[None] | None = None
        self._more = asyncio.Event()
        """Set when a kind is watched that the stream does not have."""
        self._tokens: frozenset[str] = frozenset()
        """Kinds of the stream."""
        self._armed = False
        self._lost = 0.0
        """Loop time at which the stream was lost; 0: it is there, or was never."""

    async def watch(self, token: str, identifier: Callable[[], str]) -> AsyncIterator[None]:
        """Yield None once armed, and again when the resource may have changed. Raises what ended the watch."""
        mine = WatchedKey(token, identifier)
        self._watched.add(mine)
        try:
            if self._armed and token in self._tokens:
                mine.armed = True
                mine.tell()
            else:
                self._more.set()
            if self._task is None:
                self._task = asyncio.create_task(self._run())
                self._task.add_done_callback(self._over)
            while True:
                await mine.news.wait()
                mine.news.clear()
                if mine.error is not None:
                    raise type(mine.error)(str(mine.error))
                yield None
        finally:
            self._watched.discard(mine)
            if not self._watched and self._task is not None:
                self._task.cancel()

    def renew(self) -> None:
        """Open the stream anew, without a revision, because other settings may name another server."""
        self._revision, self._resumes, self._armed = "", {}, False
        if self._task is not None:
            self._task.cancel()  # `_over` starts another one

    async def _run(self) -> None:
        """Keep a stream open as long as there are watches."""
        loop = asyncio.get_running_loop()
        self._lost = loop.time()
        while self._watched:
            self._more.clear()
            self._tokens = frozenset(each.token for each in self._watched)
            began = loop.time()
            try:
                await self._follow()
            except HoldfastError as error:
                self._armed = False
                self._lost = self._lost or loop.time()
                if isinstance(error, Permanent) or loop.time() - self._lost > OUTAGE:
                    self._end(error)
                    return
                await asyncio.sleep(max(0.0, PAUSE - (loop.time() - began)))

    async def _follow(self) -> None:
        """Follow one stream until another kind is to be watched. Raises what ends it."""
        async with aclosing(self._open(sorted(self._tokens), self._revision)) as stream:  # type: ignore[type-var]
            more = asyncio.ensure_future(self._more.wait())
            event: asyncio.Future[Any] | None = None
            try:
                while True:
                    event = event or asyncio.ensure_future(anext(stream))
                    await asyncio.wait([event, more], return_when=asyncio.FIRST_COMPLETED)
                    if event.done():
                        self._handle(event.result())
                        event = None
                    elif not {each.token for each in self._watched} <= self._tokens:
                        return
                    else:
                        self._more.clear()
                        more = asyncio.ensure_future(self._more.wait())
            finally:
                for each in filter(None, (event, more)):
                    each.cancel()
                await asyncio.gather(*filter(None, (event, more)), return_exceptions=True)

    def _handle(self, event: Any) -> None:
        if event.armed:
            self._arm()
            return
        self._revision = event.revision or self._revision
        self._resumes[event.token] = self._resumes.get(event.token, True) and bool(event.revision)
        if event.relist or not event.id:
            self._tell(lambda each: not event.token or each.token == event.token)
        else:
            self._tell_of(event.token, event.id)

    def _arm(self) -> None:
        """Tell new watches that they are armed, and all if changes may have been missed."""
        self._armed, self._lost = True, 0.0
        for each in self._watched:
            if each.token in self._tokens and not (each.armed and self._resumes.get(each.token)):
                each.armed = True
                each.tell()

    def _tell_of(self, token: str, id_: str) -> None:
        """Tell the watch of a resource; of one that none has, those whose resource has no identifier yet."""
        known = [(each, each.identifier()) for each in self._watched if each.token == token]
        wanted = id_ if any(mine == id_ for _, mine in known) else ""
        for each, mine in known:
            if mine == wanted:
                each.tell()

    def _tell(self, wanted: Callable[[WatchedKey], bool]) -> None:
        for each in self._watched:
            if wanted(each):
                each.tell()

    def _end(self, error: HoldfastError) -> None:
        for each in self._watched:
            each.tell(error)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._task, self._armed, self._tokens = None, False, frozenset()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(Temporary(f"the watch has failed: {type(error).__name__}: {error}"))
        if self._watched and not all(each.error for each in self._watched):  # one came at the last moment
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._over)
