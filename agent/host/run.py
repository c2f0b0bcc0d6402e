"""Commands: each runs from an argument list in a clean environment, and is contained with all its descendants.

The event loop itself watches the process through a pidfd and its pipes. This needs no thread, and the end is noticed
even if a child of the command keeps the pipes open. A command that ends by itself may leave such children (daemons do).
A command that times out or is cancelled is ended with all its descendants.
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

from holdfast.agent.host import containment, processes
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.forkserver import server
from holdfast.agent.host.outputs import EVENTS, Output
from holdfast.agent.host.starting import CommandSpec, StartedCommand, command_user, refused, reported, start
from holdfast.resources.context import Completed
from holdfast.resources.errors import Overdue, Permanent, Temporary

GRACE = 0.5
"""Seconds between the signal that asks a command to end and SIGKILL."""
LOOK = 0.005
"""Seconds until the first check whether a command that was asked to end has ended; the interval doubles each time."""
REAP = 1.0
"""Seconds to wait for a killed process. A process stuck in the kernel must not block the agent; it is reaped later."""
MOMENT = 0.1
"""Most seconds for which the loop is blocked for a killed process that could not be awaited: no descriptor, or
cancelled again."""
LINGER = 0.1
"""Seconds for which output is still read after the process has ended while a child holds the pipe."""
TICK = 0.001
"""Seconds between two reads during `LINGER`."""
REPORT = 1 << 10
"""Bytes of a report that are kept."""


class RunningCommand:
    """A running command with its descendants."""

    def __init__(self, command: CommandSpec, containment: containment.Containment, started: StartedCommand) -> None:
        self.command, self.containment = command, containment
        pace = 0.0 if command.on_line is None else EVENTS
        shown = [partial(command.on_output, stream) if command.on_output else None for stream in ("stdout", "stderr")]
        self._out = Output(started.stdout, command.limit, pace=pace, on_line=command.on_line, on_data=shown[0])
        self._err = (
            None if started.stderr is None else Output(started.stderr, command.limit, pace=pace, on_data=shown[1])
        )
        self._report = Output(started.report, REPORT)
        self._child = 0
        """The process that the agent waits for: the command or its subreaper; 0 until it is known."""
        self.status: int | None = None
        """Exit status of that process once it was reaped; negative for a signal."""
        self._pidfd = -1
        self._apart = Blocking(1)
        """Runs scans of processes, which take long with thousands of processes."""

    async def wait(self) -> None:
        """Wait until the command has ended by itself. Raises `TimeoutError`, and `OSError` if it cannot be watched."""
        async with asyncio.timeout(self.command.timeout):
            if not await self._begun():
                return
            self._pidfd = os.pidfd_open(self._child)
            await self._identify()
            await _readable(self._pidfd)
        if self.command.on_line is not None:
            await _to_the_end(self._off_loop(self.containment.sweep))
        self._poll()
        await self._drain()

    async def _begun(self) -> bool:
        """Wait until the process exists; return whether it does."""
        self._child = await self._reported("started")
        if not isinstance(self.containment, containment.Subreaper):
            self.containment.pid = self._child
        return self._child > 0

    async def _identify(self) -> None:
        """Read the command's process id, which a subreaper reports, and pass it on."""
        if not self.containment.pid:
            self.containment.pid = await self._reported("pid")
        if self.command.on_start is not None and self.containment.pid:
            self.command.on_start(self.containment.pid)

    async def _reported(self, what: str) -> int:
        """Wait for a process id in the report; 0 if the report ends without one."""
        while True:
            pid = reported(self._report.text(), what)
            if pid or self._report.ended.is_set():
                return pid
            self._report.news.clear()
            await self._report.news.wait()

    async def _drain(self) -> None:
        """Read what the ended process left in its pipes; wait `LINGER` seconds more if others still hold them."""
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
        """End the command with all descendants, unless it has ended by itself: ask, wait a little, kill."""
        if not self._child:
            await _to_the_end(self._settle())
        if not self._child or self._poll():
            return
        # The process has not been reaped yet, so the ids of the process and of its group still belong to it.
        self.containment.begin_end(self._child)
        try:
            with contextlib.suppress(TimeoutError, OSError, RuntimeError):  # RuntimeError: no thread can be started
                await self._off_loop(self.containment.ask, self.command.stop_signal)
                async with asyncio.timeout(GRACE):
                    await self._gone()
        finally:
            for output in self._outputs:
                output.close()  # no longer read; the scan may need the descriptors
            await _to_the_end(self._off_loop(self.containment.kill))
            await self._reap()

    async def _settle(self) -> None:
        """Wait for the report that the process exists.

        A fork server that does not report in time is ended, so that it cannot start the process later.
        """
        try:
            async with asyncio.timeout(REAP):
                await self._begun()
        except TimeoutError:
            server.stop()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REAP):
                    await self._begun()

    async def _off_loop(self, call: Callable[..., object], *args: object) -> None:
        """Make a call in a thread; if no thread can be started, make it here."""
        try:
            await self._apart(call, *args)
        except RuntimeError:
            call(*args)

    async def _gone(self) -> None:
        """Wait until no process of the command is left."""
        pause = LOOK
        while await self._apart(self.containment.alive):
            await asyncio.sleep(pause)
            pause *= 2

    def kill(self) -> None:
        """End all processes at once.

        Does nothing if the command has ended by itself: its process id may be another's then.
        """
        if not self._child:
            self._report.read()
            self._child = reported(self._report.text(), "started")
        if self._child and self.status is None:
            self.containment.begin_end(self._child)
            self.containment.kill()

    async def _reap(self) -> None:
        """Wait for the end of the killed process, if there is a descriptor that reports it."""
        if self._pidfd >= 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REAP):
                    await _readable(self._pidfd)

    def _poll(self) -> bool:
        """Return whether the process has ended; it is then reaped."""
        if self.status is None and self._child:
            self.status = processes.waited(self._child)
        return self.status is not None

    def close(self) -> None:
        """Release descriptors and the containment."""
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
        self.containment.release()

    def completed(self) -> Completed:
        """Return the result. Raises `Permanent` or `Temporary` if the command could not be started."""
        refusal = refused(self.command, self._report.text())
        if refusal is not None:
            raise refusal
        out, err = self._out, self._err
        status = processes.UNKNOWN if self.status is None else self.status
        return Completed(
            self.command.argv,
            self.containment.pid,
            status,
            out.text(exact=self.command.exact),
            err.text() if err else "",
            out.truncated or (err is not None and err.truncated),
        )


