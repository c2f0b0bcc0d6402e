"""What resources and providers use of the log."""

from __future__ import annotations

from typing import Any, Protocol


class Logger(Protocol):
    """The part of a structlog logger that resources use; `resource=` is already bound."""

    def debug(self, event: str, **fields: object) -> object:
        """Log detail for the author of a kind."""
        ...

    def info(self, event: str, **fields: object) -> object:
        """Log an event that operators want to see."""
        ...

    def warning(self, event: str, **fields: object) -> object:
        """Log an event that operators should act on."""
        ...

    def error(self, event: str, **fields: object) -> object:
        """Log an error that no resource reports."""
        ...


class NoLog:
    """A logger without output, for a second binding of a provider: the binding of the agent logs the same messages."""

    def __getattr__(self, level: str) -> Any:
        """Return a function that does nothing."""
        return lambda *_, **__: None
