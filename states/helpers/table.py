"""The table of calls, and how one is entered.

To add one: write a function whose first parameter is the `World` and decorate it. It must not change anything. One that
looks at something other than the world's data says so with `@looking`, so that its file is rendered each time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.states.world import Helper, World

TABLE: dict[str, Helper] = {}
"""Every call there is."""

F = TypeVar("F", bound=Callable[..., Any])


def helper(*names: str) -> Callable[[F], F]:
    """Enter a function in the table."""

    def enter(function: F) -> F:
        for name in names:
            TABLE[name] = function
        return function

    return enter


def looking(*names: str) -> Callable[[F], F]:
    """Enter a function that looks at this host: what it gives may change without any file of the tree changing."""

    def enter(function: F) -> F:
        @functools.wraps(function)
        def run(world: World, *args: Any, **kwargs: Any) -> Any:
            world.looked = True
            return function(world, *args, **kwargs)

        helper(*names)(run)
        return function

    return enter


def plain(**functions: Callable[..., Any]) -> None:
    """Enter pure functions that need no world: `module__function=...`."""
    for name, function in functions.items():
        TABLE[name.replace("__", ".", 1)] = lambda _world, *args, _function=function, **kwargs: _function(*args, **kwargs)
