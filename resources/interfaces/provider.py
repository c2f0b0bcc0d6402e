"""Providers: each serves an interface with one tool, and says on which hosts it works.

A provider is a class derived from `Provider`, or a plain module that declares `__interface__`. Such a module may also
set `__tool__` (default: its own name), `__confine__`, `__priority__`, `__version__` (of the interface), `__all__`,
`__func_alias__` (name in the module -> name of the function) and `__virtual__`, as in Salt: a function that returns
False, or False and a reason, where the module cannot work. The agent sets its `__host__` and `__grains__` before that.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

from holdfast.resources.builtin import PROVIDERS
from holdfast.resources.context import PATH
from holdfast.resources.errors import RAISED, DeclarationError, HoldfastError, Permanent
from holdfast.resources.interfaces.base import Function, Interface, matches
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.module_host import bound_to, called_for, inject

BUILTIN = "holdfast.resources.providers."
"""Beginning of the names of the modules with Holdfast's own providers."""
CHECKED = "checked."
"""Beginning of the name of a module that is imported only to be compared with its interface."""
PROPERTIES = (property, cached_property)
"""Attributes of a provider that run code when they are read."""


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
    unless: Mapping[str, str] = {}
    """Command -> program of another tool. If the command is a link to this program, the host uses the other tool."""

    def wrong(self) -> str:
        """Return which field has a value of a wrong type; empty if all are right."""
        if not (isinstance(self.grains, Mapping) and isinstance(self.unless, Mapping)):
            return "grains and unless of its confine must be mappings"
        several = {"commands": self.commands, "paths": self.paths}
        several |= {f"grains[{grain!r}]": values for grain, values in self.grains.items()}
        for name, values in several.items():
            if not isinstance(values, (tuple, list)) or not all(isinstance(each, str) for each in values):
                return f"{name} of its confine must be a tuple of texts, not {values!r}"
        return ""

    def refusals(self, host: ProviderHost) -> Iterator[str]:
        """Yield the reasons why a host does not fit."""
        for grain, values in self.grains.items():
            if not matches({grain: values}, host.facts):
                yield f"{grain} is {host.facts.get(grain, 'unknown')}, not {' or '.join(values)}"
        for command in self.commands:
            if shutil.which(command, path=PATH) is None:
                yield f"there is no command {command}"
        for path in self.paths:
            if not Path(path).exists():
                yield self.missing or f"there is no {path}"
        for command, other in self.unless.items():
            found = shutil.which(command, path=PATH)
            if found and Path(found).resolve().name == other:
                yield f"{command} is {other}"


class Provider:
    """Serves one interface with one tool. One object is created for a host, when the interface is first used.

    MUST set `implements`; SHOULD set `confine`. The public methods are functions of the virtual module; a function that
    is only for callers of the tool itself is decorated with `physical`. A method that the interface does not have, and
    that changes nothing, is decorated with `looks` (`base.py`). A method that is not `async` runs in a thread, if the
    interface declares it `async`.
    """

    implements: ClassVar[type[Interface]]
    confine: ClassVar[Confine] = Confine()
    priority: ClassVar[int] = 0
    """Of several providers that fit, the one with the highest priority is chosen."""
    tool: ClassVar[str] = ""
    """Name of the tool, as in `providers: {pkg: apt}`. Default: the name of the module."""
    targets: ClassVar[int] = 0
    """Version of the interface that the provider was written for. Default: the present one."""
    abstract: ClassVar[bool] = False
    """Whether the class is only a base of providers."""

    registered: ClassVar[list[Offer]] = []
    """All declared providers, modules included."""

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        """Register the provider. Raises `DeclarationError` if it implements no interface."""
        cls.abstract = abstract
        served = getattr(cls, "implements", None)
        if not (inspect.isclass(served) and issubclass(served, Interface)):
            raise DeclarationError(
                f"cannot declare the provider {cls.__name__}: it does not say what it implements; `implements` must be "
                "a class derived from Interface"
            )
        cls.tool = vars(cls).get("tool") or cls.__module__.rpartition(".")[2]
        if not abstract:
            register(
                Offer(cls.implements, cls.tool, cls.confine, cls.priority, cls.targets or cls.implements.version, cls)
            )

    def __init__(self, host: ProviderHost) -> None:
        self.host = host


