"""A host for providers under test: facts, a log that can be read, and commands that answer as told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.resources.context import Completed
from holdfast.resources.contract import idle
from holdfast.resources.interfaces.base import Bus, Provider

DEBIAN = {"os": "Debian", "os_family": "Debian", "kernel": "Linux", "init": "systemd"}


@dataclass
class Log:
    """Keeps what is logged, level and text."""

    lines: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)

    def debug(self, event: str, **fields: object) -> None:
        """Keep it."""
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: object) -> None:
        """Keep it."""
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        """Keep it."""
        self.lines.append(("warning", event, fields))


@dataclass
class FakeHost:
    """A host without a machine.

    `answers` gives stdout (or retcode, stdout and stderr) by the beginning of the command line.
    """

    facts: Mapping[str, Any] = field(default_factory=lambda: dict(DEBIAN))
    log: Log = field(default_factory=Log)
    answers: dict[str, str | tuple[int, str, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    stdin: list[str] = field(default_factory=list)

    async def run(self, *argv: str, stdin: str | None = None, **_: Any) -> Completed:
        """Answer with what the longest matching beginning says; nothing, with status 0, if none matches."""
        line = " ".join(argv)
        self.ran.append(line)
        self.stdin.append(stdin or "")
        found = max((start for start in self.answers if line.startswith(start)), key=len, default=None)
        answer = self.answers[found] if found is not None else ""
        retcode, stdout, stderr = (0, answer, "") if isinstance(answer, str) else answer
        return Completed(argv, 1, retcode, stdout, stderr)

    async def blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Call it at once."""
        return call(*args)

    def watch_path(self, *paths: str, recursive: bool = False) -> AsyncIterator[None]:
        """Nothing ever happens."""
        return idle()

    def bus(self) -> Bus:
        """There is none."""
        raise AssertionError("no D-Bus here")


@pytest.fixture
def host() -> FakeHost:
    """A Debian host."""
    return FakeHost()


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> list[type[Provider]]:
    """The providers there are, at first none; those that a test declares are forgotten afterwards."""
    from holdfast.resources.interfaces import registry

    registry.providers()
    empty: list[type[Provider]] = []
    monkeypatch.setattr(Provider, "registered", empty)
    return empty
