"""The host as one resource sees it: the implementation of the protocol in `resources/context.py`."""

from __future__ import annotations

import re
import signal
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.agent.host import files
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.downloads import Downloads
from holdfast.agent.host.files import Replacement
from holdfast.agent.host.flushes import Flushes
from holdfast.agent.host.kept import KeptFiles, RunKeeper
from holdfast.agent.host.sources import Sources, read
from holdfast.agent.loggers import LazyLogger
from holdfast.resources import paths
from holdfast.resources.assignment import UNASSIGNED
from holdfast.resources.context import Completed, I
from holdfast.resources.downloads import DOWNLOAD_BOUNDS, Digest, DownloadBounds, DownloadedFile, digests
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.logger import Logger
from holdfast.resources.paths import Place
from holdfast.resources.plugin import Plugin
from holdfast.resources.report import Report
from holdfast.resources.secrets import Redactor
from holdfast.resources.watch_items import KernelTopic
from holdfast.resources.world import World
from holdfast.states.source.hostfiles import absolute
from holdfast.states.view.grains import Grains

if TYPE_CHECKING:
    from holdfast.agent.host.interfaces import Interfaces
    from holdfast.agent.host.path_watcher import PathWatcher
    from holdfast.agent.host.topic_watches import TopicWatches
    from holdfast.agent.records.world import StoredWorld
    from holdfast.resources.interfaces.host import Bus
    from holdfast.states.source.files import Tree


class ContextHost(Protocol):
    """The part of the host that a context uses; `LocalHost` documents each member."""

    facts: Mapping[str, Any]
    pillar: Mapping[str, Any]
    options: Mapping[str, Any]
    redactor: Redactor
    blocking: Blocking
    long_blocking: Blocking
    flushes: Flushes
    kept: KeptFiles
    sources: Sources
    downloads: Downloads
    var_dir: Path
    durable: bool
    on_output: Callable[[str, str, bytes], None] | None

    @property
    def states(self) -> Path:
        """The states directory."""
        ...

    @property
    def world(self) -> StoredWorld:
        """Strings and host maps."""
        ...

    @property
    def paths(self) -> PathWatcher:
        """Events of paths."""
        ...

    @property
    def topics(self) -> TopicWatches:
        """Events of the kernel."""
        ...

    @property
    def managed(self) -> Sequence[str]:
        """Paths that the states manage, sorted."""
        ...

    def reads(self, identity: str) -> set[str]:
        """Return the names of the grains that the resource has read; the caller adds to them."""
        ...

    def read_by(self, identity: str) -> None:
        """Record that the resource has read pillar or options."""
        ...

    @property
    def interfaces(self) -> Interfaces:
        """The virtual modules of this host."""
        ...

    def plugin(self, package: str) -> Plugin:
        """Return the plugin that provides a package; raises `Permanent` if there is none."""
        ...

    def bus(self) -> Bus:
        """Return the system's D-Bus."""
        ...


