"""The `Context`: all services that a resource can use. The methods of a resource receive it as an argument.

Resources never import subprocess, inotify or D-Bus. `agent/host/context.py` implements this protocol for the
agent; `resources/testing.py` has the fake for tests. Each resource has one context, for its whole life.

Kinds read URLs only through the context. `await ctx.source(url)` returns small content as bytes. Content that may be
large is `fetched = await ctx.download(url, digest=digest, bounds=bounds)`: a private file on disk, complete and with
the declared hash. Read it by `fetched.read(limit)` or `slices(fetched.handle)` in `ctx.long_blocking`, or pass
`fetched.path` to a command while `fetched` exists. `resources/kinds/_source_hash.py` makes a `Digest` of `source_hash`
in any of its forms. A kind that records `fetched.sha256` calls `await ctx.is_current(url, sha256)` at the next check:
one small request, or none if the state declares a `sha256` that equals the recorded one.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.resources.assignment import Assignment
from holdfast.resources.downloads import DOWNLOAD_BOUNDS, Digest, DownloadBounds, DownloadedFile
from holdfast.resources.logger import Logger
from holdfast.resources.paths import Place
from holdfast.resources.plugin import Plugin
from holdfast.resources.report import Report
from holdfast.resources.watch_items import KernelTopic, WatchItem
from holdfast.resources.world import World

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Search path of commands, independent of the agent's own environment."""
Watch = AsyncIterator[WatchItem]
"""What `Resource.watch` returns: the first None says "armed", each later one "may have changed".

After `Unwatched`, the next other item says that the watch is armed again. The watch runs for the life of the resource
and is cancelled to stop it. A watch that ends by itself is an error.
"""


CUT = "[output cut]"
"""Last line of a reported output that exceeded the limit."""


class Completed(NamedTuple):
    """A command that has ended: its exit status and its output, cut to the `limit` of `run`."""

    argv: tuple[str, ...]
    pid: int
    retcode: int
    stdout: str
    stderr: str
    truncated: bool = False


I = TypeVar("I")  # noqa: E741 - an interface


class Services(Protocol):
    """Services of the host for everything that works on it: resources and providers."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The host's grains."""
        ...

    @property
    def log(self) -> Logger:
        """The logger; each line names the resource or provider."""
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
        exact: bool = False,
    ) -> Completed:
        """Run a command, given as its argument list, and wait until it ends.

        `env` is added to a minimal environment (PATH, HOME, LANG=C.UTF-8). `user` runs the command with the uid, groups
        and HOME of that user. Without `cwd` the command runs in HOME, or in / if there is no HOME.

        `timeout` is in seconds. On expiry and on cancellation the command and all processes that it has started get
        `stop_signal`, and SIGKILL half a second later. If the command ends by itself, the processes that it has started
        continue.

        `combined` reads both outputs from one pipe, in the order in which they are written, as `stdout`; `stderr` is
        then empty. `limit` is the number of bytes kept of each output; the rest is dropped, and `truncated` is set.
        `shown` displays the output to a watching operator while the command runs; use it for commands that change
        something and may take long. Bytes of `stdout` that are not UTF-8 are replaced; with `exact` they become
        surrogates, which `stdin` accepts, so that a text can be edited without loss.

        `on_start` is called with the process id. `on_line` makes the command a watching command: `on_line` is called
        when there are new lines on stdout, at most four times a second (meanwhile output waits in the pipe). When a
        watching command ends by itself, the processes that it has started are ended, too.

        Raises `Permanent` if the command cannot be started, and (with `check`) if its exit status is not 0; `Temporary`
        on timeout.
        """
        ...

    async def blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Run a call that may block (a large file, fsync, a name service) in a thread, and return its result."""
        ...

    async def long_blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Run a call that may block for seconds, like a walk through a directory tree.

        Neither shorter calls nor the runs of other resources wait for it: the run occupies no worker from then on.
        """
        ...

    def watch_path(self, *paths: str, recursive: bool = False) -> Watch:
        """Watch paths: their content, metadata, creation, removal and renaming, and the same of their parents."""
        ...


