"""The output of `interface check`: a provider compared with the interface that it serves."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from holdfast.agent import facts
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import ConfigurationSource, print_json
from holdfast.agent.cli.terminal import Paper
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.resources.errors import RAISED, HoldfastError
from holdfast.resources.interfaces import registry
from holdfast.resources.interfaces.base import Interface
from holdfast.resources.interfaces.binding import VIOLATIONS
from holdfast.resources.interfaces.decisions import decide
from holdfast.resources.interfaces.provider import (
    CHECKED,
    Functions,
    Offer,
    Provider,
    functions,
    mistake,
    offer_of,
    wrong_export,
)
from holdfast.resources.interfaces.rows import Described
from holdfast.resources.interfaces.signatures import text

Facts = dict[str, Any]


def show(path: Path, name: str, source: ConfigurationSource, form: str) -> None:
    """Compare the provider in a file with an interface; exit with code 1 if a strict binding would refuse it.

    Raises `UsageError` if there is no such interface or the file cannot be imported.
    """
    settings = source.settings()
    ConfigurationCompiler().load_kinds(settings.resources)
    try:
        interface = registry.demand(name)
    except HoldfastError as error:
        raise click.UsageError(str(error)) from None
    given = source.facts(settings)
    found = compared(path, interface, facts.gather(settings) if given is None else given)
    if form == "json":
        print_json(found)
    else:
        click.echo("\n".join(_page(found, Paper.stdout())))
    if found["refused"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


def compared(path: Path, interface: type[Interface], grains: Mapping[str, Any]) -> Facts:
    """Return the comparison, ready for JSON; `refused` are the reasons of a strict binding against the provider.

    Raises `UsageError` if the file cannot be imported, or exports what it does not have.
    """
    offer, provided = _offered(path, interface)
    promised = interface.functions()
    entries = decide(offer, provided, grains)
    refused = [f"{entry.function}: {_why(entry)}" for entry in entries.values() if entry.row.number in VIOLATIONS]
    if offer.undeclared:
        refused.insert(0, f"it does not declare `__interface__ = {interface.__name__}`")
    refused[:0] = filter(None, (_taken(path, offer), mistake(offer)))
    if not interface.version - 1 <= offer.targets <= interface.version:
        refused.insert(0, f"it was written for version {offer.targets}, the interface is at {interface.version}")
    return {
        "interface": interface.module,
        "version": interface.version,
        "tool": offer.tool,
        "refused": refused,
        "missing": sorted(entry.function for entry in entries.values() if entry.row.number in (2, 5, 10, 15, 18)),
        "functions": [_row(entry, promised, provided) for _, entry in sorted(entries.items())],
    }


def _taken(path: Path, offer: Offer) -> str:
    """Return why the agent would not register the provider: another file has one for this tool. Empty if none has."""
    known = registry.offers(offer.interface).get(offer.tool)
    if known is None or path.resolve() == Path(sys.modules[known.home].__file__ or "").resolve():
        return ""
    return f"{known.home} is the provider for the tool {offer.tool!r} already: set `__tool__`, or rename the file"


def _row(entry: Described, promised: Mapping[str, Callable[..., Any]], provided: Functions) -> Facts:
    own = provided.public.get(entry.function) or provided.physical.get(entry.function)
    return {
        "function": entry.function,
        "row": entry.row.number,
        "state": entry.row.state,
        "why": _why(entry),
        "interface": text(promised[entry.function]) if entry.function in promised else None,
        "provider": None if own is None else text(own),
    }


def _why(entry: Described) -> str:
    """Return the reason of a row; the signatures in it are shown apart."""
    return entry.why.partition("; the interface says")[0]


def _offered(path: Path, interface: type[Interface]) -> tuple[Offer, Functions]:
    """Return the provider of an interface in a file: a class for it, or else the module's own functions."""
    module = _imported(path)
    for member in vars(module).values():
        if _serves(member, module, interface):
            targets = member.targets or interface.version
            offer = Offer(interface, member.tool, member.confine, member.priority, targets, member)
            return offer, functions(object.__new__(member))  # its constructor would need a host
    if why := wrong_export(module):
        raise click.UsageError(f"cannot use {path}: {why}")
    undeclared = getattr(module, "__interface__", None) is not interface
    return offer_of(module, interface, undeclared=undeclared), functions(module)


def _serves(member: Any, module: ModuleType, interface: type[Interface]) -> bool:
    """Return whether a member of a module is a provider of an interface that this module declares."""
    if not inspect.isclass(member) or member.__module__ != module.__name__ or not issubclass(member, Provider):
        return False
    return not member.abstract and member.implements.module == interface.module


def _imported(path: Path) -> ModuleType:
    """Import a file. The providers in it are not registered: another file may declare the same tool."""
    spec = importlib.util.spec_from_file_location(f"{CHECKED}{path.stem}", path)
    assert spec is not None  # noqa: S101 - a path that ends with .py has a loader
    assert spec.loader is not None  # noqa: S101 - the same
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    registered, Provider.registered = Provider.registered, []
    try:
        spec.loader.exec_module(module)
    except RAISED as error:  # the file may do anything when it is imported
        raise click.UsageError(f"cannot import {path}: {type(error).__name__}: {error}") from error
    finally:
        Provider.registered = registered
    return module


def _page(found: Facts, paper: Paper) -> Iterator[str]:
    """Yield the lines of a comparison."""
    yield from paper.lines(f"{found['tool']} for {found['interface']}, version {found['version']}")
    yield ""
    for each in found["functions"]:
        why = f": {each['why']}" if each["why"] else ""
        yield from paper.lines(f"row {each['row']:<2} {each['state']:<15} {paper.bold(each['function'])}{why}")
        if each["interface"] != each["provider"]:
            for side in ("interface", "provider"):
                yield from (f"    {line}" for line in paper.lines(f"{side:<9}  {each[side] or 'nothing'}", 4))
    yield ""
    if found["missing"]:
        yield from paper.lines(f"missing: {', '.join(found['missing'])}")
    yield from (line for why in found["refused"] for line in paper.lines(f"refused: {why}"))
    if not found["refused"]:
        yield "accepted"
