"""Commands: by their argument list, in a process group of their own, with a clean environment, never left behind.

The process is watched through a pidfd and its pipes by the event loop itself: no thread, and an end that is noticed even when a
child of the command has kept the pipes open. A command that ends by itself may leave such children (daemons do); one that is
timed out or cancelled takes its whole group with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from holdfast.agent.host.become import Child, become
from holdfast.resources import paths
from holdfast.resources.accounts import Account, account, local_gid, service_gid
from holdfast.resources.context import PATH, Completed
from holdfast.resources.errors import HoldfastError, Overdue, Permanent, Temporary, passing_or_not

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
REAP = 1.0
"""Seconds a killed process is waited for; one stuck in the kernel must not hold up the agent, and is reaped later."""
LINGER = 0.1
"""Seconds that output is still read for after the process itself has ended, when a child of it holds the pipe."""
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, and how. The fields are those of `Context.run`."""

    argv: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    stdin: str | None = None
    user: str | None = None
    group: str | None = None
    umask: int | None = None
    timeout: float | None = None
    check: bool = True
    limit: int = 1 << 20
    on_start: Callable[[int], None] | None = None


class Output:
    """One pipe of a process, read by the event loop; keeps the first `limit` bytes and drops the rest."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self._pipe, self._limit = pipe, limit
        self._data = bytearray()
        self.truncated = False
        self.ended = asyncio.Event()
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
        room = self._limit - len(self._data)
        self._data += data[:room]
        self.truncated = self.truncated or len(data) > room
        return True

    def close(self) -> None:
        """Read no more."""
        if not self._pipe.closed:
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._pipe.close()
            self.ended.set()

    def text(self) -> str:
        """What was kept; bytes that are not UTF-8 are replaced."""
        return self._data.decode(errors="replace")


_groups: set[int] = set()
"""Process groups of the commands that run now."""


def kill_all() -> None:
    """End every command at once, with all that it has started, and wait for nothing."""
    for group in _groups:
        _signal(group, signal.SIGKILL)


async def run(command: Command, blocking: Callable[..., Any]) -> Completed:
    """Run a command and wait for its end. See `Context.run` for the contract and what is raised."""
    setting = await _setting(command, blocking)
    process, report = _start(command, setting)
    _groups.add(process.pid)
    outputs = [Output(pipe, command.limit) for pipe in (process.stdout, process.stderr, report) if pipe is not None]
    pidfd = -1
    try:
        pidfd = os.pidfd_open(process.pid)
        if command.on_start is not None:
            command.on_start(process.pid)
        async with asyncio.timeout(command.timeout):
            await _readable(pidfd)
            await _drain(outputs)
        process.wait()
    except TimeoutError:
        raise Overdue(f"cannot finish {command.argv[0]}: it still ran after {command.timeout:g} s and was killed") from None
    except OSError as error:
        raise Temporary(f"cannot watch {command.argv[0]}, so it was killed: {error.strerror}") from None
    finally:
        try:
            if pidfd < 0:
                _kill_unseen(process)
            else:
                await _kill(process, pidfd)
        finally:  # even when it is cancelled while it kills
            _groups.discard(process.pid)
            if pidfd >= 0:
                os.close(pidfd)
            for output in outputs:
                output.close()
    out, err, *reports = outputs
    if reports and (failure := reports[0].text()):
        raise _refused(command, failure)
    done = Completed(command.argv, process.pid, process.returncode, out.text(), err.text(), out.truncated or err.truncated)
    if command.check and done.retcode != 0:
        raise Permanent(_failure(done))
    return done


@dataclass(frozen=True, slots=True)
class Setting:
    """The user, groups and environment of a command."""

    env: Mapping[str, str]
    home: str
    options: Mapping[str, Any]
    """Arguments of `Popen`: user and groups, as far as they are given."""
    other: Account | None
    """The user, where it is not the agent's own."""


async def _setting(command: Command, blocking: Callable[..., Any]) -> Setting:
    """Look up user and group. Raises `Permanent` for those that do not exist, or that the agent may not use."""
    options: dict[str, Any] = {}
    who: Account | None = None
    if command.user is not None:
        who = await blocking(account, command.user)
        if who is None:
            raise Permanent(f"cannot run {command.argv[0]} as {command.user}: there is no such user")
        if os.geteuid() != 0 and who.uid != os.geteuid():
            raise Permanent(f"cannot run {command.argv[0]} as {command.user}: the agent does not run as root")
        if os.geteuid() == 0:
            options |= {"user": who.uid, "group": who.gid, "extra_groups": who.groups}
    if command.group is not None:
        gid = local_gid(command.group)
        options["group"] = gid if gid is not None else await blocking(service_gid, command.group)
        if options["group"] is None:
            raise Permanent(f"cannot run {command.argv[0]} as group {command.group}: there is no such group")
    base = environment(who)
    env = base | {str(name): str(value) for name, value in (command.env or {}).items()}
    return Setting(env, base["HOME"], options, who if who is not None and who.uid != os.geteuid() else None)


