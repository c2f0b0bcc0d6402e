"""Services for providers: those of the host, and its D-Bus."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from holdfast.resources.context import Services
from holdfast.resources.errors import Temporary


class BusError(Temporary):
    """A call over D-Bus failed.

    `name` is the name of the error (`org.freedesktop.systemd1.NoSuchUnit`), empty if there was no answer.
    """

    def __init__(self, message: str, *, name: str = "", delay: float | None = None) -> None:
        super().__init__(message, delay=delay)
        self.name = name


class Match(NamedTuple):
    """The signals to receive. Empty fields match anything; `within` is an object path and all below it.

    If `within` is given, the rule of the bus uses it, and `path` is compared here: thousands of paths need one rule.
    """

    sender: str
    interface: str
    member: str = ""
    path: str = ""
    within: str = ""


class Signal(NamedTuple):
    """A received signal; variants in its body are plain values."""

    interface: str
    member: str
    path: str
    body: Sequence[Any]


class Bus(Protocol):
    """The system's D-Bus, as providers use it. Variants are plain values in every answer."""

    async def call(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        *arguments: Any,
        timeout: float = 25.0,
    ) -> list[Any]:
        """Call a method and return its values.

        Raises `BusError`, also if there is no answer within `timeout` seconds.
        """
        ...

    def signals(self, *matches: Match) -> AsyncGenerator[Signal | None, None]:
        """Yield signals as they arrive; None: the subscription is armed, and earlier signals may have been missed."""
        ...


class ProviderHost(Services, Protocol):
    """Services of the host for its providers."""

    def bus(self) -> Bus:
        """Return the system's D-Bus, connected on first use."""
        ...

    def system_path(self, path: Path) -> Path:
        """Return where a file of the system is: at `path`, except in tests."""
        ...
