"""Loggers of our modules. structlog is imported for the first message; most one-shot runs log none."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from threading import Lock
from types import ModuleType
from typing import Any, ClassVar

_lock = Lock()
_prepare: list[Callable[[ModuleType], None]] = []
"""The function that configures structlog, until it was called; at most one."""


def prepared_by(prepare: Callable[[ModuleType], None]) -> None:
    """Configure structlog with this function before the next line is logged, or now if structlog is imported."""
    _prepare[:] = [prepare]
    LazyLogger.configuration += 1
    if "structlog" in sys.modules:
        load_structlog()


class LazyLogger:
    """A logger with structlog's methods, made for the first message after a change of the settings."""

    configuration: ClassVar[int] = 0
    """Counts the calls of `prepared_by`."""

    def __init__(self, name: str, **bound: Any) -> None:
        self._name, self._bound = name, bound
        self._logger: Any = None
        self._made_for = -1
        """The value of `configuration` when the logger was made."""

    def __getattr__(self, method: str) -> Any:
        """Return the method of a level: `info`, `error` and so on."""
        if self._made_for != (current := self.configuration):
            self._logger = load_structlog().get_logger(self._name, **self._bound).bind()
            self._made_for = current
        return getattr(self._logger, method)


def load_structlog() -> Any:
    """Return structlog, imported if necessary, and configured.

    rich is hidden from it: structlog would import rich for tracebacks, at 50 ms and 8 MB.
    """
    with _lock:
        hide = "rich" not in sys.modules
        if hide:
            sys.modules["rich"] = None  # type: ignore[assignment]
        try:
            structlog = importlib.import_module("structlog")
        finally:
            if hide:
                del sys.modules["rich"]
        if _prepare:
            _prepare.pop()(structlog)
        return structlog
