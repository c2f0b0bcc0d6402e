"""Declarations of virtual modules: the functions that they promise on every host.

An `Interface` is a class whose public methods are the functions of a virtual module (`pkg`, `service`, ...). A method
states the signature, the return type, the documentation and, as its body, the empty result. `provider.py` declares
providers, which serve an interface with one tool. `binding.py` checks a provider against its interface, and passes the
calls from one to the other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from holdfast.resources.errors import DeclarationError
from holdfast.resources.interfaces.signatures import difference
from holdfast.resources.spelling import nearest

if TYPE_CHECKING:
    from holdfast.resources.interfaces.rows import Described

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

RESERVED = frozenset({
    "changes", "chosen_by_name", "decide", "declaration", "deprecated_calls", "describe", "entry", "function",
    "functions", "generated", "has", "interface", "module", "offer", "promises", "provider", "thing", "tool", "version",
    "words",
})  # fmt: skip
"""Names of the attributes of `Interface` and `Bound`, which no function may have."""


def supported(**grains: str | Sequence[str]) -> Callable[[Function], Function]:
    """Declare that only these platforms can have a function: elsewhere it is missing by design.

    One matching value of one grain is enough. Raises `DeclarationError` for an unknown grain.
    """
    return _mark("supported", grains)


def not_applicable(**grains: str | Sequence[str]) -> Callable[[Function], Function]:
    """Declare that a function has nothing to do on these platforms: it returns the empty result.

    One matching value of one grain is enough. Raises `DeclarationError` for an unknown grain.
    """
    return _mark("not_applicable", grains)


def since(version: int, *parameters: str) -> Callable[[Function], Function]:
    """Declare that a version of the interface has added the function, or only these parameters of it.

    A provider for the version before need not have them.
    """

    def mark(function: Function) -> Function:
        function._since = (version, parameters)  # type: ignore[attr-defined] # noqa: SLF001 - a mark on a function
        return function

    return mark


def replaces(*names: str) -> Callable[[Function], Function]:
    """Declare former names of a function, such as Salt's: calls by these names still work, and are deprecated."""

    def mark(function: Function) -> Function:
        function._replaces = names  # type: ignore[attr-defined] # noqa: SLF001 - a mark on a function
        return function

    return mark


def looks(function: Function) -> Function:
    """Declare that a function changes nothing, if only a provider has it, so that no interface can say this.

    Without this declaration, such a function counts as one that may change anything.
    """
    function._looks = True  # type: ignore[attr-defined] # noqa: SLF001 - a mark on a function
    return function


def _mark(word: str, grains: Mapping[str, str | Sequence[str]]) -> Callable[[Function], Function]:
    for grain in grains:
        if grain not in GRAINS:
            near = nearest(grain, GRAINS)
            raise DeclarationError(
                f"cannot declare {word}: there is no grain {grain!r}" + (f"; did you mean {near!r}?" if near else "")
            )
    values = {grain: (value,) if isinstance(value, str) else tuple(value) for grain, value in grains.items()}

    def mark(function: Function) -> Function:
        setattr(function, f"_{word}", values)
        return function

    return mark


