"""Choice of the provider of a virtual module on a host: exactly one, or an error with the reasons.

The operator's choice comes first, then the requirements of each provider, then the priority. Providers are the modules
of `resources/providers/` and those of installed distributions (entry-point group `holdfast.providers`).
"""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from holdfast.resources.context import PATH
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.base import Confine, Provider, ProviderHost, matches
from holdfast.resources.interfaces.binding import Bound
from holdfast.resources.spelling import nearest

PACKAGE = "holdfast.resources.providers"
GROUP = "holdfast.providers"


def bind(name: str, host: ProviderHost, override: str | None = None, *, strict: bool = True) -> Bound:
    """Return the virtual module `name` on this host; `override` is the tool that the operator chose.

    Raises `Permanent` if there is no such module or tool, if no provider fits (with the reason of each refusal), or if
    several fit equally well; and the errors of `Bound` if the chosen provider violates its interface.
    """
    known = {provider.tool: provider for provider in providers() if provider.implements.module == name}
    if not known:
        modules = {provider.implements.module for provider in Provider.registered}
        near = nearest(name, modules)
        raise Permanent(
            f"cannot bind {name}: no provider serves such an interface" + (f", did you mean {near}?" if near else "")
        )
    chosen = _named(name, override, known) if override else _fitting(name, host, known)
    return Bound(chosen.implements, chosen(host), strict=strict)


def providers() -> list[type[Provider]]:
    """Return all providers, after loading them if necessary."""
    if not _loaded:
        for module in pkgutil.iter_modules(importlib.import_module(PACKAGE).__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{PACKAGE}.{module.name}")
        for point in metadata.entry_points(group=GROUP):
            point.load()
        _loaded.add(PACKAGE)
    return list(Provider.registered)


def refusals(confine: Confine, host: ProviderHost) -> Iterator[str]:
    """Yield the reasons why a provider does not fit a host."""
    for grain, values in confine.grains.items():
        if not matches({grain: values}, host.facts):
            yield f"{grain} is {host.facts.get(grain, 'unknown')}, not {' or '.join(values)}"
    for command in confine.commands:
        if shutil.which(command, path=PATH) is None:
            yield f"there is no command {command}"
    for path in confine.paths:
        if not Path(path).exists():
            yield confine.missing or f"there is no {path}"


def _named(name: str, tool: str, known: dict[str, type[Provider]]) -> type[Provider]:
    if tool not in known:
        raise Permanent(
            f"cannot bind {name} to {tool}: there is no such provider; available: {', '.join(sorted(known))}"
        )
    return known[tool]


def _fitting(name: str, host: ProviderHost, known: dict[str, type[Provider]]) -> type[Provider]:
    refused = {tool: list(refusals(provider.confine, host)) for tool, provider in known.items()}
    fit = sorted(
        (provider for tool, provider in known.items() if not refused[tool]), key=lambda provider: -provider.priority
    )
    if not fit:
        reasons = "; ".join(f"{tool}: {', '.join(why)}" for tool, why in sorted(refused.items()))
        raise Permanent(f"cannot manage {name}: no provider works on this host ({reasons})")
    best = [provider.tool for provider in fit if provider.priority == fit[0].priority]
    if len(best) > 1:
        raise Permanent(
            f"cannot bind {name}: {' and '.join(sorted(best))} fit equally well; choose one in agent.yaml, "
            f"`providers: {{{name}: {best[0]}}}`"
        )
    return fit[0]


_loaded: set[str] = set()
