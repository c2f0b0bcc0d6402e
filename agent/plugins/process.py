"""One start of a plugin: its process, its socket and its secret, from the launch to the end.

The socket lies in a directory of this start, which only the plugin's user can enter until it listens, and only the
agent afterwards. Before its first call, the agent asks the kernel which process listens there. The secret reaches the
process through a pipe, never through arguments or the environment. A keeper (`agent/host/keeper.py`) ends the plugin
with all processes that it has started, also if the agent is killed.
"""

from __future__ import annotations

import asyncio
import errno
import marshal
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from holdfast.agent.host import keeper, processes
from holdfast.agent.host.forkserver import in_memory, program
from holdfast.agent.plugins.client import Client, listener
from holdfast.agent.plugins.launching import (
    NO_USER,
    Launch,
    PluginUser,
    close_home,
    demand_trusted,
    make_home,
    user_of,
)
from holdfast.agent.plugins.log_lines import LINE, LastLogLine, Log, read_log
from holdfast.agent.plugins.messages import READY, SECRET_VARIABLE
from holdfast.resources.context import PATH
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.visible import escaped

START = 10.0
"""Seconds within which a plugin must listen."""
GRACE = 3.5
"""Seconds within which a plugin must end by itself: more than it gives its calls (`server.GRACE`). When the agent
stops, this time follows that of its runs; both fit in `TimeoutStopSec` of the agent's unit.
"""
WORDS = 200
"""Most characters of the line that says why a plugin has ended at its start."""
KEEPER = program(processes, keeper, start="module.keep(*map(int, sys.argv[1:]))")
STEPS = {
    "user": NO_USER,
    "limits": "cannot set its limits: `files` or `memory`",
}
"""Step of the keeper that failed -> message; any other step is the start of the program."""


class PluginProcess:
    """A plugin that runs. `ended` is done when the process and all its descendants have ended; its result says how."""

    def __init__(self, wanted: Launch, keeping: _Keeping, home: Path, client: Client) -> None:
        self.launch = wanted
        self.client = client
        self._keeping, self._home = keeping, home
        self._pipes: list[asyncio.ReadTransport] = []
        self._said: dict[str, str] = {}
        """The reports of the keeper, by their first words."""
        self._begun = asyncio.Event()
        """Set once the keeper has reported whether the process exists."""
        self._errors: asyncio.Task[None]
        """Reads the standard error."""
        self._last_line: LastLogLine
        self._report_reader: asyncio.Task[None] = asyncio.ensure_future(self._read_reports())
        self.ended: asyncio.Task[str] = asyncio.ensure_future(self._wait())

    @property
    def pid(self) -> int:
        """Return the process of the plugin; 0 if it was not started."""
        return int(self._said.get("pid", 0))

    async def lines(self, pipe: Any) -> asyncio.StreamReader:
        """Return a reader of one of the process's outputs, which ends with the process."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(LINE)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._pipes.append(transport)
        return reader

    def read_errors(self, errors: asyncio.StreamReader, log: Log) -> None:
        """Log the standard error while the process runs."""
        self._last_line = LastLogLine(log)
        self._errors = self.keep(read_log(errors, self._last_line))

    def keep(self, reading: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a reader of an output while the process runs, and return its task."""
        task = asyncio.ensure_future(reading)
        self.ended.add_done_callback(lambda _: task.done())  # keeps a reference: the task must not be collected
        return task

    async def listens(self, output: asyncio.StreamReader, path: str, user: PluginUser) -> None:
        """Wait until the plugin listens, and check that no other process does.

        Raises `Permanent` if it cannot be started as declared, and `Temporary` if it does not listen in time.
        """
        name = self.launch.name
        try:
            async with asyncio.timeout(START):
                line = await output.readline()
        except TimeoutError:
            raise Temporary(f"plugin {name}: it does not listen within {START:g} s") from None
        except ValueError:
            line = b"a very long line"
        if not line:
            how = await asyncio.shield(self.ended)
            await self._errors  # ends with the process
            said = escaped(self.launch.mask(self._last_line.text).partition("\n")[0])[:WORDS]
            why = f": {said}" if said else ""
            raise self._refusal() or Temporary(f"plugin {name}: it {how} before it listened{why}")
        if line.strip() != READY.encode():
            said = self.launch.mask(line.decode(errors="backslashreplace")).strip()[:80]
            raise Permanent(f"plugin {name}: it wrote {said!r}, not {READY!r}: it is not a plugin of Holdfast")
        await self._begun.wait()
        try:
            close_home(self._home, user)
            pid, uid = await asyncio.to_thread(listener, path)
            group = os.getpgid(pid)
        except OSError as error:
            told = f"it says that it listens, but {path} does not answer: {error.strerror}"
            raise Temporary(f"plugin {name}: {told}") from None
        if uid != user.uid or group != self.pid:
            raise Permanent(f"plugin {name}: another process ({pid} of user {uid}) listens on its socket")

    def _refusal(self) -> Permanent | None:
        """Return why the keeper could not start the process; None if it has."""
        number, _, step = self._said.get("error", "").partition(" ")
        if not number:
            return None
        told = STEPS.get(step, f"cannot start {self.launch.command[0]}")
        why = os.strerror(int(number))
        if step not in STEPS and int(number) == errno.EACCES:
            user = f"the user {self.launch.user}" if self.launch.user else "its user"
            program = os.path.realpath(shutil.which(self.launch.command[0]) or self.launch.command[0])
            why += f"; {user} must be able to enter the directories of {program}, and to run it"
        return Permanent(f"plugin {self.launch.name}: {told}: {why}")

    async def _read_reports(self) -> None:
        """Read the reports of the keeper, until it ends."""
        report = await self.lines(self._keeping.report)
        while line := (await report.readline()).decode():
            word, _, rest = line.strip().partition(" ")
            self._said[word] = rest
            self._begun.set()
        self._begun.set()

    async def _wait(self) -> str:
        """Return how the process has ended."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        descriptor = os.pidfd_open(self._keeping.process.pid)
        try:
            loop.add_reader(descriptor, over.set)
            await over.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        self._keeping.process.wait()
        await self._report_reader
        self.close_input()
        for pipe in self._pipes:
            pipe.close()
        if "ended" not in self._said:  # the keeper was killed
            processes.send_group(self.pid, signal.SIGKILL)
            await asyncio.to_thread(shutil.rmtree, self._home, ignore_errors=True)
            return "ended with its keeper"
        status = int(self._said["ended"])
        return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def close_input(self) -> None:
        """Close the pipe to the keeper, which then ends the process, as it does when the agent dies."""
        self._keeping.lifeline.close()

    async def stop(self, *, at_once: bool = False) -> None:
        """End the process with all processes that it has started, and remove its directory.

        The process ends even if this call is cancelled.
        """
        try:
            await self.client.close()
        finally:
            if at_once:
                with suppress(OSError, ValueError):  # the process has ended
                    self._keeping.lifeline.write(b"!")
            self.close_input()
        await asyncio.shield(self.ended)


async def launch(wanted: Launch, log: Log, below: Path | None = None) -> PluginProcess:
    """Start a plugin and return it once it listens. `below`: directory for the directories of plugins.

    Raises `Permanent` if it cannot be started as declared, and `Temporary` if it does not listen in time.
    """
    user = user_of(wanted)
    await asyncio.to_thread(demand_trusted, wanted)
    try:
        home = await asyncio.to_thread(make_home, wanted.name, user, below)
    except OSError as error:
        raise Temporary(f"plugin {wanted.name}: cannot make its directory: {error}") from None
    secret, path = secrets.token_urlsafe(32), str(home / "socket")
    try:
        keeping = _spawn(wanted, user, home, secret)
    except OSError as error:
        shutil.rmtree(home, ignore_errors=True)
        raise Temporary(f"plugin {wanted.name}: cannot start a process: {error.strerror}") from None
    plugin = PluginProcess(wanted, keeping, home, Client.local(wanted.name, path, secret))
    try:
        output, errors = await plugin.lines(keeping.output), await plugin.lines(keeping.errors)
        plugin.read_errors(errors, log)
        await plugin.listens(output, path, user)
        plugin.keep(read_log(output, log))
    except BaseException:
        await plugin.stop(at_once=True)
        raise
    return plugin


class _Keeping(NamedTuple):
    """A keeper that was started, with the agent's ends of its pipes."""

    process: subprocess.Popen[bytes]
    lifeline: IO[bytes]
    report: IO[bytes]
    output: IO[bytes]
    errors: IO[bytes]


