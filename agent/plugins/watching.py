"""One stream of events for all watched resources of a plugin.

The stream is opened again, from the last revision that was received, when the plugin has ended and when a further kind
is watched. All resources of a kind count as changed then, unless each event of the kind had a revision: the provider
may not know the events without.

Changes are not reported while there is no stream, and while the provider says so, for example because it has lost its
server. The resources are not notified of a short outage. After a longer one, they count as not watched until there is a
stream again or the provider reports an event about them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from holdfast.agent.loggers import LazyLogger
from holdfast.resources.context import Watch
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.watch_items import Unwatched

log = LazyLogger("holdfast.plugins")

OUTAGE = 5.0
"""Seconds after which resources whose changes are not reported count as not watched."""
PAUSE, LONGEST = 0.5, 10.0
"""Seconds between the starts of two streams that fail: at first, and at most."""
MOST, SECOND = 200, 1.0
"""Most events in a second that are handled one by one; after more, all resources of the kind count as changed."""
TEXT = 500
"""Most characters of the reason."""
EVERYTHING = ("", "")
"""Key of a loss of the whole stream."""


class WatchedKey:
    """The watch of one resource."""

    def __init__(self, token: str, identifier: Callable[[], str]) -> None:
        self.token = token
        self.identifier = identifier
        self.armed = False
        self.why = ""
        """Why changes of the resource are not reported; empty if they are."""
        self.news = asyncio.Event()

    def tell(self, why: str = "") -> None:
        """Note that the resource may have changed or, with a reason, that its changes are not reported."""
        self.why = why
        self.news.set()


@dataclass
class Loss:
    """Changes of one resource, of a kind or of all are not reported."""

    why: str
    timer: asyncio.TimerHandle
    """Ends the time for which the resources are not notified of the loss."""
    told: bool = False


class EventStream:
    """The watches of one plugin.

    `open_` opens a stream, and raises the errors of calls. `report` is called with the reason when changes are no
    longer reported, and with an empty text when all are reported again.
    """

    def __init__(
        self,
        open_: Callable[[Collection[str], str], AsyncIterator[Any]],
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._open, self._report = open_, report
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
        self._losses: dict[tuple[str, str], Loss] = {}
        """(token, identifier) -> why changes are not reported; an empty text stands for all."""
        self._reported = ""
        self._events = 0
        """Events of the present second."""
        self._flooded: set[str] = set()
        """Kinds with more events in this second than are handled one by one."""

    async def watch(self, token: str, identifier: Callable[[], str]) -> Watch:
        """Yield None once armed, and again when the resource may have changed.

        Yields `Unwatched` when changes are not reported for some time, and None when they are again.
        """
        mine = WatchedKey(token, identifier)
        self._watched.add(mine)
        try:
            self._begin(mine)
            while True:
                await mine.news.wait()
                mine.news.clear()
                yield Unwatched(mine.why) if mine.why else None
        finally:
            self._watched.discard(mine)
            if not self._watched and self._task is not None:
                self._task.cancel()

    def _begin(self, new: WatchedKey) -> None:
        """Watch a further resource."""
        if new.token not in self._tokens:
            self._more.set()
        elif self._armed:
            new.armed = True
        if why := self._why(new):
            new.tell(why)
        elif new.armed:
            new.tell()
        if self._task is None:
            self._start()

    def renew(self) -> None:
        """Open the stream again, without a revision, because new settings may name another server."""
        self._revision, self._resumes, self._armed = "", {}, False
        if self._task is not None:
            self._lose(EVERYTHING, "the watch begins again, because the settings have changed")
            self._task.cancel()  # `_over` starts another one

    # -- the stream --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="events of a plugin")
        self._task.add_done_callback(self._over)

    async def _run(self) -> None:
        """Keep a stream open while there are watches."""
        loop, failures = asyncio.get_running_loop(), 0
        while self._watched:
            self._more.clear()
            self._tokens = frozenset(each.token for each in self._watched)
            began = loop.time()
            try:
                await self._follow()
            except Exception as error:
                failures = 1 if self._armed else failures + 1
                self._armed = False
                if not isinstance(error, HoldfastError):
                    log.exception("the events of a plugin cannot be followed")
                self._lose(EVERYTHING, _told(error), at_once=isinstance(error, Permanent))
                await asyncio.sleep(max(0.0, _pause(error, failures) - (loop.time() - began)))

    async def _follow(self) -> None:
        """Follow one stream until another kind is to be watched. Raises the error that ends the stream."""
        for key in self._losses.keys() - {EVERYTHING}:
            self._regain(key)  # the provider reports its losses again
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

    def _over(self, _: asyncio.Task[None]) -> None:
        self._task, self._armed, self._tokens = None, False, frozenset()
        if self._watched:  # the task was cancelled by `renew`, or a watch was added at the last moment
            self._start()
            return
        for key in list(self._losses):
            self._regain(key)
        self._tell_report()

    # -- events ------------------------------------------------------------------------------------------------

    def _handle(self, event: Any) -> None:
        if event.armed:
            self._arm()
        elif event.unwatched:
            self._lose((event.token, event.id), event.unwatched)
        else:
            self._revision = event.revision or self._revision
            self._resumes[event.token] = self._resumes.get(event.token, True) and bool(event.revision)
            self._tell_soon(event.token, "" if event.relist else event.id)

    def _arm(self) -> None:
        """Notify new watches that they are armed, and all watches if changes may have been missed."""
        self._armed = True
        self._regain(EVERYTHING)
        for each in self._watched:
            if each.token in self._tokens and (each.why or not (each.armed and self._resumes.get(each.token))):
                each.armed = True
                each.tell(self._why(each))
        self._tell_report()

    def _tell_soon(self, token: str, id_: str) -> None:
        """Notify the watches concerned; if the provider floods the agent, notify all watches of the kind later."""
        if not self._events:
            asyncio.get_running_loop().call_later(SECOND, self._next_second)
        self._events += 1
        if self._events <= MOST:
            self._tell(token, id_)
        else:
            self._flooded.add(token)

    def _next_second(self) -> None:
        self._events, flooded, self._flooded = 0, self._flooded, set()
        for token in flooded:
            self._tell(token, "")

    def _tell(self, token: str, id_: str) -> None:
        """Notify the watches of one resource, or of all of a kind; their changes are reported again.

        An unknown identifier may belong to a resource whose creation the agent does not know yet.
        """
        for key in [each for each in self._losses if token in ("", each[0]) and id_ in ("", each[1])]:
            self._regain(key)
        armed = [each for each in self._watched if each.armed and token in ("", each.token)]
        known = [(each, each.identifier() if id_ else "") for each in armed]
        wanted = id_ if any(mine == id_ for _, mine in known) else ""
        for each, mine in known:
            if mine == wanted:
                each.tell(self._why(each))
        self._tell_report()

    # -- changes that are not reported -------------------------------------------------------------------------

    def _why(self, watched: WatchedKey) -> str:
        """Return why changes of a resource are not reported, if that has lasted for some time."""
        for key in (EVERYTHING, (watched.token, ""), (watched.token, watched.identifier())):
            loss = self._losses.get(key)
            if loss is not None and loss.told:
                return loss.why
        return ""

    def _lose(self, key: tuple[str, str], why: str, *, at_once: bool = False) -> None:
        """Note that changes are not reported, and notify watches of that later or `at_once`."""
        loss = self._losses.get(key)
        if loss is None:
            token, id_ = key
            if not any(token in ("", each.token) and id_ in ("", each.identifier()) for each in self._watched):
                return  # the loss concerns nothing
            timer = asyncio.get_running_loop().call_later(OUTAGE, self._show, key)
            loss = self._losses[key] = Loss(why, timer)
        loss.why = why[:TEXT]
        if at_once:
            self._show(key)

    def _show(self, key: tuple[str, str]) -> None:
        """Notify the watches that changes are not reported."""
        loss = self._losses[key]
        loss.timer.cancel()
        loss.told = True
        for each in self._watched:
            if (why := self._why(each)) and why != each.why:
                each.tell(why)
        self._tell_report()

    def _regain(self, key: tuple[str, str]) -> None:
        if (loss := self._losses.pop(key, None)) is not None:
            loss.timer.cancel()

    def _tell_report(self) -> None:
        why = next((each.why for each in self._losses.values() if each.told), "")
        if why != self._reported:
            self._reported = why
            self._report(why)


def _told(error: Exception) -> str:
    """Return a text about the end of a stream."""
    if isinstance(error, HoldfastError):
        return str(error)
    return f"the watch has failed: {type(error).__name__}: {error}"


def _pause(error: Exception, failures: int) -> float:
    """Return the fewest seconds from the start of a failed stream to that of the next one."""
    if isinstance(error, Temporary) and error.delay is not None:
        return error.delay
    return float(min(LONGEST, PAUSE * 2 ** min(failures - 1, 16)))
