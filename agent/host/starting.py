"""Starts the process of a command: its user, environment, directory and descriptors."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from holdfast.agent.host import descriptors
from holdfast.agent.host.become import Child
from holdfast.agent.host.containment import Containment, Subreaper
from holdfast.agent.host.forkserver import in_memory, server
from holdfast.resources import paths
from holdfast.resources.accounts import Account, account, local_gid, service_gid
from holdfast.resources.context import PATH
from holdfast.resources.errors import HoldfastError, Permanent, Temporary, refused_call
from holdfast.resources.tool_packages import remedy


class CommandSpec(NamedTuple):
    """A command and its options. The fields are those of `Context.run`, and `on_output`."""

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
    stop_signal: int = signal.SIGTERM
    combined: bool = False
    on_line: Callable[[], None] | None = None
    on_output: Callable[[str, bytes], None] | None = None
    """Called with `stdout` or `stderr` and the data; with empty data at the end."""
    exact: bool = False
    """Bytes of the standard output that are not UTF-8 become surrogates; otherwise they are replaced."""


class CommandUser(NamedTuple):
    """The user, groups and environment of a command."""

    env: Mapping[str, str]
    home: str
    who: Account | None
    """The user, if one is given and the agent can switch to it."""
    gid: int | None

    @property
    def foreign(self) -> bool:
        """Whether the user is another than the agent's."""
        return self.who is not None and self.who.uid != os.geteuid()


class StartedCommand(NamedTuple):
    """The pipes of a command that the fork server was asked to start."""

    stdout: IO[bytes]
    stderr: IO[bytes] | None
    """None if standard error goes to `stdout`."""
    report: IO[bytes]
    """Reports of the new process until it executes the command (`become`)."""


async def command_user(command: CommandSpec, blocking: Callable[..., Any]) -> CommandUser:
    """Look up user and group. Raises `Permanent` if they do not exist or the agent may not use them."""
    who: Account | None = None
    gid: int | None = None
    if command.user is not None:
        who = await blocking(account, command.user)
        if who is None:
            raise Permanent(f"cannot run {command.argv[0]} as {command.user}: there is no such user")
        if os.geteuid() != 0 and who.uid != os.geteuid():
            raise Permanent(f"cannot run {command.argv[0]} as {command.user}: the agent does not run as root")
        gid = who.gid if os.geteuid() == 0 else None
    if command.group is not None:
        gid = local_gid(command.group)
        gid = gid if gid is not None else await blocking(service_gid, command.group)
        if gid is None:
            raise Permanent(f"cannot run {command.argv[0]} as group {command.group}: there is no such group")
    base = environment(who)
    env = base | {str(name): str(value) for name, value in (command.env or {}).items()}
    return CommandUser(env, base["HOME"], who if os.geteuid() == 0 else None, gid)


def environment(who: Account | None) -> dict[str, str]:
    """Return the minimal environment of a command, of the agent's own only `HOME`."""
    if who is None:
        return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": paths.own_home()}
    return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": who.home, "USER": who.name, "LOGNAME": who.name}


def start(command: CommandSpec, user: CommandUser, containment: Containment) -> StartedCommand:
    """Ask the fork server to start the command; do not wait until it has.

    Raises `Permanent` if the command cannot be started, `Temporary` if a retry may help, `Unsafe` for its directory.
    """
    try:
        where = WorkingDirectory(_absolute(command.cwd)) if user.foreign else _directory(command, user)
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            report, out = (_pipe(ours, theirs) for _ in range(2))
            err = None if command.combined else _pipe(ours, theirs)
            entrance, opened = containment.entrance(), None if where.found is None else where.found.fd
            if entrance is not None:
                theirs.callback(os.close, entrance)
            child = _child(
                command, user, where, grouped=entrance is not None, reaped=isinstance(containment, Subreaper)
            )
            more = [number for number in (entrance, opened) if number is not None]
            server.begin(
                child, [report[1], theirs.enter_context(_stdin(command.stdin)), out[1], (err or out)[1], *more]
            )
            ours.pop_all()
            return StartedCommand(out[0], err and err[0], report[0])
    except OSError as error:
        raise _refusal(command, error) from None
    except ValueError as error:
        raise Permanent(f"cannot run {command.argv[0]}: {error}") from None


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[IO[bytes], int]:
    """Return a pipe: the agent's end for reading, and the descriptor of the other end. Raises `OSError`."""
    reader, writer = os.pipe()
    theirs.callback(os.close, writer)
    return ours.enter_context(os.fdopen(reader, "rb", buffering=0)), writer


