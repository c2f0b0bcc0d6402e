"""The table of calls.

To add a call, write a function whose first parameter is the `HostView`, decorate it, and add its name to
`resources/execution/template_functions.py`. Its module is imported when a template first uses the call. The function
must not change anything. A function that reads anything but the data of the view is decorated with `@looking`, so that
files that use it are rendered each time.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from holdfast.resources.execution.template_functions import NAMES
from holdfast.states.view.host_view import Helper, HostView


class HelperTable(Mapping[str, Helper]):
    """All functions. Getting one imports its module; iterating over names imports nothing."""

    def __init__(self) -> None:
        self.entered: dict[str, Helper] = {}
        """Functions whose modules have been imported."""

    def __getitem__(self, name: str) -> Helper:
        """Return a function. Raises `KeyError`."""
        if name not in self.entered:
            importlib.import_module(f"holdfast.states.helpers.{NAMES[name]}")
        return self.entered[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a function."""
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        """Return all names."""
        return iter(NAMES)

    def __len__(self) -> int:
        """Return the number of functions."""
        return len(NAMES)


TABLE = HelperTable()

F = TypeVar("F", bound=Callable[..., Any])


def helper(*names: str) -> Callable[[F], F]:
    """Register a function."""

    def enter(function: F) -> F:
        for name in names:
            TABLE.entered[name] = function
        return function

    return enter


def looking(*names: str) -> Callable[[F], F]:
    """Register a function that reads this host: its result may change although no file changes."""

    def enter(function: F) -> F:
        @functools.wraps(function)
        def run(view: HostView, *args: Any, **kwargs: Any) -> Any:
            view.looked = True
            return function(view, *args, **kwargs)

        helper(*names)(run)
        return function

    return enter


def plain(**functions: Callable[..., Any]) -> None:
    """Register pure functions that need no view: `module__function=...`."""
    for name, function in functions.items():
        TABLE.entered[name.replace("__", ".", 1)] = lambda _world, *args, _function=function, **kwargs: _function(
            *args, **kwargs
        )
