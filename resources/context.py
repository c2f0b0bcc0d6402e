"""All that a resource sees of the world: the `Context` handed to each of its methods.

Resources never import subprocess, inotify or D-Bus. The agent implements this protocol for real
(`agent/host/context.py`); `resources/testing.py` has the fake for tests. One context belongs to one resource
and lives as long as it.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.resources.errors import DeclarationError
from holdfast.resources.paths import Place

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where commands are looked for, whatever the agent's own environment says."""
Watch = AsyncIterator[None]
"""What `Resource.watch` returns: the first item says "armed", each later one "may have changed".

It runs for the life of the resource and is cancelled to stop it. Ending by itself is an error.
"""


CUT = "[output cut]"
"""The last line of a report of output that was more than the limit."""


class Completed(NamedTuple):
    """A command that has ended: its exit status and what it wrote, cut to the limit that `run` was given."""

    argv: tuple[str, ...]
    pid: int
    retcode: int
    stdout: str
    stderr: str
    truncated: bool = False


class Together(Protocol):
    """Runs that change the machine in one go (`traits.Groupable`)."""

    async def join(self, member: Any, alone: Callable[[], Awaitable[Any]]) -> Any:
        """Wait for the others, and for what is done for all of them; the part of it that is this member's."""
        ...


class Received(NamedTuple):
    """The value of an argument that another resource has sent."""

    value: Any
    changed: bool
    """It is another one than in the last run that came to a good end."""


@dataclass(slots=True)
class Report:
    """What one run tells about itself: filled by the resource, read by the engine when the run has ended."""

    changes: dict[str, Any] = field(default_factory=dict)
    """What was changed, or would be: Salt's `changes`."""
    comment: str = ""
    """One sentence for a person: what was done, or why nothing had to be."""
    diff: str = ""
    """Unified diff of text content, already masked where it must be."""
    touched: bool = False
    """Changing has begun: after an error nobody knows how far it came."""
    account: Callable[[], Awaitable[None]] | None = None
    """After an error: looks again, and tells in `changes` and `comment` what has been changed all the same."""
    batch: Together | None = None
    """Not told by the run, but given to it: those with whom it is to put things right."""
    intent: Callable[[], Awaitable[None]] | None = None
    """Given likewise: writes down that something may be changed now."""
    leaf: bool = False
    """Given likewise: no other resource depends on this one, and the journal tells nothing of it, so the flush of a directory may wait."""
    sends: Mapping[str, type] | None = None
    """Given to it: what its kind may send; None where nobody cares."""
    wanted: Collection[str] = ()
    """Given to it: keys that others receive."""
    sent: dict[str, Any] = field(default_factory=dict)
    """Values for other resources, by key."""
    received: Mapping[str, Received] = field(default_factory=dict)
    """Given to it: arguments that others have sent; the resource has their values already."""

    def begin(self, account: Callable[[], Awaitable[None]]) -> None:
        """Changing begins; when it fails, `account` is awaited, which finds out how far it came."""
        self.touched, self.account = True, account

    def changing(self) -> None:
        """Changing begins now; until then an error has changed nothing."""
        self.touched = True

    def send(self, values: Mapping[str, Any]) -> None:
        """Publish values for others. Raises `DeclarationError` for what the kind does not declare: its author's mistake."""
        for key, value in values.items():
            wanted = object if self.sends is None else self.sends.get(key)
            if wanted is None:
                raise DeclarationError(f"cannot send {key!r}: the kind declares no such key in `sends`")
            if not isinstance(value, wanted):
                raise DeclarationError(
                    f"cannot send {key!r}: it is {type(value).__name__}, and declared as {wanted.__name__}"
                )
        self.sent.update(values)

    async def announce(self) -> None:
        """Something is about to be changed; that is on record when this returns. More than once in a run does no harm.

        To be awaited before the first change by kinds that say `@announced`. Raises `Temporary` when it cannot be written down.
        """
        if self.intent is not None:
            await self.intent()


IDLE = Report()
"""What is told by those that have run and do so no longer: one for all of them, and empty."""

