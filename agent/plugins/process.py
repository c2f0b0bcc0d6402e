"""One start of a plugin: its process, its socket and its secret, from the launch to the end.

The socket lies in a directory of this start, which only the plugin's user can enter. Before the agent speaks, it asks
the kernel who listens there. The secret reaches the process through a pipe, never through arguments or the environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.agent.plugins.client import Client, listener
from holdfast.agent.plugins.messages import READY, SECRET_VARIABLE
from holdfast.resources.context import PATH
from holdfast.resources.errors import Permanent, Temporary

START = 10.0
"""Seconds within which a plugin has to listen."""
GRACE = 5.0
"""Seconds from SIGTERM to SIGKILL."""
LINE = 64 << 10
"""Greatest length of a line of the plugin's log, in bytes; a longer line is dropped."""
Log = Callable[[str, Mapping[str, Any]], None]
"""Receives the level and the fields of one line of the plugin's log."""


@dataclass(frozen=True)
class Launch:
    """How to start a plugin."""

    name: str
    command: Sequence[str]
    user: str = ""
    """User that the process runs as; empty: that of the agent."""
    environment: Mapping[str, str] = field(default_factory=dict)
    memory: int = 0
    """Greatest size of its address space, in bytes; 0: no limit."""


class PluginProcess:
    """A plugin that runs. `ended` is done when its process has ended; its result says how."""

    def __init__(self, launch: Launch, process: subprocess.Popen[bytes], home: Path, client: Client) -> None:
        self.launch = launch
        self.client = client
        self.pid = process.pid
        self._process = process
        self._home = home
        self._pipes: list[asyncio.ReadTransport] = []
        self.ended: asyncio.Task[str] = asyncio.ensure_future(self._wait())

    async def lines(self, pipe: Any) -> asyncio.StreamReader:
        """Return a reader of one of the process's outputs, which ends with the process."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(LINE)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._pipes.append(transport)
        return reader

    def keep(self, reading: Coroutine[Any, Any, None]) -> None:
        """Run what reads an output, as long as the process does."""
        task = asyncio.ensure_future(reading)
        self.ended.add_done_callback(lambda _: task.done())  # refers to the task, which would be collected otherwise

    async def _wait(self) -> str:
        """Return how the process has ended; what it has left in its process group is ended as well."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        descriptor = os.pidfd_open(self.pid)
        try:
            loop.add_reader(descriptor, over.set)
            await over.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        _signal(self.pid, signal.SIGKILL)
        status = self._process.wait()
        self.close_input()
        for pipe in self._pipes:
            pipe.close()
        await asyncio.to_thread(shutil.rmtree, self._home, ignore_errors=True)
        return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def close_input(self) -> None:
        """Close the standard input of the process, upon which it ends."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def stop(self) -> None:
        """End the process and those of its process group, and remove its directory."""
        await self.client.close()
        if not self.ended.done():
            _signal(self.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.ended), GRACE)
        if not self.ended.done():
            _signal(self.pid, signal.SIGKILL)
        await self.ended


async def launch(wanted: Launch, below: Path, log: Log) -> PluginProcess:
    """Start a plugin and return it once it listens. `below`: directory for the directories of plugins.

    Raises `Permanent` if it cannot be started as declared, and `Temporary` if it does not listen in time.
    """
    owner = _owner(wanted)
    home = await asyncio.to_thread(_home, below, wanted.name, owner)
    secret, path = secrets.token_urlsafe(32), str(home / "socket")
    try:
        process = _spawn(wanted, owner, path, secret)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    plugin = PluginProcess(wanted, process, home, Client.local(wanted.name, path, secret))
    try:
        output, errors = await plugin.lines(process.stdout), await plugin.lines(process.stderr)
        plugin.keep(_read_log(errors, log))
        await _ready(plugin, output, path, owner)
        plugin.keep(_read_log(output, log))
    except BaseException:
        await plugin.stop()
        raise
    return plugin


def _owner(wanted: Launch) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(wanted.user) if wanted.user else pwd.getpwuid(os.geteuid())
    except KeyError:
        raise Permanent(f"plugin {wanted.name}: there is no user {wanted.user!r}") from None


def _home(below: Path, name: str, owner: pwd.struct_passwd) -> Path:
    """Create the directory of one start, which only the user of the plugin can enter."""
    below.mkdir(parents=True, exist_ok=True)
    below.chmod(0o711)  # whatever the umask: a plugin with a user of its own passes through
    home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=below))  # mode 0700
    if owner.pw_uid != os.geteuid():
        os.chown(home, owner.pw_uid, owner.pw_gid)
    return home


def _spawn(wanted: Launch, owner: pwd.struct_passwd, path: str, secret: str) -> subprocess.Popen[bytes]:
    other = owner.pw_uid != os.geteuid()
    reading, writing = os.pipe()
    identity: dict[str, Any] = {}
    if other:
        groups = os.getgrouplist(owner.pw_name, owner.pw_gid)
        identity = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": groups}
    try:
        os.write(writing, secret.encode())  # fits in the pipe, so it does not block
        os.close(writing)
        limit = ("prlimit", f"--as={wanted.memory}", "--") if wanted.memory else ()
        return subprocess.Popen(
            [*limit, *wanted.command, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": PATH, "HOME": owner.pw_dir, **wanted.environment, SECRET_VARIABLE: str(reading)},
            cwd="/",
            pass_fds=(reading,),
            start_new_session=True,
            umask=0o077,
            **identity,
        )
    except OSError as error:
        raise Permanent(f"plugin {wanted.name}: cannot start {wanted.command[0]}: {error.strerror}") from None
    finally:
        os.close(reading)


async def _ready(plugin: PluginProcess, output: asyncio.StreamReader, path: str, owner: pwd.struct_passwd) -> None:
    """Wait until the plugin listens, and check that no other process does."""
    name = plugin.launch.name
    try:
        async with asyncio.timeout(START):
            line = await output.readline()
    except TimeoutError:
        raise Temporary(f"plugin {name}: it does not listen within {START:g} s") from None
    except ValueError:
        line = b"a very long line"
    if not line:
        raise Temporary(f"plugin {name}: it {await plugin.ended} before it listened")
    if line.strip() != READY.encode():
        raise Permanent(f"plugin {name}: it wrote {line[:80]!r}, not {READY!r}: it is no plugin of holdfast")
    try:
        pid, uid = await asyncio.to_thread(listener, path)
        group = os.getpgid(pid)
    except OSError as error:
        raise Temporary(
            f"plugin {name}: it says that it listens, but {path} does not answer: {error.strerror}"
        ) from None
    if uid != owner.pw_uid or group != plugin.pid:
        raise Permanent(f"plugin {name}: another process ({pid} of user {uid}) listens on its socket")


async def _read_log(lines: asyncio.StreamReader, log: Log) -> None:
    """Pass each line of the plugin's log on, until the plugin ends."""
    too_long = False
    while True:
        try:
            line = await lines.readuntil()
        except asyncio.LimitOverrunError as error:
            await lines.readexactly(error.consumed)
            too_long = True
            continue
        except asyncio.IncompleteReadError as error:
            if error.partial and not too_long:
                log(*_parsed(error.partial))
            return
        if not too_long:
            log(*_parsed(line))
        too_long = False


def _parsed(line: bytes) -> tuple[str, Mapping[str, Any]]:
    """Return level and fields of a line; one that is not an object of JSON is the message."""
    text = line.decode(errors="replace").rstrip()
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("message"), str):
        return "info", {"message": text}
    level = said.pop("level", "info")
    return level if level in ("debug", "info", "warning", "error") else "info", said


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
