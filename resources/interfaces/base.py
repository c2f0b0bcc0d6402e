"""Declarations of virtual modules: interfaces, which are equal on all platforms, and providers, which implement them.

An `Interface` is a class whose public methods are the functions of a virtual module (`pkg`, `service`, ...). A method
states the signature, the return type, the documentation and, as its body, the empty result. A `Provider` is a class
that serves one interface with one tool and says on which hosts it can. Neither inherits from the other: the binding
(`binding.py`) checks one against the other and stands between caller and provider.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from holdfast.resources.context import Services
from holdfast.resources.errors import DeclarationError, Temporary
from holdfast.resources.spelling import nearest

Function = TypeVar("Function", bound=Callable[..., Any])
Options = Mapping[str, Any] | None
"""Options of a changing function for one platform; each provider documents its own."""
Grains = Mapping[str, tuple[str, ...]]
"""Grain -> values, one of which must match."""

GRAINS = frozenset({
    "cpuarch", "host", "id", "init", "kernel", "kernelrelease", "machine_id", "os", "os_family", "osarch", "oscodename",
    "osfinger", "osfullname", "osmajorrelease", "osrelease", "systemd", "virtual", "virtual_subtype",
})  # fmt: skip
"""Grains that a declaration may refer to; any other name is refused as a misspelling."""


# -- services of the host for providers -----------------------------------------------------------------------------


class BusError(Temporary):
    """A call over D-Bus failed.

    `name` is the name of the error (`org.freedesktop.systemd1.NoSuchUnit`), empty if there was no answer.
    """

    def __init__(self, message: str, *, name: str = "", delay: float | None = None) -> None:
        super().__init__(message, delay=delay)
        self.name = name


class Match(NamedTuple):
    """Which signals to receive. Empty fields match anything; `within` is an object path and all below it.

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
        """Yield signals as they come. None means "armed": at first, and again whenever signals may have been missed."""
        ...


class ProviderHost(Services, Protocol):
    """Services of the host for its providers."""

    def bus(self) -> Bus:
        """Return the system's D-Bus; connected at the first use."""
        ...

    def system_path(self, path: Path) -> Path:
        """Return where a file of the system is: at `path`, except in tests."""
        ...


# -- interfaces ----------------------------------------------------------------------------------------------------


def supported(**grains: str | Sequence[str]) -> Callable[[Function], Function]:
    """Declare that only these platforms can have a function: elsewhere it is missing by design."""
    return _mark("supported", grains)


def not_applicable(**grains: str | Sequence[str]) -> Callable[[Function], Function]:
    """Declare that a function has nothing to do on these platforms: it returns the empty result."""
    return _mark("not_applicable", grains)


def _mark(word: str, grains: Mapping[str, str | Sequence[str]]) -> Callable[[Function], Function]:
    for grain in grains:
        if grain not in GRAINS:
            near = nearest(grain, GRAINS)
            raise DeclarationError(
                f"cannot declare {word}: there is no grain {grain!r}" + (f", did you mean {near!r}?" if near else "")
            )
    values = {grain: (value,) if isinstance(value, str) else tuple(value) for grain, value in grains.items()}

    def mark(function: Function) -> Function:
        setattr(function, f"_{word}", values)
        return function

    return mark


def matches(grains: Grains, facts: Mapping[str, Any]) -> bool:
    """Return whether the host has one of the values of at least one of the grains.

    Case does not matter; a missing grain never matches.
    """
    return any(
        seen in {value.casefold() for value in values}
        for grain, values in grains.items()
        for seen in _seen(facts.get(grain))
    )


def _seen(fact: Any) -> tuple[str, ...]:
    items = fact if isinstance(fact, (list, tuple)) else () if fact is None else (fact,)
    return tuple(str(item).casefold() for item in items)


class Interface:
    """What one virtual module promises on every host; subclasses name it by `name=`.

    A provider must have all public methods, except those decorated with `supported` or `not_applicable`. A subclass of
    an interface may add functions and optional parameters, but not remove any.
    """

    module: ClassVar[str] = ""
    """The virtual name: `pkg`."""
    version: ClassVar[int] = 1

    def __init_subclass__(cls, *, name: str = "", version: int = 1) -> None:
        """Take the name. Raises `DeclarationError` if there is none."""
        cls.module = name or cls.module
        cls.version = version
        if not cls.module:
            raise DeclarationError(f"cannot declare the interface {cls.__name__}: it has no name")

    @classmethod
    def functions(cls) -> dict[str, Callable[..., Any]]:
        """Return the functions that the interface promises, by name."""
        known = (base for base in reversed(cls.__mro__) if issubclass(base, Interface) and base is not Interface)
        declared = {name: member for base in known for name, member in vars(base).items()}
        return {
            name: getattr(cls, name) for name in declared if not name.startswith("_") and callable(getattr(cls, name))
        }


# -- providers -----------------------------------------------------------------------------------------------------


class Confine(NamedTuple):
    """Hosts on which a provider works, as data, so that a refusal has a reason."""

    grains: Mapping[str, tuple[str, ...]] = {}
    """Each of these grains must have one of its values."""
    commands: tuple[str, ...] = ()
    """Each of these commands must exist."""
    paths: tuple[str, ...] = ()
    """Each of these paths must exist."""
    missing: str = ""
    """Meaning of a missing path, for messages."""


class Provider:
    """Serves one interface with one tool. Created once for a host, when the interface is first used.

    MUST set `implements`; SHOULD set `confine`. The public methods are functions of the virtual module; a function that
    is only for callers of the tool itself is decorated with `physical`.
    """

    implements: ClassVar[type[Interface]]
    confine: ClassVar[Confine] = Confine()
    priority: ClassVar[int] = 0
    """Of several providers that fit, the one with the highest priority is chosen."""
    tool: ClassVar[str] = ""
    """Name of the tool, as in `providers: {pkg: apt}`. Default: the name of the module."""

    registered: ClassVar[list[type[Provider]]] = []
    """All declared providers."""

    def __init_subclass__(cls) -> None:
        """Register the provider. Raises `DeclarationError` if it implements no interface."""
        if not hasattr(cls, "implements"):
            raise DeclarationError(f"cannot declare the provider {cls.__name__}: it does not say what it implements")
        cls.tool = vars(cls).get("tool") or cls.__module__.rpartition(".")[2]
        Provider.registered.append(cls)

    def __init__(self, host: ProviderHost) -> None:
        self.host = host


def physical(function: Function) -> Function:
    """Keep a provider's function out of the virtual module: it belongs only to the tool."""
    function._physical = True  # type: ignore[attr-defined] # noqa: SLF001 - a mark on a function
    return function