_all: set[RunningCommand] = set()
"""The commands that run now."""
_stuck: set[int] = set()
"""Killed processes that were not reaped in time; they are reaped when a later command ends."""


def kill_all() -> None:
    """End every command at once, with all descendants, without waiting."""
    server.stop()  # commands not started yet are dropped
    for running in _all:
        running.kill()


async def run(command: CommandSpec, blocking: Callable[..., Any]) -> Completed:
    """Run a command and wait for its end. See `Context.run` for the contract and the errors."""
    user = await command_user(command, blocking)
    held = containment.new()
    try:
        running = RunningCommand(command, held, start(command, user, held))
    except BaseException:
        held.release()
        raise
    _all.add(running)
    try:
        await running.wait()
    except TimeoutError:
        raise Overdue(
            f"cannot finish {command.argv[0]}: the command exceeded its timeout of {command.timeout:g} s and was killed"
        ) from None
    except OSError as error:
        raise Temporary(f"cannot watch {command.argv[0]}, so it was killed: {error.strerror}") from None
    finally:
        try:
            await running.end()
        finally:  # also if cancelled while killing
            _all.discard(running)
            running.close()
    done = running.completed()
    if command.check and done.retcode != 0:
        raise Permanent(_failure(done))
    return done


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for short work that must be done before anything else, even if the caller is cancelled."""
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
    """Wait until a descriptor is readable; for a pidfd, until its process has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _failure(done: Completed) -> str:
    """Return one line about a failed command: its status or signal, and its last line of output."""
    how = f"ended with status {done.retcode}"
    if done.retcode < 0:
        try:
            how = f"was killed by {signal.Signals(-done.retcode).name}"
        except ValueError:
            how = f"was killed by signal {-done.retcode}"
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"{done.argv[0]} {how}" + (f": {said[-1].strip()}" if said else "")
