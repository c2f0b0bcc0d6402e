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
import subprocess
from collections.abc import Callable
from typing import IO, Any

from holdfast.agent.host import holds
from holdfast.agent.host.starting import Command, Started, refused, reported_pid, setting_of, start
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
CHUNK = 1 << 16


class Output:
    """One pipe of a process, read by the event loop; keeps the first `limit` bytes and drops the rest."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self._pipe, self._limit = pipe, limit
        self.on_line: Callable[[], None] | None = None
        """Called when lines have come."""
        self._data = bytearray()
        self.truncated = False
        self.begun, self.ended = asyncio.Event(), asyncio.Event()
        """Something has come, or nothing will any more; all has come."""
        os.set_blocking(pipe.fileno(), False)
        asyncio.get_running_loop().add_reader(pipe.fileno(), self.read)

    def read(self) -> bool:
        """Take what is there; whether there may be more at once."""
        if self._pipe.closed:
            return False
        try:
            data = os.read(self._pipe.fileno(), CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.begun.set()
        room = self._limit - len(self._data)
        self._data += data[:room]
        self.truncated = self.truncated or len(data) > room
        if self.on_line is not None and b"\n" in data:
            self.on_line()
        return True

    def close(self) -> None:
        """Read no more."""
        if not self._pipe.closed:
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._pipe.close()
            self.begun.set()
            self.ended.set()

    def text(self) -> str:
        """What was kept; bytes that are not UTF-8 are replaced."""
        return self._data.decode(errors="replace")


class Running:
    """A command that runs, with all that it has started."""

    def __init__(self, command: Command, hold: holds.Hold, started: Started) -> None:
        self.command, self.hold, self._process = command, hold, started.process
        pipes = [started.process.stdout, started.process.stderr, started.report]
        self._out, self._err, self._report = [None if pipe is None else Output(pipe, command.limit) for pipe in pipes]
        if self._out is not None:
            self._out.on_line = command.on_line
        self._pidfd = -1
        if not isinstance(hold, holds.Subreaper):
            hold.pid = started.process.pid

    async def wait(self) -> None:
        """Wait until it has ended by itself, within its time. Raises `TimeoutError`, and `OSError` when it cannot be watched."""
        self._pidfd = os.pidfd_open(self._process.pid)
        async with asyncio.timeout(self.command.timeout):
            await self._identify()
            await _readable(self._pidfd)
        if self.command.on_line is not None:
            self.hold.sweep()
        self._process.wait()
        await self._drain()

    async def _identify(self) -> None:
        """Learn its process id where a subreaper has started it, and tell it."""
        if not self.hold.pid and self._report is not None:
            await self._report.begun.wait()
            self.hold.pid = reported_pid(self._report.text())
        if self.command.on_start is not None and self.hold.pid:
            self.command.on_start(self.hold.pid)

    async def _drain(self) -> None:
        """Read what the ended process left in its pipes, and a moment longer when somebody else still holds them."""
        for output in self._outputs:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await output.ended.wait()
            output.read()

    @property
    def _outputs(self) -> list[Output]:
        return [output for output in (self._out, self._err, self._report) if output is not None]

    async def end(self) -> None:
        """End it with all that it has started, unless it has ended by itself: ask, wait a little, insist."""
        if self._process.poll() is not None:
            return
        # Not waited for since, so the process id, and with it the group's, still is this process's.
        self.hold.begin_end(self._process.pid)
        try:
            with contextlib.suppress(TimeoutError, OSError):
                self.hold.ask(self.command.stop_signal)
                async with asyncio.timeout(GRACE):
                    await self._gone()
        finally:
            for output in self._outputs:
                output.close()  # nobody reads it any more, and descriptors may be what is missing to find the others
            self.hold.kill()
            await self._reap()

    async def _gone(self) -> None:
        """Wait until nothing of it is left."""
        pause = LOOK
        while self.hold.alive():
            await asyncio.sleep(pause)
            pause *= 2

    def kill(self) -> None:
        """End all of it at once, unless it has ended by itself: then its process id may be another's already."""
        if self._process.returncode is None:
            self.hold.begin_end(self._process.pid)
            self.hold.kill()

    async def _reap(self) -> None:
        """Wait for the end of the killed process, where there is a descriptor that tells of it."""
        if self._pidfd >= 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REAP):
                    await _readable(self._pidfd)

    def close(self) -> None:
        """Give back what it had."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(MOMENT)
        if self._pidfd >= 0:
            os.close(self._pidfd)
        for output in self._outputs:
            output.close()
        self.hold.release()

    def completed(self) -> Completed:
        """What came of it. Raises `Permanent` or `Temporary` when it could not be started."""
        if self._report is not None and (refusal := refused(self.command, self._report.text())):
            raise refusal
        out, err = self._out, self._err
        return Completed(
            self.command.argv,
            self.hold.pid,
            self._process.returncode,
            out.text() if out else "",
            err.text() if err else "",
            any(output.truncated for output in (out, err) if output),
        )


_all: set[Running] = set()
"""The commands that run now."""


def kill_all() -> None:
    """End every command at once, with all that it has started, and wait for nothing."""
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
        raise Overdue(f"cannot finish {command.argv[0]}: it still ran after {command.timeout:g} s and was killed") from None
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
