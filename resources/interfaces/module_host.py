"""`__host__` and `__grains__` of plain modules that are providers: proxies for the host for which a module is called.

A process imports each module once, but may use it for several hosts at the same time: the agent's own, that of a
template, and that of a check. Each call of the module sets the host to which the proxies refer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from holdfast.resources.interfaces.host import ProviderHost

_HOST: ContextVar[ProviderHost] = ContextVar("host for which a module is called")


class _Host:
    """The host of the present call."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_HOST.get(), name)


class _Grains(Mapping[str, Any]):
    """The grains of the host of the present call."""

    def __getitem__(self, grain: str) -> Any:
        return _HOST.get().facts[grain]

    def __iter__(self) -> Iterator[str]:
        return iter(_HOST.get().facts)

    def __len__(self) -> int:
        return len(_HOST.get().facts)


def inject(module: ModuleType) -> None:
    """Set `__host__` and `__grains__` of a module."""
    module.__dict__.update(__host__=_Host(), __grains__=_Grains())


@contextmanager
def called_for(host: ProviderHost) -> Iterator[None]:
    """Make both names stand for this host within the body."""
    before = _HOST.set(host)
    try:
        yield
    finally:
        _HOST.reset(before)


def bound_to(host: ProviderHost, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a module whose calls are for this host."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wait(*arguments: Any, **options: Any) -> Any:
            with called_for(host):
                return await function(*arguments, **options)

        return wait

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with called_for(host):
            result = function(*arguments, **options)
        return _items(host, result) if inspect.isasyncgen(result) else result

    return call


async def _items(host: ProviderHost, watch: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, None]:
    """Yield the items of a watch, which runs between two items only."""
    async with aclosing(watch):
        while True:
            with called_for(host):
                try:
                    item = await anext(watch)
                except StopAsyncIteration:
                    return
            yield item
