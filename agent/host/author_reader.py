"""The thread that reads which processes have changed entries of marked directories, and who these processes are.

It keeps what it has read, and answers questions of `namer`, which starts it.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from holdfast.agent.host.authors import Process, Processes
from holdfast.agent.host.executions import Executions
from holdfast.agent.host.fanotify import FanotifyGroup, FileEvent, key_of, opened
from holdfast.agent.host.path_nodes import held
from holdfast.resources.author import Author

KEPT = 4096
"""Most entries of directories for which the last change is kept."""
RECENT = 256
"""Most processes that are kept after they have been read."""
REUSE = 1.0
"""Seconds for which a process is not read again. The kernel does not give its number to another process so soon."""
PROGRAM = 10.0
"""The same for a process that was read when it began to execute a program: each further program is reported."""
RATE, BURST = 100.0, 200.0
"""How often per second the thread reads events without a request, and how often at once after a pause."""
PROGRAMS, BURST_OF_PROGRAMS = 500.0, 1000.0
"""The same for processes that begin to execute a program."""
REST = 0.02
"""Seconds for which the thread collects events in a flood."""
READS = 64
"""Most buffers of events that are read before the thread handles requests: a flood must not delay these."""
PRIORITY = -10
"""Nice value of the thread: a process that ends within a millisecond is read before it is gone."""
END = 2.0
"""Seconds that `end` waits for the thread."""

Key = TypeVar("Key")
Value = TypeVar("Value")
Place = tuple[str, str]
"""A directory and the name of an entry; `.` for the directory itself."""


class SeenChange(NamedTuple):
    """The last change of an entry by a process that does not belong to the agent."""

    at: float
    """Time of `time.monotonic` at which the event was read."""
    author: Author


class RateBudget:
    """Limits an action to `rate` times per second, and to `burst` times at once after a pause."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, time.monotonic()

    def take(self) -> bool:
        """Return whether the action is allowed now, and count it."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class AuthorReader:
    """The thread: the only reader of the group, and the only writer of the changes that are kept.

    Raises `OSError` and `RuntimeError`.
    """

    def __init__(self, programs: Executions | None = None) -> None:
        self.group = FanotifyGroup(processes=True)
        self._programs = programs
        self._reads, self._rounds = RateBudget(PROGRAMS, BURST_OF_PROGRAMS), RateBudget(RATE, BURST)
        self._processes = Processes()
        self._seen: OrderedDict[tuple[bytes, bytes], SeenChange] = OrderedDict()
        """(directory, entry) -> its last change; the oldest is first."""
        self._times: OrderedDict[bytes, float] = OrderedDict()
        """Name of an entry -> time of its last change in any directory; the oldest is first."""
        self._known: OrderedDict[int, tuple[float, Process]] = OrderedDict()
        """Process id -> the time until which this is the process, and who it is; the oldest is first."""
        self._asked: deque[Callable[[], None]] = deque()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="holdfast-namer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._close()
            raise

    def ask(self, job: Callable[[], None]) -> None:
        """Make the thread call a function after it has read all pending events."""
        self._asked.append(job)
        os.eventfd_write(self._bell, 1)

    def end(self) -> None:
        """End the thread, and close the descriptors; a thread that hangs keeps them until the process ends."""
        self._ended = True
        os.eventfd_write(self._bell, 1)
        self._thread.join(END)
        if not self._thread.is_alive():
            self._close()

    def _close(self) -> None:
        self.group.close()
        if self._programs is not None:
            self._programs.close()
        os.close(self._bell)

    def _work(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PRIORITY)
        poll, bell = select.poll(), select.poll()
        bell.register(self._bell, select.POLLIN)
        for descriptor in (self._bell, self.group.fd, *([self._programs.fileno()] if self._programs else [])):
            poll.register(descriptor, select.POLLIN)
        while not self._ended:
            ready = {descriptor for descriptor, _ in poll.poll()}
            calm = self._note_programs()
            if self._bell in ready:
                os.eventfd_read(self._bell)
            elif not calm or (self.group.fd in ready and not self._rounds.take()):
                bell.poll(REST * 1000)
            self._read()

    def _read(self) -> None:
        """Read pending events, then handle the requests that came before."""
        asked = len(self._asked)
        for _ in range(READS):
            if not (events := self.group.read()):
                break
            self._note(events)
        for _ in range(asked):
            self._asked.popleft()()

    def _note_programs(self) -> bool:
        """Read the processes that have begun to execute a program; return whether there was time for all of them."""
        calm = True
        while self._programs is not None and (pid := self._programs.read()):
            if not self._reads.take():
                calm = False
                continue
            with contextlib.suppress(OSError):  # the process has ended already
                descriptor = os.pidfd_open(pid)
                try:
                    self._remember(pid, self._processes.read(pid, descriptor), PROGRAM)
                finally:
                    os.close(descriptor)
        return calm

    def _note(self, events: Sequence[FileEvent]) -> None:
        """Read the processes of some events, each process once, and note which entries they have changed."""
        read: dict[int, Process] = {}
        for event in events:
            try:
                process = read.get(event.pid)
                if process is None or not (process.author.name or process.own):
                    process = read[event.pid] = self._process(event)
                if event.key and not process.own:
                    now = time.monotonic()
                    _keep(self._seen, (event.key, event.name), SeenChange(now, process.author), KEPT)
                    _keep(self._times, event.name, now, KEPT)
            finally:
                if event.pidfd >= 0:
                    os.close(event.pidfd)

    def _process(self, event: FileEvent) -> Process:
        """Return the process of an event, as it was last read: it may have ended since."""
        until, known = self._known.get(event.pid, (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        process = self._processes.read(event.pid, event.pidfd)
        self._remember(event.pid, process, REUSE)
        return process

    def _remember(self, pid: int, process: Process, seconds: float) -> None:
        """Keep a process that could be read."""
        if process.author.name or process.own:
            _keep(self._known, pid, (time.monotonic() + seconds, process), RECENT)

    def find(self, places: Iterable[Place], since: float) -> Author | None:
        """Return the last process that has changed one of these places since then. Called by the event loop."""
        found: SeenChange | None = None
        for directory, entry in places:
            name = os.fsencode(entry)
            if self._times.get(name, 0.0) < since:
                continue
            try:
                with held(directory, follow=True) as path, opened(path, follow=True) as place:
                    seen = self._seen.get((key_of(place), name))
            except OSError:  # removed: the change of an entry above it has the process
                continue
            if seen is not None and seen.at >= since and (found is None or seen.at > found.at):
                found = seen
        return None if found is None else found.author


def _keep(memory: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    """Add an entry as the newest; forget the oldest ones beyond the limit."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > most:
        memory.popitem(last=False)
