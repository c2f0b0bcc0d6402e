"""Loggers of our modules. structlog is imported when something is logged, which a one-shot run seldom does."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from threading import Lock
from types import ModuleType
from typing import Any

_lock = Lock()
_prepare: list[Callable[[ModuleType], None]] = []
"""What sets structlog up, until that is done; one at most."""


def prepared_by(prepare: Callable[[ModuleType], None]) -> None:
    """Have structlog set up by this before something is logged the next time; at once where it is imported already, by others perhaps."""
    _prepare[:] = [prepare]
    if "structlog" in sys.modules:
        _structlog()


class Late:
    """A logger with the methods of structlog's, looked up anew for each line: settings may change where it goes."""

    def __init__(self, name: str, **bound: Any) -> None:
        self._name, self._bound = name, bound

    def __getattr__(self, method: str) -> Any:
        """`info`, `error` and so on."""
        return getattr(_structlog().get_logger(self._name, **self._bound), method)


def _structlog() -> Any:
    """The library, set up. It does not see rich, which it would import to draw tracebacks: 50 ms and 8 MB."""
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
