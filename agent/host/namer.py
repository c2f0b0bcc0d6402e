"""Names the processes that change watched paths: which process, its command line and its login user.

The namer is independent of the watches, which alone decide what is checked. It marks the same directories in a fanotify
group of its own. A thread with a high priority reads the events of this group and, at once, their processes. Many
processes end a moment later, so the event loop would name fewer of them. The thread keeps the last foreign process for
each entry of a directory, in bounded memory.

No check and no repair waits for the thread. Only the report of a repair does, for fifty milliseconds at most (`who`).
If the thread was late once (a flood of events, a name service that hangs), reports do not wait until it answers again.

No process is known: for changes through other hard links and through memory maps, of a file that is a mount point
itself (the kernel names the directory to which the file belongs), of other hosts on a network file system, on file
systems that fanotify does not accept, and without CAP_SYS_ADMIN or before Linux 5.15.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from holdfast.agent.host.author_reader import AuthorReader, Place
from holdfast.agent.host.executions import Executions
from holdfast.agent.host.fanotify import opened
from holdfast.agent.host.path_nodes import PathNode, Subscription
from holdfast.agent.loggers import LazyLogger
from holdfast.resources.author import Author

SLACK = 1.0
"""Seconds by which the thread may read a change before the event loop notices it."""
MOMENT = 0.05
"""Seconds for which a question waits for the thread. It usually takes a hundredth of that."""
SELF = "."
"""The name of the directory itself in its events."""

log = LazyLogger("holdfast.paths")


class Namer:
    """The namer of one event loop. The group is opened with the first mark, and the thread started with it."""

    def __init__(self, *, programs: bool = False) -> None:
        self._programs = programs
        self._reader: AuthorReader | None = None
        self._refused = False
        """Whether the kernel does not allow a group: nothing is named then."""
        self._late = False
        """Whether the thread was late, and has not answered since."""

    def mark(self, path: str, mask: int, *, follow: bool) -> None:
        """Name the processes that change entries of a directory. A directory that cannot be marked is left out."""
        if self._reader is None and not self._refused:
            self._open()
        if self._reader is not None:
            with contextlib.suppress(OSError), opened(path, follow=follow) as directory:
                self._reader.group.mark(directory, mask)

    def unmark(self, path: str) -> None:
        """Name no more processes for a directory. If the path leads elsewhere by now, the mark stays until `close`."""
        if self._reader is not None:
            with contextlib.suppress(OSError), opened(path, follow=True) as directory:
                self._reader.group.unmark(directory)

    async def who(self, places: Iterable[Place], since: float) -> Author | None:
        """Return the last process that has changed one of these places since then; None if none is known.

        `since` is a time of `time.monotonic`.
        """
        if self._reader is None:
            return None
        await self._caught_up(self._reader)
        return self._reader.find(places, since - SLACK)

    def close(self) -> None:
        """Remove all marks, and end the thread."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.end()

    def _open(self) -> None:
        try:
            self._reader = AuthorReader(self._executions() if self._programs else None)
        except (OSError, RuntimeError) as error:
            self._refused = True
            log.debug("processes that change files are not named", why=str(error))

    def _executions(self) -> Executions | None:
        try:
            return Executions()
        except OSError as error:
            log.warning("programs are not followed (watch.programs)", why=str(error))
            return None

    async def _caught_up(self, reader: AuthorReader) -> None:
        """Wait until the thread has read all pending events, unless it was late before and has not answered since."""
        if self._late:
            return
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()
        reader.ask(lambda: _tell(loop, partial(self._answered, answer)))
        done, _ = await asyncio.wait([answer], timeout=MOMENT)
        self._late = not done

    def _answered(self, answer: asyncio.Future[None]) -> None:
        self._late = False
        if not answer.done():
            answer.set_result(None)


def places(subscription: Subscription, within: Iterable[tuple[PathNode, str]]) -> Iterator[Place]:
    """Yield all places that decide what a subscription's paths lead to.

    `within` are the last events within recursively watched directories (node, entry); those of this subscription count.
    """
    for node in subscription.nodes:
        yield node.path, SELF
        for step in node.upward():
            if step.parent is not None:
                yield step.parent.path, step.name
    for node, name in within if subscription.deep else ():
        if any(subscription in step.deep for step in node.upward()):
            yield node.path, name or SELF


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Make a call in an event loop, unless it has been closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
