"""Calls of functions of interfaces: `pkg.*` through this host's provider, `service.*` by unit files or the provider.

Templates are rendered synchronously, also by the agent while its event loop waits, but functions of providers are
coroutines. So each call runs in a thread with an event loop of its own, by a new provider that uses no service of the
agent. It reads files, or runs commands that only look, each for at most `DEADLINE` seconds. It has no connection to
D-Bus, so on a host with systemd the unit files answer for `service`. Nothing waits for the agent's own event loop.

Where no provider fits (states for another host are checked here), no package is installed, and versions are compared by
Debian's rules.
"""

# ruff: noqa: ARG002 - the methods have the parameters of the protocol

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import Any, Literal, cast

from holdfast.resources.context import PATH, Completed, I, Watch
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.execution import table as execution
from holdfast.resources.interfaces.binding import Bound
from holdfast.resources.interfaces.host import Bus, BusError
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.provider import Offer
from holdfast.resources.interfaces.registry import choose
from holdfast.resources.interfaces.service import ServiceInterface
from holdfast.resources.logger import Logger, NoLog
from holdfast.resources.paths import own_home
from holdfast.resources.providers._dpkg import compare_versions
from holdfast.states.helpers.commands import ended
from holdfast.states.helpers.table import looking
from holdfast.states.source import hostfiles
from holdfast.states.view.host_view import HostView

DEADLINE = 30.0
"""Seconds that a call, and each command of it, may take."""
MARGIN = 0.5
"""Seconds more for a call that ends by itself at the deadline."""
_blocked: dict[str, Thread] = {}
"""Name of a function -> the thread of its last call that exceeded the deadline."""
UNITS = tuple(
    Path(path)
    for path in (
        "/etc/systemd/system",
        "/run/systemd/system",
        "/usr/local/lib/systemd/system",
        "/usr/lib/systemd/system",
        "/lib/systemd/system",
    )
)
"""Directories of units of systemd; the first one with a name takes precedence."""


class _WithoutProvider:
    """Packages where no provider fits: none is installed."""

    def __getattr__(self, function: str) -> Any:
        return getattr(PkgInterface(), function)

    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """Compare by Debian's rules."""
        return compare_versions(a, b)


class LookingHost:
    """The host for providers of one call of a template. Commands and file accesses block the thread of the call."""

    def __init__(self, view: HostView) -> None:
        self.facts = view.grains
        self._chosen: Mapping[str, str] = view.options.get("providers") or {}
        """The operator's choice of providers."""
        self._strict = view.options.get("interfaces") != "lenient"
        """Whether a provider that violates its interface is refused."""
        self.log = cast("Logger", NoLog())

    def interface(self, interface: type[I], tool: str | None = None) -> I:
        """Return the functions of an interface, by a new provider."""
        found: Any = self.bound(interface) or _WithoutProvider()
        return found  # type: ignore[no-any-return]

    def bound(self, interface: Any) -> Bound | None:
        """Return an interface with a new provider; None if no provider fits."""
        offer = self.offer(interface)
        return None if offer is None else Bound(offer, self, strict=self._strict)

    def offer(self, interface: Any) -> Offer | None:
        """Return the provider that the operator or the grains choose; None if none fits."""
        return choose(interface, self, self._chosen.get(interface.module), strict=self._strict).offer

    async def run(
        self, *argv: str, env: Mapping[str, str] | None = None, stdin: str | None = None, check: bool = True,
        limit: int = 1 << 20, timeout: float | None = None, **_: Any,
    ) -> Completed:  # fmt: skip
        """Run a command. Raises `Permanent` if it cannot be started or has failed, `Temporary` on timeout."""
        options = {"env": {"PATH": PATH, "LANG": "C.UTF-8", "HOME": own_home(), **(env or {})}}
        try:
            done = ended(list(argv), stdin or "", min(timeout or DEADLINE, DEADLINE), options)
        except subprocess.TimeoutExpired:
            raise Temporary(f"{argv[0]} did not end within {DEADLINE:g} s") from None
        except OSError as error:
            raise Permanent(f"cannot run {argv[0]}: {error.strerror}") from error
        if check and done.returncode:
            raise Permanent(f"{argv[0]} ended with status {done.returncode}: {done.stderr.strip()}")
        return Completed(argv, 0, done.returncode, done.stdout[:limit], done.stderr[:limit])

    async def blocking(self, call: Callable[..., Any], /, *args: Any) -> Any:
        """Call it at once: the thread has nothing else to do."""
        return call(*args)

    long_blocking = blocking

    def watch_path(self, *paths: str, recursive: bool = False) -> Watch:
        """Raise `Permanent`: a call of a template watches nothing."""
        raise Permanent("templates cannot watch")

    def bus(self) -> Bus:
        """Raise `BusError`: there is no connection."""
        raise BusError("templates have no connection to D-Bus")

    @staticmethod
    def system_path(path: Path) -> Path:
        """Return the path itself."""
        return path