def changes(function: Callable[..., Any], *, promised: bool = True) -> bool:
    """Return whether a function may change something.

    A function that an interface has `promised` changes something if it has the parameter `test`. Any other function
    may change something, unless it is declared by `looks`.
    """
    if promised:
        return "test" in inspect.signature(function).parameters
    return not getattr(function, "_looks", False)


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
    an interface may widen it (more functions, more optional parameters, more platforms), but must not narrow it.
    """

    module: ClassVar[str] = ""
    """The virtual name: `pkg`."""
    version: ClassVar[int] = 1
    """Providers for this version and the one before are accepted."""
    words: ClassVar[frozenset[str]] = frozenset()
    """Parameters whose texts become words of a command. A text that the tool would read as an option is refused."""
    chosen_by_name: ClassVar[bool] = False
    """Whether each caller names the tool (`pip`), because several may be used on one host."""
    generated: ClassVar[bool] = False
    """Whether the interface was made from the functions of its only provider: it promises nothing about them."""
    thing: ClassVar[str] = ""
    """First part of the uids of what the functions change (`unit`). Default: the virtual name, or the tool's."""

    def __init_subclass__(cls, *, name: str = "", version: int = 1, chosen_by_name: bool = False) -> None:
        """Take the name.

        Raises `DeclarationError` if there is none, for a function whose name is reserved, and for a function that
        contradicts itself or a base.
        """
        cls._demand_free_names(name)
        cls.module = name or cls.module
        cls.version = version
        cls.chosen_by_name = chosen_by_name or cls.chosen_by_name
        if not cls.module:
            raise DeclarationError(f"cannot declare the interface {cls.__name__}: it has no name")
        for function, declared in cls.functions().items():
            if both := _both(declared):
                raise DeclarationError(
                    f"cannot declare {cls.module}.{function}: both supported and not applicable where {both}"
                )
        cls._demand_wide()

    @classmethod
    def _demand_free_names(cls, name: str) -> None:
        """Raise `DeclarationError` for a function that callers could not reach by its name."""
        for function, member in vars(cls).items():
            if function in RESERVED and (callable(member) or isinstance(member, (staticmethod, classmethod))):
                raise DeclarationError(
                    f"cannot declare {name or cls.__name__}.{function}: all interfaces have an attribute {function!r}; "
                    "give the function another name"
                )

    @classmethod
    def _demand_wide(cls) -> None:
        """Raise `DeclarationError` for a function that promises less than that of a base."""
        promised = cls.functions()
        for base in cls.__mro__[1:]:
            if issubclass(base, Interface) and base is not Interface:
                for function, declared in base.functions().items():
                    if why := _narrowed(declared, promised.get(function)):
                        raise DeclarationError(
                            f"cannot declare {cls.module}.{function}: {why}; {base.__name__} promises more"
                        )

    @classmethod
    def functions(cls) -> dict[str, Callable[..., Any]]:
        """Return the functions that the interface promises, by name."""
        known = (base for base in reversed(cls.__mro__) if issubclass(base, Interface) and base is not Interface)
        declared = {name: member for base in known for name, member in vars(base).items()}
        return {
            name: getattr(cls, name) for name in declared if not name.startswith("_") and callable(getattr(cls, name))
        }

    # -- of a bound interface -------------------------------------------------------------------------------------

    def has(self, function: str) -> bool:
        """Return whether a function really runs on this host; one that only raises or does nothing does not count."""
        raise NotImplementedError

    def describe(self) -> tuple[Described, ...]:
        """Return all functions, sorted by name, with what a call does on this host."""
        raise NotImplementedError


def _both(function: Callable[..., Any]) -> str:
    """Return a grain and values for which a function is declared both ways; empty if there are none."""
    supports, spares = marked(function, "supported") or {}, marked(function, "not_applicable") or {}
    for grain in supports.keys() & spares.keys():
        spared = {value.casefold() for value in spares[grain]}
        if both := [value for value in supports[grain] if value.casefold() in spared]:
            return f"{grain} is {' or '.join(both)}"
    return ""


def _narrowed(declared: Callable[..., Any], by: Any) -> str:
    """Return how a redeclaration promises less than the declaration; empty if it does not."""
    if not callable(by):
        return "it is not a function"
    if why := difference(declared, by):
        return why
    before, now = marked(declared, "supported"), marked(by, "supported")
    if now is not None and (before is None or any(set(before[grain]) - set(now.get(grain, ())) for grain in before)):
        return "fewer platforms support it"
    spared, spares = marked(declared, "not_applicable") or {}, marked(by, "not_applicable") or {}
    if any(set(spares[grain]) - set(spared.get(grain, ())) for grain in spares):
        return "it applies to fewer platforms"
    return ""


def marked(function: Callable[..., Any], word: str) -> Grains | None:
    """Return the grains of the decorator `supported` or `not_applicable` of a function; None without it."""
    grains: Grains | None = getattr(function, f"_{word}", None)
    return grains