def _spawn(wanted: Launch, user: PluginUser, home: Path, secret: str) -> _Keeping:
    """Start a keeper with the plugin. Raises `OSError`."""
    with ExitStack() as ours, ExitStack() as theirs:
        report, output, errors = (_inward(ours, theirs) for _ in range(3))
        (lifeline, life), (secrecy, secret_end) = (_outward(ours, theirs) for _ in range(2))
        secrecy.write(secret.encode())  # fits in the pipe, so it does not block
        secrecy.close()
        environment = {"PATH": PATH, "HOME": user.home, **wanted.environment, SECRET_VARIABLE: str(secret_end)}
        kept = keeper.Kept(
            [os.fsencode(word) for word in (*wanted.command, str(home / "socket"))],
            {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
            (user.uid, user.gid, list(user.groups)) if user.foreign else None,
            wanted.memory,
            wanted.files,
            (output[1], errors[1]),
            secret_end,
            os.fsencode(home),
            GRACE,
        )
        program_file = theirs.enter_context(in_memory("keeper", KEEPER))
        request = theirs.enter_context(in_memory("plugin", marshal.dumps(tuple(kept))))
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-E", "-", *map(str, (request, life, report[1]))],
            stdin=program_file,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={},
            pass_fds=[request, life, report[1], output[1], errors[1], secret_end],
            start_new_session=True,
        )
        ours.pop_all()
    return _Keeping(process, lifeline, report[0], output[0], errors[0])


def _inward(ours: ExitStack, theirs: ExitStack) -> tuple[IO[bytes], int]:
    """Return a pipe: the agent's end for reading, and the descriptor of the other end."""
    reader, writer = os.pipe()
    theirs.callback(os.close, writer)
    return ours.enter_context(os.fdopen(reader, "rb", buffering=0)), writer


def _outward(ours: ExitStack, theirs: ExitStack) -> tuple[IO[bytes], int]:
    """Return a pipe: the agent's end for writing, and the descriptor of the other end."""
    reader, writer = os.pipe()
    theirs.callback(os.close, reader)
    return ours.enter_context(os.fdopen(writer, "wb", buffering=0)), reader