def _called(
    function: execution.ExecutionFunction, view: HostView, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function in a thread with an event loop, and wait for its end.

    Raises `Temporary` after `DEADLINE`. A provider that blocks its thread cannot be ended: until it returns, further
    calls of the function raise `Temporary` at once.
    """
    if (blocked := _blocked.get(function.name)) is not None and blocked.is_alive():
        raise Temporary(f"{function.name} was not called: an earlier call of it has not ended yet")

    late = Temporary(f"{function.name} took longer than {DEADLINE:g} s")

    async def call() -> Any:
        try:
            async with asyncio.timeout(DEADLINE) as limit:
                return await function.call(LookingHost(view), *args, **kwargs)
        except TimeoutError as error:
            raise late if limit.expired() else error from None

    done: Future[Any] = Future()
    thread = Thread(target=_run, args=(call, done), name=f"template: {function.name}", daemon=True)
    thread.start()
    if not wait([done], DEADLINE + MARGIN).done:
        _blocked[function.name] = thread
        raise late
    return done.result()


def _run(call: Callable[[], Coroutine[Any, Any, Any]], done: Future[Any]) -> None:
    """Run a coroutine in a loop of its own, and pass on its result or what it raises."""
    try:
        done.set_result(asyncio.run(call()))
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
        done.set_exception(error)


def _register(function: execution.ExecutionFunction) -> None:
    """Register a function. As in Salt, further named arguments have no effect.

    A template changes nothing, so `refresh` has no effect either: it would fetch the lists of packages.
    """
    signature = inspect.signature(function.call)

    @looking(function.name)
    def look(view: HostView, *args: Any, **kwargs: Any) -> Any:
        known = {name: value for name, value in kwargs.items() if name in signature.parameters}
        given = signature.bind(None, *args, **known)
        if "refresh" in given.arguments:
            given.arguments["refresh"] = False
        return _called(function, view, given.args[1:], given.kwargs)


for _function in execution.functions().values():
    if _function.looks and _function.interface is PkgInterface:
        _register(_function)


# -- services ------------------------------------------------------------------------------------------------------


def _asked(view: HostView, name: str, call: str) -> Any:
    """Return the answer of the provider; None where it is systemd, or where there is none: the unit files answer."""
    offer = LookingHost(view).offer(ServiceInterface)
    if offer is None or offer.tool == "systemd":
        return None
    function = execution.find(call)
    return None if function is None else _called(function, view, (name,), {})


@looking("service.available")
def available(view: HostView, name: str) -> bool:
    """Return whether there is such a service."""
    asked = _asked(view, name, "service.available")
    if asked is not None:
        return bool(asked)
    unit = name if "." in name else f"{name}.service"
    template = re.sub("@.*\\.", "@.", unit)
    return any(hostfiles.look(directory / each) is not None for directory in UNITS for each in {unit, template})


@looking("service.missing")
def missing(view: HostView, name: str) -> bool:
    """Return whether there is no such service."""
    return not available(view, name)


@looking("service.enabled")
def enabled(view: HostView, name: str, **_: Any) -> bool:
    """Return whether a service starts with the system."""
    asked = _asked(view, name, "service.enabled")
    if asked is not None:
        return bool(asked)
    unit = name if "." in name else f"{name}.service"
    return any(hostfiles.matching(f"{UNITS[0]}/*.{word}/{unit}") for word in ("wants", "requires"))


@looking("service.disabled")
def disabled(view: HostView, name: str, **_: Any) -> bool:
    """Return whether a service does not start with the system."""
    return not enabled(view, name)
