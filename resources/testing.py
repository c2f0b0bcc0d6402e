"""For authors of kinds: a fake context, for tests in Python and for cases (`kind_testing.py`).

`FakeContext` answers commands from a table and records each call; files are real, below a temporary directory.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.resources import paths
from holdfast.resources.assignment import UNASSIGNED, Assignment
from holdfast.resources.context import Completed, I
from holdfast.resources.downloads import (
    DOWNLOAD_BOUNDS,
    Digest,
    DownloadBounds,
    DownloadedFile,
    demand_digest,
    digests,
)
from holdfast.resources.errors import Permanent
from holdfast.resources.paths import Place
from holdfast.resources.paths.handle import Handle
from holdfast.resources.plugin import Plugin
from holdfast.resources.report import Report
from holdfast.resources.secrets import Redactor
from holdfast.resources.watches import idle


class SilentLog:
    """A log that records its events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, object]]] = []

    def debug(self, event: str, **fields: object) -> None:
        """Record the event."""
        self.events.append(("debug", event, fields))

    def info(self, event: str, **fields: object) -> None:
        """Record the event."""
        self.events.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        """Record the event."""
        self.events.append(("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        """Record the event."""
        self.events.append(("error", event, fields))


@dataclass
class FakeWorld:
    """Strings and host maps in memory; `host` is the name of this host."""

    host: str = "test"
    strings: dict[str, str] = field(default_factory=dict)
    maps: dict[str, dict[str, str]] = field(default_factory=dict)

    async def string(self, key: str) -> str | None:
        """Return the stored value."""
        return self.strings.get(key)

    async def set_string(self, key: str, value: str | None) -> None:
        """Store the value; None removes it."""
        _keep(self.strings, key, value)

    def watch_string(self, key: str) -> AsyncIterator[None]:
        """Return a watch that reports no events."""
        return idle()

    async def hosts(self, namespace: str) -> Mapping[str, str]:
        """Return the stored value."""
        return self.maps.get(namespace, {})

    async def set_host(self, namespace: str, value: str | None) -> None:
        """Store the value; None removes it."""
        _keep(self.maps.setdefault(namespace, {}), self.host, value)

    def watch_hosts(self, namespace: str) -> AsyncIterator[None]:
        """Return a watch that reports no events."""
        return idle()


def _keep(where: dict[str, str], key: str, value: str | None) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value


@dataclass
class FakeContext:
    """A context for one resource.

    `commands` and `sources` hold the answers; `calls` and `sent` record what the resource ran and sent.
    """

    var_dir: Path
    identity: str = "kind.function[id]"
    facts: Mapping[str, Any] = field(default_factory=dict)
    salt_names: bool = False
    pillar: Mapping[str, Any] = field(default_factory=dict)
    commands: Mapping[str, Any] = field(default_factory=dict)
    """Command line -> its output, a mapping of `Completed`'s fields, or a callable that returns either."""
    sources: Mapping[str, Any] = field(default_factory=dict)
    interfaces: Mapping[str, Any] = field(default_factory=dict)
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    managed: Collection[str] = ()
    assignment: Assignment = UNASSIGNED
    report: Report = field(default_factory=Report)
    log: SilentLog = field(default_factory=SilentLog)
    calls: list[str] = field(default_factory=list)
    sent: dict[str, Any] = field(default_factory=dict)
    watched: list[str] = field(default_factory=list)
    downloads: list[str] = field(default_factory=list)
    """URLs of the calls of `download`."""
    background: Any = None
    world: FakeWorld = field(default_factory=FakeWorld)

    async def run(
        self,
        *argv: str,
        check: bool = True,
        on_start: Callable[[int], None] | None = None,
        stdin: str | None = None,
        **_: Any,
    ) -> Completed:
        """Return the answer to a command.

        Raises `Permanent` for an unexpected command, and for one that fails with `check`.
        """
        line = " ".join(argv)
        self.calls.append(line)
        if line not in self.commands:
            raise Permanent(f"cannot run {line!r}: the test does not expect it")
        answer = self.commands[line]
        answer = answer() if callable(answer) else answer
        given = _answered(answer, stdin or "") if isinstance(answer, Mapping) else {"stdout": str(answer)}
        done = Completed(**{"argv": argv, "pid": 1, "retcode": 0, "stdout": "", "stderr": "", **given})
        if on_start is not None:
            on_start(done.pid)
        if check and done.retcode != 0:
            raise Permanent(f"{argv[0]} ended with status {done.retcode}: {done.stderr}")
        return done

    async def blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Make the call at once."""
        return call(*args)

    async def long_blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Make the call at once."""
        return call(*args)

    async def read_text(self, path: str) -> str:
        """Return the text of a real file."""
        return Path(path).read_text(encoding="utf-8")

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
        """Write a real file: a temporary file is checked first and then renamed."""
        place = paths.at(path) if isinstance(path, str) else path
        temporary = place.beside(f"{place.name}.testing")
        try:
            handle = temporary.create(0o600)
            handle.write(data)
            if check is not None:
                await check(temporary.real)
            os.fchown(handle.fd, uid, gid)
            os.fchmod(handle.fd, mode)
            self.report.touched = self.report.touched or touches
            temporary.rename(place)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise

    async def source(self, url: str, *, trusted: bool = False, digest: Digest | None = None) -> bytes:
        """Return the content of a source: from the table, or of a real file. Raises `Permanent` if there is none."""
        data = self._source(url)
        if digest is not None:
            demand_digest(url, digests((data,), (digest.algorithm,)), digest)
        return data

    def _source(self, url: str) -> bytes:
        if url in self.sources:
            found = self.sources[url]
            return found if isinstance(found, bytes) else str(found).encode()
        path = Path(url.removeprefix("file://"))
        if path.is_absolute() and path.is_file():
            return path.read_bytes()
        raise Permanent(f"cannot read {url}: the test has no such source")

    async def download(
        self,
        url: str,
        *,
        digest: Digest | None = None,
        bounds: DownloadBounds = DOWNLOAD_BOUNDS,
        trusted: bool = False,
        keep: bool = True,
    ) -> DownloadedFile:
        """Return a file with the content of a source, which has no name."""
        self.downloads.append(url)
        data = await self.source(url, trusted=trusted, digest=digest)
        if len(data) > bounds.size:
            raise Permanent(f"cannot read {url}: it is larger than {bounds.shown_size}")
        handle = Handle(os.memfd_create("download"))
        handle.write(data)
        return DownloadedFile(handle, len(data), digests((data,), ("sha256",))["sha256"])

    async def is_current(self, url: str, sha256: str, *, bounds: DownloadBounds = DOWNLOAD_BOUNDS) -> bool:
        """Return whether a source has this hash."""
        return digests((self._source(url),), ("sha256",))["sha256"] == sha256

    def tell_progress(self, text: str) -> None:
        """Show nothing."""

    def source_view(self, url: str, name: str, read: Callable[[str], bytes]) -> bytes:
        """Return the result of `read` for a real path."""
        return read(url.removeprefix("file://"))

    def source_outside(self, url: str) -> str | None:
        """Return the path of a real file."""
        path = url.removeprefix("file://")
        return path if path.startswith("/") else None

    def source_version(self) -> str:
        """Return an empty text: the content is unknown."""
        return ""

    def managed_below(self, directory: str) -> Collection[str]:
        """Return the paths of `managed` below a directory."""
        return [path for path in self.managed if path.startswith(f"{directory}/")]

    def render(self, text: str, *, name: str, variables: Mapping[str, Any]) -> str:
        """Replace `{{ name }}` by the variable, and nothing else: templates have their own tests."""
        for word, value in {**variables, **{f"pillar.{key}": value for key, value in self.pillar.items()}}.items():
            text = text.replace("{{ " + word + " }}", str(value))
        if "{{" in text:
            raise Permanent(f"cannot render {name}: it has an unknown variable")
        return text

    def call(self, call: Mapping[str, Any]) -> Any:
        """Raise `Permanent`: there are no functions."""
        raise Permanent(f"cannot call {call.get('fun')}: the test has no functions")

    def interface(self, interface: type[I], tool: str | None = None) -> I:
        """Return the object given for a virtual module, or for its tool. Raises `Permanent` if there is none."""
        name = tool or interface.module  # type: ignore[attr-defined]
        if name not in self.interfaces:
            raise Permanent(f"cannot bind {name}: the test has no such interface")
        found: I = self.interfaces[name]
        return found

    def plugin(self, package: str) -> Plugin:
        """Return the plugin given for a package. Raises `Permanent` if there is none."""
        if package not in self.plugins:
            raise Permanent(f"there is no plugin for {package}: the test has none")
        return self.plugins[package]

    def watch_path(self, *paths: str, recursive: bool = False) -> AsyncIterator[None]:
        """Record the paths in `watched`; return a watch that reports no events."""
        self.watched += paths
        return idle()

    def watch_kernel(self, topic: str) -> AsyncIterator[None]:
        """Record the topic in `watched`; return a watch that reports no events."""
        self.watched.append(topic)
        return idle()

    def keeping(self, *, private: bool) -> AbstractContextManager[None]:
        """Keep nothing."""
        return nullcontext()

    def redacted(self, value: Any) -> Any:
        """Return the value without the secrets of the pillar."""
        return Redactor(self.pillar)(value)

    def send(self, **values: Any) -> None:
        """Record the values."""
        self.sent |= values


def _answered(answer: Mapping[str, Any], stdin: str) -> Mapping[str, Any]:
    """Return the fields of `Completed` for an answer that may name a file to read or to write."""
    if "into" in answer:
        Path(answer["into"]).write_text(stdin, encoding="utf-8")
        return {}
    if "file" in answer:
        path = Path(answer["file"])
        return (
            {"stdout": path.read_text(encoding="utf-8")}
            if path.exists()
            else {"retcode": 1, "stderr": f"no {path.name}"}
        )
    return answer
