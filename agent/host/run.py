"""Commands: by their argument list, with a clean environment, held together with all that they start (`holds`), never left behind.

The process is watched through a pidfd and its pipes by the event loop itself: no thread, and an end that is noticed even when a
child of the command has kept the pipes open. A command that ends by itself may leave such children (daemons do); one that is
timed out or cancelled takes everything with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast.agent.host import holds, processes
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.forkserver import server
from holdfast.agent.host.outputs import EVENTS, Output
from holdfast.agent.host.starting import Command, Started, refused, reported, setting_of, start
from holdfast.resources.context import Completed
from holdfast.resources.errors import Overdue, Permanent, Temporary

GRACE = 0.5
"""Seconds between the signal that asks a command to end and SIGKILL."""
LOOK = 0.005
"""Seconds until the first look whether all of a command that was asked has ended; each later look comes after twice the time."""
REAP = 1.0
"""Seconds a killed process is waited for; one stuck in the kernel must not hold up the agent, and is reaped later."""
MOMENT = 0.1
"""Seconds that the loop is held up at most for the end of a killed process that could not be waited for: without a descriptor, or cancelled again."""
LINGER = 0.1
"""Seconds that output is still read for after the process itself has ended, when a child of it holds the pipe."""
TICK = 0.001
"""Seconds between two looks in that time."""
REPORT = 1 << 10
"""Bytes of a report that are kept."""


class Running:
    """A command that runs, with all that it has started."""

    def __init__(self, command: Command, hold: holds.Hold, started: Started) -> None:
        self.command, self.hold = command, hold
        pace = 0.0 if command.on_line is None else EVENTS
        shown = [partial(command.on_output, stream) if command.on_output else None for stream in ("stdout", "stderr")]
        self._out = Output(started.stdout, command.limit, pace=pace, on_line=command.on_line, on_data=shown[0])
        self._err = (
            None if started.stderr is None else Output(started.stderr, command.limit, pace=pace, on_data=shown[1])
        )
        self._report = Output(started.report, REPORT)
        self._child = 0
        """The process that the agent waits for: the command, or its subreaper; 0 until it is known."""
        self.status: int | None = None
        """How that has ended, once it has been waited for; negative for a signal."""
        self._pidfd = -1
        self._apart = Blocking(1)
        """Looks for processes: on a host, or below a command, that has thousands of them this takes long."""

    async def wait(self) -> None:
        """Wait until it has ended by itself, within its time. Raises `TimeoutError`, and `OSError` when it cannot be watched."""
        async with asyncio.timeout(self.command.timeout):
            if not await self._begun():
                return
            self._pidfd = os.pidfd_open(self._child)
            await self._identify()
            await _readable(self._pidfd)
        if self.command.on_line is not None:
            await _to_the_end(self._off_loop(self.hold.sweep))
        self._poll()
        await self._drain()

    async def _begun(self) -> bool:
        """Wait until its process is there; whether it is."""
        self._child = await self._reported("started")
        if not isinstance(self.hold, holds.Subreaper):
            self.hold.pid = self._child
        return self._child > 0

    async def _identify(self) -> None:
        """Learn the command's process id, where a subreaper has started it, and tell it."""
        if not self.hold.pid:
            self.hold.pid = await self._reported("pid")
        if self.command.on_start is not None and self.hold.pid:
            self.command.on_start(self.hold.pid)

    async def _reported(self, what: str) -> int:
        """Wait for a process id in the report; 0 if that ends without."""
        while True:
            pid = reported(self._report.text(), what)
            if pid or self._report.ended.is_set():
                return pid
            self._report.news.clear()
            await self._report.news.wait()

    async def _drain(self) -> None:
        """Read what the ended process left in its pipes, and a moment longer when somebody else still holds them."""
        for output in self._outputs:
            output.finish()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await output.ended.wait()
            output.read()

    @property
    def _outputs(self) -> list[Output]:
        return [output for output in (self._out, self._err, self._report) if output is not None]

    async def end(self) -> None:
        """End it with all that it has started, unless it has ended by itself: ask, wait a little, insist."""
        if not self._child:
            await _to_the_end(self._settle())
        if not self._child or self._poll():
            return
        # Not waited for since, so the process id, and with it the group's, still is this process's.
        self.hold.begin_end(self._child)
        try:
            with contextlib.suppress(TimeoutError, OSError, RuntimeError):  # the last where there can be no thread
                await self._off_loop(self.hold.ask, self.command.stop_signal)
                async with asyncio.timeout(GRACE):
                    await self._gone()
        finally:
            for output in self._outputs:
                output.close()  # nobody reads it any more, and descriptors may be what is missing to find the others
            await _to_the_end(self._off_loop(self.hold.kill))
            await self._reap()

    async def _settle(self) -> None:
        """Learn whether its process is there; a fork server that does not say so in time is ended, so that none comes later."""
        try:
            async with asyncio.timeout(REAP):
                await self._begun()
        except TimeoutError:
            server.stop()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REAP):
                    await self._begun()

    async def _off_loop(self, call: Callable[..., object], *args: object) -> None:
        """Make a call in a thread; where there can be none, here."""
        try:
            await self._apart(call, *args)
        except RuntimeError:
            call(*args)

    async def _gone(self) -> None:
        """Wait until nothing of it is left."""
        pause = LOOK
        while await self._apart(self.hold.alive):
            await asyncio.sleep(pause)
            pause *= 2

    def kill(self) -> None:
        """End all of it at once, unless it has ended by itself: then its process id may be another's already."""
        if not self._child:
            self._report.read()
            self._child = reported(self._report.text(), "started")
        if self._child and self.status is None:
            self.hold.begin_end(self._child)
            self.hold.kill()

    async def _reap(self) -> None:
        """Wait for the end of the killed process, where there is a descriptor that tells of it."""
        if self._pidfd >= 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REAP):
                    await _readable(self._pidfd)

    def _poll(self) -> bool:
        """Whether the process has ended; then it has been waited for."""
        if self.status is None and self._child:
            self.status = processes.waited(self._child)
        return self.status is not None

    def close(self) -> None:
        """Give back what it had."""
        deadline = time.monotonic() + MOMENT
        while self._child and not self._poll() and time.monotonic() < deadline:
            time.sleep(TICK)
        if self._child and self.status is None:
            _stuck.add(self._child)
        _stuck.difference_update([pid for pid in _stuck if processes.waited(pid) is not None])
        if self._pidfd >= 0:
            os.close(self._pidfd)
        for output in self._outputs:
            output.close()
        self.hold.release()

    def completed(self) -> Completed:
        """What came of it. Raises `Permanent` or `Temporary` when it could not be started."""
        refusal = refused(self.command, self._report.text())
        if refusal is not None:
            raise refusal
        out, err = self._out, self._err
        status = processes.UNKNOWN if self.status is None else self.status
        return Completed(
            self.command.argv,
            self.hold.pid,
            status,
            out.text(),
            err.text() if err else "",
            out.truncated or (err is not None and err.truncated),
        )