def _child(command: CommandSpec, user: CommandUser, where: WorkingDirectory, *, grouped: bool, reaped: bool) -> Child:
    """Return the request for the fork server. Raises `ValueError` for values that no program can be given."""
    name = command.argv[0]
    directories = os.get_exec_path(user.env)
    programs = [name] if "/" in name else [os.path.join(path, name) for path in directories]  # noqa: PTH118 - strings
    env = _encoded(user.env, (*command.argv, *programs, where.path or ""))
    return Child(
        None if user.who is None else (user.who.uid, list(user.who.groups)),
        user.gid,
        command.umask,
        None if where.path is None else os.fsencode(where.path),
        os.fsencode(user.home),
        [os.fsencode(program) for program in programs],
        [os.fsencode(word) for word in command.argv],
        env,
        grouped,
        where.found is not None and where.found.fd is not None,
        reaped,
        command.on_line is not None,
        descriptors.original,
    )


def _encoded(env: Mapping[str, str], texts: Iterable[str]) -> dict[bytes, bytes]:
    """Return the environment as bytes. Raises `ValueError` if it or the texts contain what no program can be given."""
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    if any(not name or b"=" in name for name in encoded):
        raise ValueError("illegal environment variable name")
    if any(b"\0" in text for text in (*map(os.fsencode, texts), *encoded, *encoded.values())):
        raise ValueError("embedded null byte")
    return encoded


class WorkingDirectory(NamedTuple):
    """The directory in which a command runs."""

    path: str | None
    """The path to enter; None for the home of another user, which the process enters with that user's rights."""
    found: paths.SafeDirectory | None = None
    """The checked directory. If it is open, the process enters it by descriptor instead of by path."""


def _directory(command: CommandSpec, user: CommandUser) -> WorkingDirectory:
    """Return the directory of a command of the agent's own user, to which no other user can have redirected the path.

    Raises `OSError` and `Unsafe`.
    """
    if command.cwd is None:
        found = home(user.home)
        return WorkingDirectory("/") if found is None else WorkingDirectory(user.home, found)
    if not command.cwd.startswith("/"):
        return WorkingDirectory(_absolute(command.cwd))
    try:
        found = paths.directory(command.cwd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, command.cwd) from None
    return WorkingDirectory(command.cwd, found)


def _absolute(path: str | None) -> str | None:
    """Return an absolute path: the fork server has another working directory."""
    return None if path is None else os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 - strings


def home(path: str) -> paths.SafeDirectory | None:
    """Return the home directory, the default working directory of a command; None if it cannot be entered."""
    try:
        found = paths.directory(path) if path.startswith("/") else None
    except (OSError, paths.Unsafe):
        return None
    return (
        found
        if found is not None and os.access(path if found.fd is None else f"/proc/self/fd/{found.fd}", os.X_OK)
        else None
    )


def reported(report: str, what: str) -> int:
    """Return a process id in the report; 0 if it has none.

    The id of the new process (`started`), or of the command below a subreaper (`pid`).
    """
    return next(
        (int(number) for word, _, number in (line.partition(" ") for line in report.splitlines()) if word == what), 0
    )


def refused(command: CommandSpec, report: str) -> HoldfastError | None:
    """Return the error in the report of a new process, if any."""
    if not report:
        return Temporary(f"cannot run {command.argv[0]}: the fork server ended before it was started")
    line = next((line for line in report.splitlines() if line.startswith("error ")), None)
    if line is None:
        return None
    _, number, step = line.split(" ")
    if step == "group":
        return Temporary(f"cannot run {command.argv[0]}: it cannot enter its control group: {os.strerror(int(number))}")
    return _refusal(command, OSError(int(number), os.strerror(int(number)), (command.cwd or "/") if step else None))


def _refusal(command: CommandSpec, error: OSError) -> HoldfastError:
    """Return the error for a command that could not be started."""
    itself = error.filename in (None, command.argv[0])
    what = error.strerror if itself else f"{error.filename}: {error.strerror}"
    if itself and isinstance(error, FileNotFoundError):
        what = f"{what}; {remedy(command.argv[0])}"
    return refused_call(f"cannot run {command.argv[0]}: {what}", error)


@contextlib.contextmanager
def _stdin(text: str | None) -> Iterator[int]:
    """Yield a descriptor of a memory file with the text, which unlike a pipe needs no writer."""
    if text is not None:
        with in_memory("stdin", text.encode(errors="surrogateescape")) as number:
            yield number
        return
    number = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield number
    finally:
        os.close(number)