def physical(function: Function) -> Function:
    """Keep a provider's function out of the virtual module: it belongs only to the tool."""
    function._physical = True  # type: ignore[attr-defined] # noqa: SLF001 - a mark on a function
    return function


@dataclass(frozen=True)
class Offer:
    """A provider that may be chosen for an interface."""

    interface: type[Interface]
    tool: str
    confine: Confine
    priority: int
    targets: int
    source: type[Provider] | ModuleType
    undeclared: bool = False
    """Whether a module has the name of the interface, but does not declare that it implements the interface."""

    @property
    def home(self) -> str:
        """Name of the module that declares the provider."""
        return self.source.__name__ if isinstance(self.source, ModuleType) else self.source.__module__

    def refusals(self, host: ProviderHost, *, strict: bool = True) -> list[str]:
        """Return the reasons why the provider does not work on a host; empty if it works."""
        found = list(self.confine.refusals(host))
        if self.undeclared and strict:
            found.append(f"{self.home} does not declare `__interface__ = {self.interface.__name__}`")
        if isinstance(self.source, ModuleType) and not found:
            inject(self.source)
            with called_for(host):
                found.extend(_virtual(self.source))
        return found

    def make(self, host: ProviderHost) -> Any:
        """Return the object with the functions: a new provider, or the module.

        Raises `Permanent` if the constructor fails.
        """
        if isinstance(self.source, ModuleType):
            inject(self.source)
            return self.source
        try:
            return self.source(host)
        except HoldfastError:
            raise
        except RAISED as error:  # the code of a provider may raise anything
            why = f"its constructor failed: {type(error).__name__}: {error}"
            raise Permanent(f"cannot use {self.tool} for {self.interface.module}: {why}") from error

    def functions(self, provider: Any, host: ProviderHost) -> Functions:
        """Return the present functions of the object that `make` has returned for this host."""
        found = functions(provider)
        if not isinstance(self.source, ModuleType):
            return found
        return found._replace(public={name: bound_to(host, member) for name, member in found.public.items()})


def register(offer: Offer) -> None:
    """Add a provider; one of the same module is replaced.

    Raises `DeclarationError` if the interface has another provider for this tool, or if the declaration is wrong.
    """
    if why := mistake(offer):
        raise DeclarationError(f"cannot declare {offer.tool} for {offer.interface.module} in {offer.home}: {why}")
    for index, known in enumerate(Provider.registered):
        if (known.interface.module, known.tool) == (offer.interface.module, offer.tool):
            if known.home != offer.home:
                raise DeclarationError(
                    f"cannot declare {offer.tool} for {offer.interface.module} in {offer.home}: {known.home} has "
                    "declared it already"
                )
            Provider.registered[index] = offer
            return
    Provider.registered.append(offer)


def mistake(offer: Offer) -> str:
    """Return what is wrong with a declaration; empty if nothing is."""
    if not isinstance(offer.confine, Confine):
        return f"its confine must be a Confine, as Confine(commands=('tool',)), not {offer.confine!r}"
    for what, value in (("priority", offer.priority), ("version of the interface", offer.targets)):
        if not isinstance(value, int):
            return f"its {what} must be a whole number, not {value!r}"
    if offer.tool in PROVIDERS.get(offer.interface.module, ()) and not offer.home.startswith((BUILTIN, CHECKED)):
        return "Holdfast has a provider of this name; name the file or the tool differently"
    return offer.confine.wrong()


class Functions(NamedTuple):
    """The functions of a provider."""

    public: dict[str, Callable[..., Any]]
    """Functions for callers of the virtual module."""
    physical: dict[str, Callable[..., Any]]
    """Functions only for callers of the tool."""
    others: frozenset[str]
    """Names of attributes that are not functions, and of functions that the module does not export."""


