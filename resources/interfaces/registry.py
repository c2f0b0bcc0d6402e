"""Choice of the provider of a virtual module on a host: exactly one, or an error with the reasons.

The operator's choice comes first, then the requirements of each provider, then the priority. Providers are those of
`builtin.py`, those of installed distributions (entry-point group `holdfast.providers`: classes or modules), and those
in the operator's directory of kinds. A module is imported when its interface is first bound.
"""

from __future__ import annotations

import importlib
from importlib import metadata
from types import ModuleType
from typing import NamedTuple

from holdfast.resources.builtin import INTERFACES, PROVIDERS
from holdfast.resources.errors import RAISED, Permanent
from holdfast.resources.interfaces.base import Interface
from holdfast.resources.interfaces.binding import Bound
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Offer, Provider, register_module
from holdfast.resources.spelling import nearest

PACKAGE = "holdfast.resources"
GROUP = "holdfast.providers"


class Choice(NamedTuple):
    """The provider of an interface on one host, and the reasons against the others."""

    offer: Offer | None
    refused: dict[str, list[str]]
    """Tool -> the reasons why it does not fit."""
    why: str
    """Reason of the choice, or why there is none."""


def find(name: str) -> type[Interface] | None:
    """Return the interface of a virtual module; None if there is none."""
    if name in INTERFACES:
        module = importlib.import_module(f"{PACKAGE}.interfaces.{INTERFACES[name]}")
        return next(
            member
            for member in vars(module).values()
            if isinstance(member, type) and issubclass(member, Interface) and vars(member).get("module") == name
        )
    _load_foreign()
    return next((offer.interface for offer in Provider.registered if offer.interface.module == name), None)


def names() -> list[str]:
    """Return the names of all virtual modules, sorted."""
    _load_foreign()
    return sorted({*INTERFACES, *(offer.interface.module for offer in Provider.registered)})


def offers(interface: type[Interface]) -> dict[str, Offer]:
    """Return the providers of an interface by tool, after loading them."""
    for module in PROVIDERS.get(interface.module, ()):
        importlib.import_module(f"{PACKAGE}.providers.{module}")
    _load_foreign()
    return {offer.tool: offer for offer in Provider.registered if offer.interface.module == interface.module}


def demand(name: str) -> type[Interface]:
    """Return the interface of a virtual module. Raises `Permanent` if there is none."""
    interface = find(name)
    if interface is None:
        known = modules()
        near = nearest(name, known)
        hint = f"; did you mean {near}?" if near else f"; available: {', '.join(known)}"
        raise Permanent(f"cannot bind {name}: no provider serves such an interface{hint}")
    return interface


def modules() -> list[str]:
    """Return the names by which functions are called, sorted: virtual modules, and tools that callers name."""
    found = {name: find(name) for name in names()}
    return sorted(
        each
        for name, interface in found.items()
        if interface is not None
        for each in (offers(interface) if interface.chosen_by_name else [name])
    )


def serving(name: str) -> tuple[type[Interface], str | None]:
    """Return the interface for calls of `name.function`, and the tool that the caller names in this way.

    `name` is a virtual module, or a tool of an interface that is `chosen_by_name`. Raises `Permanent` if it is neither,
    or if it is the virtual module of such an interface.
    """
    interface = find(name)
    if interface is not None and not interface.chosen_by_name:
        return interface, None
    if interface is not None:
        raise Permanent(
            f"cannot bind {name} without a tool: write {' or '.join(sorted(offers(interface)))} in its place"
        )
    for found in map(find, names()):
        if found is not None and found.chosen_by_name and name in offers(found):
            return found, name
    return demand(name), None


def choose(
    interface: type[Interface], host: ProviderHost, override: str | None = None, *, strict: bool = True
) -> Choice:
    """Choose the provider of an interface for a host; `override` is the tool that the operator chose.

    `strict`: a module that does not say which interface it serves does not fit. Raises `Permanent` if there is no such
    tool.
    """
    known, name = offers(interface), interface.module
    if override and override not in known:
        reason = _broken.get(override) or f"there is no such provider; available: {', '.join(sorted(known))}"
        raise Permanent(f"cannot bind {name} to {override}: {reason}")
    refused = {tool: [why] for tool, why in _broken.items() if tool not in known}
    refused |= {tool: why for tool, offer in known.items() if (why := offer.refusals(host, strict=strict))}
    if override:
        return Choice(known[override], refused, f"`providers: {{{name}: {override}}}` chooses it")
    fit = [offer for tool, offer in known.items() if tool not in refused]
    return _best(name, fit, refused)


def _best(name: str, fit: list[Offer], refused: dict[str, list[str]]) -> Choice:
    """Choose the provider with the highest priority of those that fit."""
    if not fit:
        reasons = "; ".join(f"{tool}: {', '.join(why)}" for tool, why in sorted(refused.items()))
        return Choice(None, refused, f"cannot manage {name}: no provider works on this host ({reasons})")
    highest = max(offer.priority for offer in fit)
    best = sorted((offer for offer in fit if offer.priority == highest), key=lambda offer: offer.tool)
    if len(best) > 1:
        why = (
            f"cannot bind {name}: {' and '.join(offer.tool for offer in best)} fit equally well; choose one in "
            f"agent.yaml, `providers: {{{name}: {best[0].tool}}}`"
        )
        return Choice(None, refused, why)
    why = (
        "it is the only one that fits" if len(fit) == 1 else f"of those that fit it has the highest priority, {highest}"
    )
    return Choice(best[0], refused, why)


def bind(
    interface: type[Interface],
    host: ProviderHost,
    override: str | None = None,
    *,
    tool: str | None = None,
    strict: bool = True,
) -> Bound:
    """Return the virtual module on this host. `override` is the tool that the operator chose.

    `tool` is the one that the caller names, for interfaces that are `chosen_by_name`. Raises `Permanent` if there is no
    such tool, if none fits (with the reason of each refusal), or if several fit equally well. Raises the errors of
    `Bound` if the chosen provider violates its interface.
    """
    if interface.chosen_by_name:
        return Bound(choose_named(interface, host, tool, strict=strict), host, strict=strict)
    choice = choose(interface, host, override, strict=strict)
    if choice.offer is None:
        raise Permanent(choice.why)
    return Bound(choice.offer, host, strict=strict)


def choose_named(interface: type[Interface], host: ProviderHost, tool: str | None, *, strict: bool = True) -> Offer:
    """Return the provider that the caller names. Raises `Permanent` if there is none, or if it does not fit."""
    known = offers(interface)
    if tool not in known:
        raise Permanent(f"cannot bind {interface.module} to {tool}: there is no such provider; available: "
                        f"{', '.join(sorted(known))}")  # fmt: skip
    if why := known[tool].refusals(host, strict=strict):
        raise Permanent(f"cannot use {tool} here: {', '.join(why)}")
    return known[tool]


def _load_foreign() -> None:
    """Load the providers of other distributions, once. One that cannot be loaded is refused with the reason."""
    if not _loaded:
        _loaded.add(GROUP)
        for point in metadata.entry_points(group=GROUP):
            try:
                loaded = point.load()
                if isinstance(loaded, ModuleType):
                    register_module(loaded, find)
            except RAISED as error:  # the code of another distribution may raise anything
                _broken[point.name] = f"{point.value} cannot be loaded: {type(error).__name__}: {error}"


_loaded: set[str] = set()
_broken: dict[str, str] = {}
"""Name of an entry point -> the reason why it cannot be loaded. The other providers can be used."""
