"""A fake host for providers: grains, a log that tests can read, and commands with prepared answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.resources.context import Completed
from holdfast.resources.contract import Resource, idle
from holdfast.resources.interfaces.host import Bus
from holdfast.resources.interfaces.provider import Offer, Provider
from holdfast.resources.testing import FakeContext

DEBIAN = {"os": "Debian", "os_family": "Debian", "kernel": "Linux", "init": "systemd"}


@dataclass
class Log:
    """Keeps the messages with their levels."""

    lines: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)

    def debug(self, event: str, **fields: object) -> None:
        """Keep the message."""
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: object) -> None:
        """Keep the message."""
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        """Keep the message."""
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        """Keep the message."""
        self.lines.append(("error", event, fields))


@dataclass
class FakeHost:
    """A host that exists only in memory.

    `answers` maps the beginning of a command line to stdout, or to retcode, stdout and stderr.
    """

    facts: Mapping[str, Any] = field(default_factory=lambda: dict(DEBIAN))
    log: Log = field(default_factory=Log)
    answers: dict[str, str | tuple[int, str, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    stdin: list[str] = field(default_factory=list)
    root: Path = Path("/")
    """Directory of the files of the system."""

    async def run(self, *argv: str, stdin: str | None = None, **_: Any) -> Completed:
        """Return the answer for the longest matching beginning; without a match, empty output and status 0."""
        line = " ".join(argv)
        self.ran.append(line)
        self.stdin.append(stdin or "")
        found = max((start for start in self.answers if line.startswith(start)), key=len, default=None)
        answer = self.answers[found] if found is not None else ""
        retcode, stdout, stderr = (0, answer, "") if isinstance(answer, str) else answer
        return Completed(argv, 1, retcode, stdout, stderr)

    async def blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Call the function at once."""
        return call(*args)

    def watch_path(self, *paths: str, recursive: bool = False) -> AsyncIterator[None]:
        """Report no events."""
        return idle()

    def system_path(self, path: Path) -> Path:
        """Return the path below `root`."""
        return self.root / path.relative_to("/")

    def bus(self) -> Bus:
        """Return no bus."""
        raise AssertionError("no D-Bus here")


@pytest.fixture(autouse=True)
def needs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that kinds call only functions of interfaces that they declare as needed."""
    declared: list[Resource] = []
    used: set[tuple[str, str]] = set()
    declare, interface = Resource.declare.__func__, FakeContext.interface  # type: ignore[attr-defined]

    def remember(cls: type[Resource], name: str, **arguments: Any) -> Resource:
        declared.append(declare(cls, name, **arguments))
        return declared[-1]

    def watched(ctx: FakeContext, wanted: Any, tool: str | None = None) -> Any:
        return Recorder(interface(ctx, wanted, tool), wanted.module, used)

    monkeypatch.setattr(Resource, "declare", classmethod(remember))
    monkeypatch.setattr(FakeContext, "interface", watched)
    yield
    needed = {(need.interface.module, need.function) for resource in declared for need in resource.needs()}
    assert used - needed == set()


class Recorder:
    """Records which functions of an interface are called."""

    def __init__(self, inner: Any, module: str, used: set[tuple[str, str]]) -> None:
        self._inner, self._module, self._used = inner, module, used

    def has(self, function: str) -> bool:
        """Return whether there is a function. Kinds may call this without declaring the function."""
        return hasattr(self._inner, function)

    def __getattr__(self, function: str) -> Any:
        """Return the function, and record it."""
        self._used.add((self._module, function))
        return getattr(self._inner, function)


@pytest.fixture
def host() -> FakeHost:
    """Return a Debian host."""
    return FakeHost()


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> list[Offer]:
    """Start without providers, and remove at the end those that the test has declared."""
    from holdfast.resources.interfaces import registry

    for name in registry.names():
        registry.offers(registry.demand(name))
    empty: list[Offer] = []
    monkeypatch.setattr(Provider, "registered", empty)
    return empty