def functions(provider: Any) -> Functions:
    """Return the present functions of a provider, including inherited and conditionally defined ones."""
    found = _of_module(provider) if isinstance(provider, ModuleType) else _of_object(provider)
    members = {name: member for name, member in found.items() if callable(member) and not inspect.isclass(member)}
    only = {name for name, member in members.items() if getattr(member, "_physical", False)}
    return Functions(
        {name: member for name, member in members.items() if name not in only},
        {name: members[name] for name in only},
        frozenset(dir(provider)) - members.keys(),
    )


def _of_object(provider: Any) -> dict[str, Any]:
    """Return the members that may be functions. Properties are not read, because their code could do anything."""
    names = [name for name in dir(provider) if not name.startswith("_") and not hasattr(Provider, name)]
    read = [name for name in names if not isinstance(inspect.getattr_static(provider, name), PROPERTIES)]
    return {name: getattr(provider, name) for name in read if name in vars(type(provider)) or name != "host"}


def _of_module(module: ModuleType) -> dict[str, Any]:
    exported = getattr(module, "__all__", None)
    names = [name for name in dir(module) if not name.startswith("_")] if exported is None else exported
    alias: Mapping[str, str] = getattr(module, "__func_alias__", {})
    own = {name: getattr(module, name, None) for name in names}
    return {
        alias.get(name, name): member
        for name, member in own.items()
        if exported is not None or getattr(member, "__module__", None) == module.__name__
    }


def _virtual(module: ModuleType) -> Iterator[str]:
    """Yield the reason why `__virtual__` of a module refuses the host."""
    check = getattr(module, "__virtual__", None)
    if check is None:
        return
    try:
        said = check()
    except RAISED as error:  # the code of a provider may raise anything
        yield f"its __virtual__ failed: {type(error).__name__}: {error}"
        return
    fits, reason = said if isinstance(said, tuple) else (said, "")
    if fits is None or fits is False:
        yield reason or "its __virtual__ says so"


def register_module(module: ModuleType, interfaces: Callable[[str], type[Interface] | None]) -> None:
    """Register a module as a provider, if it declares an interface.

    `interfaces` finds an interface by its virtual name. A module with a `__virtualname__` and no `__interface__` is
    accepted only by bindings that are not strict; if no interface has that name, one is generated from the module's
    functions. Raises `DeclarationError` if `__interface__` is not an interface.
    """
    interface, name = getattr(module, "__interface__", None), getattr(module, "__virtualname__", "")
    if interface is None and not name:
        return
    found = interface if interface is not None else interfaces(name)
    undeclared = interface is None and found is not None
    found = found or generated(module, name)
    if not (inspect.isclass(found) and issubclass(found, Interface)):
        raise DeclarationError(f"cannot use {module.__name__}: its __interface__ is not an interface")
    if why := wrong_export(module):
        raise DeclarationError(f"cannot use {module.__name__}: {why}")
    register(offer_of(module, found, undeclared=undeclared))


def offer_of(module: ModuleType, interface: type[Interface], *, undeclared: bool) -> Offer:
    """Return what a module offers as a provider of an interface."""
    return Offer(
        interface,
        getattr(module, "__tool__", "") or module.__name__.rpartition(".")[2],
        getattr(module, "__confine__", Confine()),
        getattr(module, "__priority__", 0),
        getattr(module, "__version__", interface.version),
        module,
        undeclared,
    )


def wrong_export(module: ModuleType) -> str:
    """Return what is wrong with the names that a module exports; empty if nothing is."""
    exported, alias = getattr(module, "__all__", ()), getattr(module, "__func_alias__", {})
    if not isinstance(exported, (list, tuple)) or not all(isinstance(each, str) for each in exported):
        return "its __all__ must be a list of names"
    if missing := [name for name in exported if not hasattr(module, name)]:
        return f"its __all__ names {missing[0]}, which it does not have"
    if not isinstance(alias, Mapping) or not all(isinstance(each, str) for pair in alias.items() for each in pair):
        return "its __func_alias__ must be a mapping of names to names"
    return ""


def generated(module: ModuleType, name: str) -> type[Interface]:
    """Return an interface with the functions of a module, for a virtual name that only this module serves."""
    found = {each: staticmethod(function) for each, function in functions(module).public.items()}
    return type(f"Generated_{name}", (Interface,), {**found, "generated": True}, name=name)
