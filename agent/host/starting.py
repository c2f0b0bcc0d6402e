"""How the process of a command comes to be: its user, environment, directory and descriptors."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from holdfast.agent.host import descriptors
from holdfast.agent.host.become import Child
from holdfast.agent.host.forkserver import in_memory, server
from holdfast.agent.host.holds import Hold, Subreaper
from holdfast.resources import paths
from holdfast.resources.accounts import Account, account, local_gid, service_gid
from holdfast.resources.context import PATH
from holdfast.resources.errors import HoldfastError, Permanent, Temporary, passing_or_not


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, and how. The fields are those of `Context.run`, but the last."""

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
    """Called with what comes, by `stdout` or `stderr`; with nothing when no more will come."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The user, groups and environment of a command."""

    env: Mapping[str, str]
    home: str
    who: Account | None
    """The user, where one is given and can be taken on."""
    gid: int | None

    @property
    def foreign(self) -> bool:
        """Whether the user is not the agent's own."""
        return self.who is not None and self.who.uid != os.geteuid()


@dataclass(frozen=True, slots=True)
class Started:
    """The pipes of a command that the fork server has been asked for."""

    stdout: IO[bytes]
    stderr: IO[bytes] | None
    """None where it writes to that of `stdout`."""
    report: IO[bytes]
    """What the new process says until it is the command (`become`)."""


async def setting_of(command: Command, blocking: Callable[..., Any]) -> Setting:
    """Look up user and group. Raises `Permanent` for those that do not exist, or that the agent may not use."""
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
    return Setting(env, base["HOME"], who if os.geteuid() == 0 else None, gid)


def environment(who: Account | None) -> dict[str, str]:
    """The least a command needs, whatever the agent's own environment is."""
    if who is None:
        return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/root")}
    return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": who.home, "USER": who.name, "LOGNAME": who.name}


def start(command: Command, setting: Setting, hold: Hold) -> Started:
    """Have it started. That takes the fork server a moment, which nobody waits for here.

    Raises `Permanent` with the reason when it cannot be started, `Temporary` where that may go away, `Unsafe` for its directory.
    """
    try:
        where = Where(_absolute(command.cwd)) if setting.foreign else _directory(command, setting)
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            report, out = (_pipe(ours, theirs) for _ in range(2))
            err = None if command.combined else _pipe(ours, theirs)
            entrance, opened = hold.entrance(), None if where.found is None else where.found.fd
            if entrance is not None:
                theirs.callback(os.close, entrance)
            child = _child(command, setting, where, grouped=entrance is not None, reaped=isinstance(hold, Subreaper))
            more = [number for number in (entrance, opened) if number is not None]
            server.begin(
                child, [report[1], theirs.enter_context(_stdin(command.stdin)), out[1], (err or out)[1], *more]
            )
            ours.pop_all()
            return Started(out[0], err and err[0], report[0])
    except OSError as error:
        raise _refusal(command, error) from None
    except ValueError as error:
        raise Permanent(f"cannot run {command.argv[0]}: {error}") from None


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[IO[bytes], int]:
    """A pipe: the agent's end to read from, and the descriptor of the other. Raises `OSError`."""
    reader, writer = os.pipe()
    theirs.callback(os.close, writer)
    return ours.enter_context(os.fdopen(reader, "rb", buffering=0)), writer


def _child(command: Command, setting: Setting, where: Where, *, grouped: bool, reaped: bool) -> Child:
    """What the new process is told. Raises `ValueError` for what no program can be given."""
    name = command.argv[0]
    programs = [name] if "/" in name else [os.path.join(path, name) for path in os.get_exec_path(setting.env)]  # noqa: PTH118 - strings
    env = {os.fsencode(name): os.fsencode(value) for name, value in setting.env.items()}
    if any(not name or b"=" in name for name in env):
        raise ValueError("illegal environment variable name")
    texts = [os.fsencode(text) for text in (*command.argv, *programs, where.path or "")]
    if any(b"\0" in text for text in (*texts, *env, *env.values())):
        raise ValueError("embedded null byte")
    return Child(
        None if setting.who is None else (setting.who.uid, list(setting.who.groups)),
        setting.gid,
        command.umask,
        None if where.path is None else os.fsencode(where.path),
        os.fsencode(setting.home),
        [os.fsencode(program) for program in programs],
        [os.fsencode(word) for word in command.argv],
        env,
        grouped,
        where.found is not None and where.found.fd is not None,
        reaped,
        command.on_line is not None,
        descriptors.original,
    )


@dataclass(frozen=True, slots=True)
class Where:
    """The directory that a command is run in."""

    path: str | None
    """The path by which it is entered; None for the home of another user, who enters it with the rights of that user."""
    found: paths.Directory | None = None
    """What has been judged; where it is open, that is entered in place of the path."""


def _directory(command: Command, setting: Setting) -> Where:
    """The directory for a command of the agent's own user, to which no other user has led it. Raises `OSError` and `Unsafe`."""
    if command.cwd is None:
        found = home(setting.home)
        return Where("/") if found is None else Where(setting.home, found)
    if not command.cwd.startswith("/"):
        return Where(_absolute(command.cwd))
    try:
        found = paths.directory(command.cwd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, command.cwd) from None
    return Where(command.cwd, found)


def _absolute(path: str | None) -> str | None:
    """A path that the fork server, which runs elsewhere, can use."""
    return None if path is None else os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 - strings


def home(path: str) -> paths.Directory | None:
    """The home directory that a command is run in when no directory is given; None where that cannot be entered."""
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
    """A process id that a new process has reported: as `started`, and as `pid` where it has a subreaper; 0 where it has not."""
    return next(
        (int(number) for word, _, number in (line.partition(" ") for line in report.splitlines()) if word == what), 0
    )


def refused(command: Command, report: str) -> HoldfastError | None:
    """The error that a new process has reported, if any."""
    if not report:
        return Temporary(f"cannot run {command.argv[0]}: the fork server ended before it was started")
    line = next((line for line in report.splitlines() if line.startswith("error ")), None)
    if line is None:
        return None
    _, number, step = line.split(" ")
    if step == "group":
        return Temporary(f"cannot run {command.argv[0]}: it cannot enter its control group: {os.strerror(int(number))}")
    return _refusal(command, OSError(int(number), os.strerror(int(number)), (command.cwd or "/") if step else None))


def _refusal(command: Command, error: OSError) -> HoldfastError:
    """The error for a command that could not be started."""
    itself = error.filename in (None, command.argv[0])
    what = error.strerror if itself else f"{error.filename}: {error.strerror}"
    if itself and isinstance(error, FileNotFoundError):
        what = f"{what}; is it installed?"
    return passing_or_not(f"cannot run {command.argv[0]}: {what}", error)


@contextlib.contextmanager
def _stdin(text: str | None) -> Iterator[int]:
    """A descriptor to read the text from: memory, so that nobody has to feed a pipe."""
    if text is not None:
        with in_memory("stdin", text.encode()) as number:
            yield number
        return
    number = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield number
    finally:
        os.close(number)