class HostContext:
    """The context of one resource, for the life of the resource; small, because each resource has one."""

    __slots__ = ("_host", "_log", "assignment", "background", "identity", "report")

    def __init__(self, host: ContextHost, identity: str) -> None:
        self._host = host
        self._log: Logger | None = None
        self.identity = identity
        self.background: Any = None
        self.assignment, self.report = UNASSIGNED, Report()

    @property
    def facts(self) -> Mapping[str, Any]:
        """The host's grains."""
        return Grains(self._host.facts, self._host.reads(self.identity))

    @property
    def salt_names(self) -> bool:
        """Whether marks in managed files carry Salt's name in place of Holdfast's."""
        return bool(self._host.options.get("salt_names"))

    @property
    def pillar(self) -> Mapping[str, Any]:
        """The host's pillar."""
        self._host.read_by(self.identity)
        return self._host.pillar

    def keeping(self, *, private: bool) -> RunKeeper:
        """Keep the content of files that are replaced or removed in the body: see the protocol."""
        return RunKeeper(self._host.kept, self.report, lambda: self._host.redactor, private=private)

    def redacted(self, value: Any) -> Any:
        """Return the value with the secrets of the pillar redacted."""
        return self._host.redactor(value)

    @property
    def log(self) -> Logger:
        """The log, with `resource=` bound."""
        if self._log is None:
            self._log = LazyLogger("holdfast.resource", resource=self.identity)
        return self._log

    @property
    def world(self) -> World:
        """Strings and host maps."""
        if self._host.world.remote:
            self.assignment.expect_long_call()
        return self._host.world

    @property
    def var_dir(self) -> Path:
        """The resource's own directory below the agent's, made on first use. Raises `OSError`."""
        path = self._host.var_dir / "resources" / file_name(self.identity)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        return path

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
        """Run a command: see the protocol."""
        from holdfast.agent.host.run import run  # noqa: PLC0415 - only commands need it
        from holdfast.agent.host.starting import CommandSpec  # noqa: PLC0415 - the same

        await self._host.flushes.done()
        command = CommandSpec(
            argv, cwd, env, stdin, user, group, umask, timeout, check, limit, on_start, stop_signal, combined, on_line,
            exact=exact,
        )  # fmt: skip
        if shown and self._host.on_output:
            command = command._replace(on_output=partial(self._host.on_output, self.identity))
        return await run(command, self._host.blocking)

    async def blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Run a call that may block in a short-lived thread; return its result."""
        return await self._host.blocking(call, *args)

    async def long_blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Run like `blocking`, in threads of their own: neither shorter calls nor other runs need wait."""
        self.assignment.expect_long_call()
        return await self._host.long_blocking(call, *args)

    async def read_text(self, path: str) -> str:
        """Return the text of a UTF-8 file. Raises `OSError`; `Permanent` if the file is not regular or not UTF-8."""
        data = await read(paths.at(path, follow=True), self._host.blocking)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise Permanent(f"cannot read {path}: it is not UTF-8 text (byte {error.start})") from None

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
        """Put a file in place atomically: see the protocol. Raises `OSError` and `Unsafe`."""
        report, flushes = self.report, self._host.flushes
        renaming, later = report.changing if touches else None, flushes.add if self.assignment.leaf else None
        file = Replacement(path, data, mode, uid, gid, self._host.durable, renaming, later)
        try:
            await files.replace(file, self._host.blocking, check)
        finally:
            flushes.soon()

    async def source(self, url: str, *, trusted: bool = False, digest: Digest | None = None) -> bytes:
        """Return the content behind a URL: see the protocol."""
        if self._host.sources.local(url) is None:
            self.assignment.expect_long_call()
        return await self._host.sources.read(
            url, user=self.identity, trusted=trusted, digest=digest, tell=self.tell_progress
        )

    async def download(
        self,
        url: str,
        *,
        digest: Digest | None = None,
        bounds: DownloadBounds = DOWNLOAD_BOUNDS,
        trusted: bool = False,
        keep: bool = True,
    ) -> DownloadedFile:
        """Return a private file with the content behind a URL: see the protocol."""
        host = self._host
        if host.sources.local(url) is None:
            self.assignment.expect_long_call()
            return await host.downloads.fetch(url, digest, bounds, self.tell_progress, keep=keep)
        from holdfast.agent.host.local_copies import copied  # noqa: PLC0415 - few states need it

        pieces = host.sources.slices(url, self.identity, trusted=trusted)
        fetched: DownloadedFile = await self.long_blocking(copied, absolute(host.var_dir), pieces, url, digest, bounds)
        return fetched

    async def is_current(self, url: str, sha256: str, *, bounds: DownloadBounds = DOWNLOAD_BOUNDS) -> bool:
        """Return whether the content behind a URL still has this hash: see the protocol."""
        host = self._host
        if host.sources.local(url) is None:
            self.assignment.expect_long_call()
            return await host.downloads.is_current(url, sha256, bounds)
        found = await self.long_blocking(digests, host.sources.slices(url, self.identity), ("sha256",))
        return bool(found["sha256"] == sha256)

    def tell_progress(self, text: str) -> None:
        """Show how far a long piece of work is."""
        self.log.info("in progress", progress=text)
        if self._host.on_output:
            self._host.on_output(self.identity, "stdout", f"{text}\n".encode())

    def source_view(self, url: str, name: str, read: Callable[[str], bytes]) -> bytes:
        """Return the result of `read` for a source on this host: see the protocol."""
        return self._host.sources.view(url, name, read, self.identity)

    def source_outside(self, url: str) -> str | None:
        """Return the path of a source that is on this host but outside the states directory."""
        return self._host.sources.outside(url)

    def source_version(self) -> str:
        """Return the digests of the sources of an action."""
        snapshot = self._host.sources.snapshot
        return "" if snapshot is None else snapshot.version(self.identity)

    def managed_below(self, directory: str) -> Collection[str]:
        """Return the paths below a directory that other resources manage, sorted."""
        known, inside = self._host.managed, directory.rstrip("/")
        return known[bisect_left(known, f"{inside}/") : bisect_left(known, f"{inside}0")]  # 0 comes right after /

    def render(self, text: str, *, name: str, variables: Mapping[str, Any]) -> str:
        """Render a Jinja template in the sandbox. Raises `Permanent` with the line."""
        from holdfast.states.template.jinja import render_text  # noqa: PLC0415 - only templates pay for it

        self._host.read_by(self.identity)
        try:
            return render_text(
                text,
                name=name,
                variables=variables,
                grains=self._host.facts,
                read=self._host.reads(self.identity),
                pillar=self.pillar,
                options=self._host.options,
                tree=self._tree(),
            )
        except HoldfastError as error:
            raise Permanent(f"cannot render {error}") from None

    def call(self, call: Mapping[str, Any]) -> Any:
        """Call a read-only template function. Raises `Permanent` if the function does not exist or fails."""
        from holdfast.states.template.jinja import names_for  # noqa: PLC0415 - the same
        from holdfast.states.view.host_view import HostView  # noqa: PLC0415 - the same
        from holdfast.states.view.values import traverse  # noqa: PLC0415 - the same

        options = {**self._host.options, "template_commands": True}  # guards may run commands in any case
        view = HostView(self.facts, self.pillar, options, str(self._host.facts.get("id", "")), tree=self._tree())
        name, args = str(call.get("fun", "")), call.get("args") or ()
        named = {key: value for key, value in call.items() if key not in {"fun", "args", "get_return"}}
        try:
            value = names_for(view)["salt"][name](*args, **named)
        except (LookupError, TypeError, ValueError, OSError, HoldfastError) as error:
            raise Permanent(f"cannot call {name or 'a function without a name'}: {error}") from None
        if name == "cmd.retcode":
            return False  # as in Salt: 0 is false, and any other status is a failure
        return traverse(value, call["get_return"], default=None) if "get_return" in call else value

    def _tree(self) -> Tree:
        """Return the states directory as templates of this resource see it."""
        from holdfast.states.source.files import Tree  # noqa: PLC0415 - only templates pay for it

        sources = self._host.sources
        reader = None if sources.snapshot is None else lambda path: sources.content(absolute(path), self.identity)
        return Tree(self._host.states, paths.trusted_uids(), reader=reader)

    def interface(self, interface: type[I], tool: str | None = None) -> I:
        """Return the functions of a virtual module on this host: see the protocol."""
        return self._host.interfaces.get(interface, tool, identity=self.identity)

    def plugin(self, package: str) -> Plugin:
        """Return the plugin that provides a package: see the protocol."""
        return self._host.plugin(package)

    def bus(self) -> Bus:
        """Return the system's D-Bus, for providers."""
        return self._host.bus()

    def system_path(self, path: Path) -> Path:
        """Return the path itself, for providers."""
        return path

    def watch_path(self, *paths: str, recursive: bool = False) -> AsyncIterator[None]:
        """Watch these paths: see the protocol."""
        return self._host.paths.watch(*paths, recursive=recursive)

    def watch_kernel(self, topic: KernelTopic) -> AsyncIterator[None]:
        """Watch a topic of the kernel: see the protocol."""
        return self._host.topics.watch(topic)

    def send(self, **values: Any) -> None:
        """Publish values for receivers."""
        self.assignment.demand_sendable(values)
        self.report.sent.update(values)


def file_name(identity: str) -> str:
    """Return a directory name for an identity: readable, unambiguous, at most 200 bytes."""
    text = re.sub(
        r"[^A-Za-z0-9._\[\]-]",
        lambda found: "".join(f"%{byte:02x}" for byte in found[0].encode(errors="surrogateescape")),
        identity,
    )
    if len(text) <= 200:
        return text
    import hashlib  # noqa: PLC0415 - rarely needed

    return f"{text[:150]}-{hashlib.sha256(identity.encode(errors='surrogateescape')).hexdigest()[:32]}"
