"""Calls of functions on a host without a running agent: in a process of their own, by root."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.agent import facts
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.function_calls import CallRefused, CallRequest, FunctionCall
from holdfast.agent.host.host import LocalHost
from holdfast.agent.interruptions import interruptible
from holdfast.agent.logs import Logs
from holdfast.agent.settings import Settings
from holdfast.agent.statedir import LOCK, Lock, LockedError, private_directory
from holdfast.resources.contract import Uid

if TYPE_CHECKING:
    from holdfast.agent.plugins.declared import DeclaredPlugin

REMAINS = "its change was interrupted"


def call_here(settings: Settings, request: CallRequest) -> dict[str, Any]:
    """Make a call and return its answer; `busy` while another process holds the lock that a change needs.

    Raises `CompileError` if the operator's kinds or the chosen providers cannot be used, and `KeyboardInterrupt` after
    an interrupted call has ended.
    """
    compiler = ConfigurationCompiler()
    compiler.load(settings)
    with quiet(settings, "warning"):
        return asyncio.run(_call(settings, request, compiler.plugins))


@contextmanager
def quiet(settings: Settings, level: Literal["warning", "error"]) -> Iterator[None]:
    """Log to standard error from this level on."""
    logs = Logs(settings.log.model_copy(update={"format": "console", "level": level}))
    try:
        yield
    finally:
        logs.close()


def local_host(settings: Settings, grains: Mapping[str, Any] | None = None) -> LocalHost:
    """Return the services of this host for functions of interfaces; `grains` replace those of the host."""
    return LocalHost(
        states=settings.states,
        var_dir=settings.state_dir,
        facts=facts.gather(settings) if grains is None else grains,
        providers=settings.providers,
        strict=settings.interfaces == "strict",
        durable=settings.durable,
    )


async def _call(settings: Settings, request: CallRequest, plugins: Mapping[str, DeclaredPlugin]) -> dict[str, Any]:
    async with local_host(settings) as host:
        await host.use_plugins(plugins)
        with interruptible():
            call = FunctionCall(request, host, partial(_LockClaim, settings.state_dir), REMAINS)
            answer, _ = await call.run()
            return answer


class _LockClaim(AbstractAsyncContextManager[None]):
    """Holds the lock that excludes an agent and other one-shot runs.

    Raises `CallRefused` while another process holds it. The remainder of a call keeps the lock until this process has
    ended.
    """

    def __init__(self, state_dir: Path, _: Collection[Uid]) -> None:
        self._lock = Lock(private_directory(state_dir) / LOCK, "make a call that changes something")

    async def __aenter__(self) -> None:
        try:
            self._lock.__enter__()
        except LockedError as error:
            raise CallRefused("busy", str(error)) from error

    async def __aexit__(self, *error: object) -> None:
        self._lock.__exit__(None, None, None)
