"""How the process of a command comes to be: its user, environment, directory and descriptors."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from holdfast.agent.host import descriptors
from holdfast.agent.host.become import Child, become
from holdfast.agent.host.holds import Hold, Subreaper
from holdfast.resources import paths
from holdfast.resources.accounts import Account, account, local_gid, service_gid
from holdfast.resources.context import PATH
from holdfast.resources.errors import HoldfastError, Permanent, Temporary, passing_or_not


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
    stop_signal: int = signal.SIGTERM
    combined: bool = False
    on_line: Callable[[], None] | None = None


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
    """A process that the agent has started: the command, or its subreaper."""

    process: subprocess.Popen[bytes]
    report: IO[bytes] | None
    """What the starter says (`Child.report`); None without one."""


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
    """Start it.

    Raises `Permanent` with the reason when it cannot be started, `Temporary` where that may go away, `Unsafe` for its directory.
    """
    try:
        with _stdin(command.stdin) as source:

            def launch(**more: Any) -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    command.argv,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if command.combined else subprocess.PIPE,
                    start_new_session=True,
                    umask=-1 if command.umask is None else command.umask,
                    env=setting.env,
                    **more,
                )

            where = Where(command.cwd, command.cwd) if setting.foreign else _directory(command, setting)
            if setting.foreign or hold.starter:
                return _by_starter(command, setting, hold, where, launch)
            return _directly(setting, where, launch)
    except OSError as error:
        raise _refusal(command, error) from None
    except (ValueError, subprocess.SubprocessError) as error:
        raise Permanent(f"cannot run {command.argv[0]}: {error}") from None


Launch = Callable[..., subprocess.Popen[bytes]]


@dataclass(frozen=True, slots=True)
class Where:
    """The directory that a command is run in."""

    told: str | None
    """As it is called; None for the home of another user, who enters it with the rights of that user."""
    path: str | None
    """The path by which it is entered."""
    found: paths.Directory | None = None
    """What has been judged, and must stay open until it is entered."""


def _directory(command: Command, setting: Setting) -> Where:
    """The directory for a command of the agent's own user, to which no other user has led it. Raises `OSError` and `Unsafe`."""
    if command.cwd is None:
        found = home(setting.home)
        return Where("/", "/") if found is None else Where(setting.home, _entrance(found, setting.home), found)
    if not command.cwd.startswith("/"):
        return Where(command.cwd, command.cwd)
    try:
        found = paths.directory(command.cwd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, command.cwd) from None
    return Where(command.cwd, _entrance(found, command.cwd), found)


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


def _directly(setting: Setting, where: Where, launch: Launch) -> Started:
    """Start a command of the agent's own user that needs no starter. Raises `OSError` and `ValueError`."""
    who = setting.who
    try:
        process = launch(cwd=where.path, user=who and who.uid, group=setting.gid, extra_groups=who and who.groups)
    except OSError as error:
        if error.filename == where.path:
            error.filename = where.told
        raise
    if descriptors.original is not None:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, descriptors.original)
    return Started(process, None)


def _by_starter(command: Command, setting: Setting, hold: Hold, where: Where, launch: Launch) -> Started:
    """Start the starter, which becomes the command (`become`). Raises `OSError` and `ValueError`."""
    name = command.argv[0]
    if "\0" in (where.path or ""):
        raise ValueError("embedded null byte")
    programs = [name] if "/" in name else [os.path.join(path, name) for path in os.get_exec_path(setting.env)]  # noqa: PTH118 - strings
    with contextlib.ExitStack() as stack:
        entrance = hold.entrance()
        if entrance is not None:
            stack.callback(os.close, entrance)
        reader, writer = os.pipe()
        stack.callback(os.close, writer)
        report = os.fdopen(reader, "rb", buffering=0)
        child = Child(
            setting.who,
            setting.gid,
            where.path,
            programs,
            command.argv,
            setting.env,
            entrance,
            isinstance(hold, Subreaper),
            command.on_line is not None,
            descriptors.original,
            [fd for fd in (entrance, None if where.found is None else where.found.fd) if fd is not None],
            writer,
            os.sysconf("SC_OPEN_MAX"),
        )
        try:
            return Started(launch(preexec_fn=partial(become, child)), report)
        except BaseException:
            report.close()
            raise


def reported_pid(report: str) -> int:
    """The process id of a command, as its starter has reported it first; 0 where that has failed before."""
    line = report.partition("\n")[0]
    return int(line.removeprefix("pid ")) if line.startswith("pid ") else 0


def refused(command: Command, report: str) -> HoldfastError | None:
    """The error that a starter has reported, if any."""
    line = next((line for line in report.splitlines() if line.startswith("error ")), None)
    if line is None:
        return None
    _, number, step = line.split(" ")
    if step == "group":
        return Temporary(f"cannot run {command.argv[0]}: it cannot enter its control group: {os.strerror(int(number))}")
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