def environment(who: Account | None) -> dict[str, str]:
    """The least a command needs, whatever the agent's own environment is."""
    if who is None:
        return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/root")}
    return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": who.home, "USER": who.name, "LOGNAME": who.name}


def _start(command: Command, setting: Setting) -> tuple[subprocess.Popen[bytes], IO[bytes] | None]:
    """Start it; of another user's, also the pipe that says why that failed.

    Raises `Permanent` with the reason when it cannot be started, `Temporary` where that may go away, `Unsafe` for its directory.
    """
    umask = -1 if command.umask is None else command.umask
    try:
        with _stdin(command.stdin) as source:

            def start(**more: Any) -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    command.argv,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    umask=umask,
                    env=setting.env,
                    **more,
                )

            if setting.other is None:
                return _start_own(command, setting, start), None
            return _start_other(command, setting, setting.other, start)
    except OSError as error:
        raise _refusal(command, error) from None
    except (ValueError, subprocess.SubprocessError) as error:
        raise Permanent(f"cannot run {command.argv[0]}: {error}") from None


def _start_own(command: Command, setting: Setting, start: Callable[..., subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a command of the agent's own user, in a directory that no other user has led to. Raises `OSError` and `Unsafe`."""
    cwd, found = command.cwd, None
    if cwd is None:
        found = home(setting.home)
        cwd = "/" if found is None else setting.home
    elif cwd.startswith("/"):
        try:
            found = paths.directory(cwd)
        except OSError as error:
            raise OSError(error.errno, error.strerror, cwd) from None
    where = cwd if found is None else _entrance(found, cwd)
    try:
        return start(cwd=where, **setting.options)
    except OSError as error:
        if error.filename == where:
            error.filename = cwd
        raise


def home(path: str) -> paths.Directory | None:
    """The home directory that a command is run in when no directory is given; None where that cannot be entered."""
    try:
        found = paths.directory(path) if path.startswith("/") else None
    except (OSError, paths.Unsafe):
        return None
    return found if found is not None and os.access(_entrance(found, path), os.X_OK) else None


def _entrance(found: paths.Directory, path: str) -> str:
    """The path by which a directory is entered: by its descriptor where a user could put another in its place."""
    return path if found.fd is None else f"/proc/self/fd/{found.fd}"


def _start_other(
    command: Command, setting: Setting, who: Account, start: Callable[..., subprocess.Popen[bytes]]
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start a command of another user, and the pipe that says what was refused to it; empty when nothing was. Raises `OSError` and `ValueError`."""
    name = command.argv[0]
    if "\0" in (command.cwd or ""):
        raise ValueError("embedded null byte")
    programs = [name] if "/" in name else [os.path.join(path, name) for path in os.get_exec_path(setting.env)]  # noqa: PTH118 - strings
    reader, writer = os.pipe()
    report = os.fdopen(reader, "rb", buffering=0)
    try:
        last = os.sysconf("SC_OPEN_MAX")
        child = Child(who, setting.options["group"], command.cwd, programs, command.argv, setting.env, writer, last)
        return start(preexec_fn=partial(become, child)), report
    except BaseException:
        report.close()
        raise
    finally:
        os.close(writer)


def _refused(command: Command, report: str) -> HoldfastError:
    """The error that `become` has reported."""
    number, step = report.split(" ")
    return _refusal(command, OSError(int(number), os.strerror(int(number)), (command.cwd or "/") if step else None))


def _refusal(command: Command, error: OSError) -> HoldfastError:
    """The error for a command that could not be started."""
    what = f"{error.filename}: {error.strerror}" if error.filename not in (None, command.argv[0]) else error.strerror
    return passing_or_not(f"cannot run {command.argv[0]}: {what}", error)


@contextlib.contextmanager
def _stdin(text: str | None) -> Iterator[int | IO[bytes]]:
    """A descriptor to read the text from: memory, so that nobody has to feed a pipe."""
    if text is None:
        yield subprocess.DEVNULL
        return
    with os.fdopen(os.memfd_create("stdin"), "wb", buffering=0) as memory:
        memory.write(text.encode())
        memory.seek(0)
        yield memory


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor can be read; for a pidfd that is the end of its process."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def _drain(outputs: list[Output]) -> None:
    """Read what the ended process left in its pipes, and a moment longer when somebody else still holds them."""
    for output in outputs:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                await output.ended.wait()
        output.read()


async def _kill(process: subprocess.Popen[bytes], pidfd: int) -> None:
    """End the whole group of a process that has not been waited for: ask, wait a little, insist."""
    if process.returncode is not None:
        return
    # Not yet waited for, so the process id, and with it the group's, still is this process's.
    _signal(process.pid, signal.SIGTERM)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await _readable(pidfd)
    finally:
        _signal(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REAP):
                await _readable(pidfd)
        process.poll()


def _kill_unseen(process: subprocess.Popen[bytes]) -> None:
    """End the whole group of a process of which there is no pidfd: at once, for its end cannot be waited for without blocking."""
    _signal(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(REAP)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


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