class Context(Services, Protocol):
    """The host, as one resource may use it."""

    background: Any
    """What the background task of the kind shares (`traits.Backed`); None for other kinds."""
    assignment: Assignment
    """What the engine gives to the current run."""
    report: Report
    """The report of the current run; a new one for each run."""

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
        """Whether files and marks that carry the tool's name carry Salt's name instead (`salt_names` in agent.yaml)."""
        ...

    def keeping(self, *, private: bool) -> AbstractContextManager[None]:
        """Keep files that are replaced, removed or changed in the body, and report them in `report.replaced`.

        `private`: the state hides its content. Called by the engine.
        """
        ...

    def redacted(self, value: Any) -> Any:
        """Return the text or data with the secrets of the pillar masked."""
        ...

    @property
    def world(self) -> World:
        """Strings shared with other hosts or resources."""
        ...

    @property
    def var_dir(self) -> Path:
        """A private directory that survives restarts; created with mode 0700 on first use."""
        ...

    async def read_text(self, path: str) -> str:
        """Return the text of a file, as UTF-8.

        Links are followed where no other user can exploit that (docs/security.md). Raises `OSError` as `open` does, and
        `Permanent` if the path is unsafe or is not a regular file.
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
        """Write a file atomically, by renaming a complete temporary file into place.

        The temporary file lies in the same directory and has mode 0600 from its first byte. It is given owner and mode,
        flushed (unless the agent is configured not to), and passed to `check` by its path. Right before the rename
        `report.touched` becomes true; `touches=False` says that the file is not what the resource manages.

        A link at the path itself is replaced; a link in its directory part is followed where no other user can exploit
        that. -1 for `uid` or `gid` means the agent's own. On any error, cancellation included, the temporary file is
        removed. Raises `OSError`, and `Permanent` if the path is unsafe.
        """
        ...

    async def source(self, url: str, *, trusted: bool = False, digest: Digest | None = None) -> bytes:
        """Return the content of `salt://`, `tree://`, `file://`, an absolute path, or `http(s)://`.

        With `trusted`, a file of this host must be one that only root could have written; templates need that. Raises
        `WrongDigest` if the content does not have the hash `digest`, and `Permanent` if there is no such file or it may
        not be read. In a running agent a file of the states directory has the content from when the states were
        compiled.
        """
        ...

    async def download(
        self,
        url: str,
        *,
        digest: Digest | None = None,
        bounds: DownloadBounds = DOWNLOAD_BOUNDS,
        trusted: bool = False,
        keep: bool = True,
    ) -> DownloadedFile:
        """Return a private file with the content of any URL that `source` takes, of any size.

        The content is complete and has the hash `digest` before the method returns, else it raises: `WrongDigest`,
        `Permanent` if the server refuses it or it exceeds `bounds`, `Temporary` if a later attempt may succeed. A later
        attempt continues what has arrived. Content that was downloaded before is used again if it has the hash, or the
        server says that it is current; without `keep` it is not kept for that. `trusted` as in `source`.
        """
        ...

    async def is_current(self, url: str, sha256: str, *, bounds: DownloadBounds = DOWNLOAD_BOUNDS) -> bool:
        """Return whether the content of a URL still has this SHA-256. For a server, this takes one small request.

        False if the server does not say. Raises the exceptions of `download`.
        """
        ...

    def tell_progress(self, text: str) -> None:
        """Show a watching operator how far a long piece of work is, as one line. Called in the event loop."""
        ...

    def source_view(self, url: str, name: str, read: Callable[[str], bytes]) -> bytes:
        """Return what `read` returns for the path of `url`, such as its mode or the names in it.

        `name` identifies the reader: results are kept by `url` and `name`. As with `source`, the result is the one from
        when the states were compiled. Blocks if `read` does, and raises what `read` raises.
        """
        ...

    def source_outside(self, url: str) -> str | None:
        """Return the path to watch for a source on this host outside the states directory; None for other sources.

        A change in the states directory leads to a new compilation and needs no watch. Raises `Permanent` for a URL of
        an unknown form.
        """
        ...

    def source_version(self) -> str:
        """Return an identifier of the content of an action's sources; empty if the content is unknown."""
        ...

    def managed_below(self, directory: str) -> Collection[str]:
        """Return the paths below a directory that other resources manage, which `clean` must not remove."""
        ...

    def render(self, text: str, *, name: str, variables: Mapping[str, Any]) -> str:
        """Render a Jinja template in the sandbox, with grains, pillar and `variables`.

        Raises `Permanent` with the line.
        """
        ...

    def call(self, call: Mapping[str, Any]) -> Any:
        """Call a read-only function of templates: `{"fun": "file.file_exists", "args": ["/etc/motd"]}`.

        Raises `Permanent` for an unknown function.
        """
        ...

    def interface(self, interface: type[I], tool: str | None = None) -> I:
        """Return the functions of an interface (`PkgInterface`, ...), as this host's provider has them.

        `tool` is the provider's name, and given only for interfaces with `chosen_by_name`. Raises `Permanent` if no
        provider fits; the error names each provider and why it was refused.
        """
        ...

    def watch_kernel(self, topic: KernelTopic) -> Watch:
        """Watch what has no path: the host's name, kernel modules, the table of mounts or that of swaps.

        All watches of a topic share one descriptor. Raises `Temporary` if the kernel does not report the topic here.
        """
        ...

    def plugin(self, package: str) -> Plugin:
        """Return the plugin that provides a package. Raises `Permanent` if the settings name none."""
        ...

    def send(self, **values: Any) -> None:
        """Publish values for receivers (kinds with `Sendable`).

        They receive all values together after a successful run. Raises `DeclarationError` for a key that the kind does
        not declare, or a value of another type.
        """
        ...