_all: set[Running] = set()
"""The commands that run now."""
_stuck: set[int] = set()
"""Killed processes that could not be waited for in time; they are reaped when a later command ends."""


def kill_all() -> None:
    """End every command at once, with all that it has started, and wait for nothing."""
    server.stop()  # what has not begun never begins
    for running in _all:
        running.kill()


async def run(command: Command, blocking: Callable[..., Any]) -> Completed:
    """Run a command and wait for its end. See `Context.run` for the contract and what is raised."""
    setting = await setting_of(command, blocking)
    hold = holds.new()
    try:
        running = Running(command, hold, start(command, setting, hold))
    except BaseException:
        hold.release()
        raise
    _all.add(running)
    try:
        await running.wait()
    except TimeoutError:
        raise Overdue(
            f"cannot finish {command.argv[0]}: it still ran after {command.timeout:g} s and was killed"
        ) from None
    except OSError as error:
        raise Temporary(f"cannot watch {command.argv[0]}, so it was killed: {error.strerror}") from None
    finally:
        try:
            await running.end()
        finally:  # even when it is cancelled while it kills
            _all.discard(running)
            running.close()
    done = running.completed()
    if command.check and done.retcode != 0:
        raise Permanent(_failure(done))
    return done


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work that takes a moment, and must be done before anything else, even by one who is cancelled."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor can be read; for a pidfd that is the end of its process."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _failure(done: Completed) -> str:
    """One line for a command that failed: how, and the last thing it said."""
    how = f"ended with status {done.retcode}"
    if done.retcode < 0:
        try:
            how = f"was killed by {signal.Signals(-done.retcode).name}"
        except ValueError:
            how = f"was killed by signal {-done.retcode}"
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"{done.argv[0]} {how}" + (f": {said[-1].strip()}" if said else "")