Method = TypeVar("Method", bound=Callable[..., Any])


def announced(check_apply: Method) -> Method:
    """Say of a `check_apply` that it awaits `ctx.report.announce()` before its first change.

    Of any other the engine must assume that it changes something at once: it writes that down before each run.
    """
    vars(check_apply)["announced"] = True
    return check_apply


def announces(check_apply: Callable[..., Any]) -> bool:
    """Whether it was said of it."""
    return getattr(check_apply, "announced", False)


class Logger(Protocol):
    """The part of a structlog logger that resources use; `resource=` is bound already."""

    def debug(self, event: str, **fields: object) -> object:
        """Log detail for the author of a kind."""
        ...

    def info(self, event: str, **fields: object) -> object:
        """Log something an operator wants to see."""
        ...

    def warning(self, event: str, **fields: object) -> object:
        """Log something an operator should look at."""
        ...


class Services(Protocol):
    """What one host offers to everybody who works on it: resources and providers."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The host's grains."""
        ...

    @property
    def log(self) -> Logger:
        """Where to log; whose context it is stands with each line."""
        ...

    async def run(
        self,
        *argv: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        user: str | None = None,
        group: str | None = None,
        umask: int | None = None,
        timeout: float | None = None,
        check: bool = True,
        limit: int = 1 << 20,
        on_start: Callable[[int], None] | None = None,
        stop_signal: int = signal.SIGTERM,
        combined: bool = False,
        on_line: Callable[[], None] | None = None,
        shown: bool = False,
    ) -> Completed:
        """Run a command by its argument list and wait for its end.

        `env` is added to a minimal environment (PATH, HOME, LANG=C.UTF-8). `user` runs it with that user's uid, groups
        and HOME. Without `cwd` it runs in HOME, or in / where that is missing. `timeout` is in seconds; on expiry and on
        cancellation `stop_signal` is sent to the command and to all that it has started, and SIGKILL half a second later. What a command that ends by itself
        has started is left alone. `combined` takes both outputs by one pipe, in the order in which they are written, as `stdout`; `stderr` is empty then.
        `limit` is the number of bytes kept of each of stdout and stderr; more is read and dropped and
        `truncated` set. `on_start` is called with the process id. `on_line` makes it a watching command: it is called when lines
        have come on stdout, four times a second at most (what is written meanwhile waits in the pipe), and what the command has started is ended, too, when it ends by itself.
        `shown`: a person who looks on is shown what it writes as it comes: for commands that change something and may take long.

        Raises `Permanent` when the command cannot be started, and (with `check`) when it ends with a status other than 0;
        `Temporary` on timeout.
        """
        ...

    async def blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Run a call that may block (a large file, fsync, a name service) in a short-lived thread."""
        ...

    async def long_blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """The same for what may take seconds, like a look through a whole directory tree: shorter calls do not wait for it."""
        ...

    def watch_path(self, *paths: str, recursive: bool = False) -> Watch:
        """Events of these paths: content, metadata, appearing, vanishing, being moved, their parents likewise."""
        ...


class World(Protocol):
    """What hosts tell each other: strings, and maps of what each host says. On a host without a fleet, what its resources tell each other.

    Texts only. Each method but the watches raises `Permanent` or `OSError` when it cannot be done.
    """

    async def string(self, key: str) -> str | None:
        """The string of a key; None where there is none."""
        ...

    async def set_string(self, key: str, value: str | None) -> None:
        """Set a string, or with None remove it."""
        ...

    def watch_string(self, key: str) -> Watch:
        """Armed; then one item whenever the string of this key is another one."""
        ...

    async def hosts(self, namespace: str) -> Mapping[str, str]:
        """What each host has said under this name."""
        ...

    async def set_host(self, namespace: str, value: str | None) -> None:
        """Say something for this host under a name, or with None no more."""
        ...

    def watch_hosts(self, namespace: str) -> Watch:
        """Armed; then one item whenever some host says something else under this name."""
        ...


class Context(Services, Protocol):
    """The host as one resource may use it."""

    background: Any
    """What the background task of its kind shares (`traits.Backed`); None for other kinds."""
    report: Report
    """Where the current run tells what it did; fresh for each run."""

    @property
    def identity(self) -> str:
        """`kind[id]` of the resource."""
        ...

    @property
    def pillar(self) -> Mapping[str, Any]:
        """The host's pillar."""
        ...

    @property
    def salt_names(self) -> bool:
        """Whether what is written and named after the tool carries Salt's name (agent.yaml, `salt_names`)."""
        ...

    def covered(self, value: Any) -> Any:
        """The same text or data, with what the pillar keeps secret masked."""
        ...

    @property
    def world(self) -> World:
        """What is known beyond this resource."""
        ...

    @property
    def var_dir(self) -> Path:
        """A private directory that survives restarts; made, mode 0700, on first use."""
        ...

    async def read_text(self, path: str) -> str:
        """The text of a file, UTF-8. A link is followed where no other user can gain from that (docs/security.md).

        Raises `OSError` as `open` does, and `Permanent` for what is no such file, or is not safe.
        """
        ...

    async def write_file(
        self,
        path: str | Place,
        data: bytes,
        *,
        mode: int,
        uid: int = -1,
        gid: int = -1,
        check: Callable[[str], Awaitable[None]] | None = None,
        touches: bool = True,
    ) -> None:
        """Put a file in place atomically: temporary in the same directory (0600 from its first byte), owner, mode, fsync (unless the agent was told not to), `check` called with its path, rename.

        Right before the rename `report.touched` becomes true, unless `touches` says that this file is not what the resource manages.

        A link at the path is replaced, and one on the way followed where no other user can gain from that. -1 leaves uid or gid as the
        agent's own. On any error, cancellation included, the temporary is removed. Raises `OSError`, and `Permanent` for what is not safe.
        """
        ...

    async def source(self, url: str, *, trusted: bool = False) -> bytes:
        """The content behind `salt://`, `tree://`, `file://`, an absolute path, or `http(s)://`.

        `trusted`: a file of this host must be one that only root could have written, as is needed for templates. Raises `Permanent` when
        it is not there or may not be read. In a running agent a file of the states directory is as it was when the states were compiled.
        """
        ...

    def source_view(self, url: str, name: str, read: Callable[[str], bytes]) -> bytes:
        """What `read` makes of the path behind `url`: its mode, or the names in it; `name` says what, for each URL.

        Like `source`, it is what it was when the states were compiled. Blocks where `read` does; raises what that raises.
        """
        ...

    def source_outside(self, url: str) -> str | None:
        """The path of a source on this host that is not in the states directory, to be watched; None for any other.

        A change in the states directory leads to a new compilation and needs no watch. Raises `Permanent` for a URL of no known form.
        """
        ...

    def source_version(self) -> str:
        """What the sources of this resource contain, if it is an action; empty where that is not known."""
        ...

    def managed_below(self, directory: str) -> Collection[str]:
        """Paths below a directory that other resources manage: what `clean` must leave alone."""
        ...

    def render(self, text: str, *, name: str, variables: Mapping[str, Any]) -> str:
        """Render a Jinja template in the sandbox with grains, pillar and `variables`. Raises `Permanent` with the line."""
        ...

    def call(self, call: Mapping[str, Any]) -> Any:
        """Call one of the read-only functions that templates have: `{"fun": "file.file_exists", "args": ["/etc/motd"]}`.

        Raises `Permanent` for an unknown function.
        """
        ...

    def interface(self, name: str) -> Any:
        """The provider bound to a virtual module (`pkg`, `service`, `user`, `group`) on this host.

        Raises `Permanent` when no provider fits, saying which were tried and why each was refused.
        """
        ...

    def send(self, **values: Any) -> None:
        """Publish values for receivers (Sendable kinds). They get them as one snapshot when the run has ended well.

        Raises `DeclarationError` for a key that the kind does not declare, or a value of another type.
        """
        ...
