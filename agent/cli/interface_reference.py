"""The output of `describe`: interfaces, their functions, and their providers on this host."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import ConfigurationSource, print_json
from holdfast.agent.cli.terminal import Paper
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.host.host import LocalHost
from holdfast.agent.local_calls import local_host, quiet
from holdfast.agent.settings import Settings
from holdfast.resources.errors import HoldfastError
from holdfast.resources.interfaces import registry, signatures
from holdfast.resources.interfaces.base import Interface, changes

Facts = dict[str, Any]
COMMON = re.compile(r"(, )?(\*, )?test: bool = False, options: Options = None")
"""Parameters of all functions that change something."""
UNKNOWN = "unknown"
"""State of functions while no provider is bound."""


def show(module: str | None, source: ConfigurationSource, form: str) -> None:
    """Print one interface, or all; exit with code 1 if no provider of that one works here.

    Raises `CompileError` for settings that cannot be used, and `UsageError` if there is no such interface.
    """
    settings = source.settings()
    ConfigurationCompiler().load_kinds(settings.resources)
    if module and "." in module:
        whole = module.partition(".")[0]
        raise click.UsageError(f"{module!r} names a function: `holdfast describe {whole}` describes those of {whole}")
    try:
        served = {name: registry.serving(name) for name in ([module] if module else registry.modules())}
    except HoldfastError as error:
        raise click.UsageError(str(error)) from None
    with quiet(settings, "error"):
        found = asyncio.run(_described(served, settings, source.facts(settings)))
    if form == "json":
        print_json(found[0] if module else found)
    else:
        click.echo("\n".join(_page(found[0], Paper.stdout()) if module else _list(found, Paper.stdout())))
    if module and found[0]["error"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


async def _described(
    served: Mapping[str, tuple[type[Interface], str | None]], settings: Settings, grains: Mapping[str, Any] | None
) -> list[Facts]:
    async with local_host(settings, grains) as host:
        return [_facts(name, interface, tool, host, settings) for name, (interface, tool) in served.items()]


def _facts(name: str, interface: type[Interface], tool: str | None, host: LocalHost, settings: Settings) -> Facts:
    """Return all that is known about one module, ready for JSON."""
    refused: Mapping[str, Sequence[str]] = {}
    provider, why, error, states = tool, "callers choose it by its name", "", {}
    try:
        if tool is None:
            override, strict = settings.providers.get(name), settings.interfaces == "strict"
            choice = registry.choose(interface, host.context(f"interface[{name}]"), override, strict=strict)
            why, provider = choice.why, choice.offer.tool if choice.offer else None
            fit = {
                each: [f"it fits, with priority {offer.priority}"] for each, offer in registry.offers(interface).items()
            }
            refused = {**fit, **choice.refused}
        bound: Any = host.interfaces.get(interface, tool)
        states = {entry.function: entry for entry in bound.describe()}
        declarations = {function: bound.declaration(function) for function in states}
    except HoldfastError as failed:
        error = str(failed)
        declarations = dict(interface.functions())
    return {
        "module": name,
        "interface": interface.module,
        "version": interface.version,
        "about": _first_line(interface),
        "provider": provider,
        "why": why,
        "refused": {other: list(reasons) for other, reasons in sorted(refused.items()) if other != provider},
        "error": error,
        "functions": [
            {
                "function": function,
                "signature": signatures.text(declaration) if declaration else "",
                "about": _first_line(declaration),
                "changes": declaration is not None and (bound.changes(function) if states else changes(declaration)),
                "state": states[function].row.state if function in states else UNKNOWN,
                "row": states[function].row.number if function in states else None,
                "why": states[function].why if function in states else "",
            }
            for function, declaration in sorted(declarations.items())
        ],
    }


def _first_line(declared: Any) -> str:
    return (inspect.getdoc(declared) or "").partition("\n")[0]


def _list(modules: list[Facts], paper: Paper) -> Iterator[str]:
    """Yield one line for each module."""
    width = max(len(each["module"]) for each in modules)
    for each in modules:
        said = each["error"] or f"{each['provider']}: {each['why']}"
        first, *rest = paper.lines(said, width + 2)
        yield f"{paper.bold(each['module'].ljust(width))}  {first}"
        yield from (f"{'':{width}}  {line}" for line in rest)


def _page(facts: Facts, paper: Paper) -> Iterator[str]:
    """Yield the lines about one module: provider, the others, functions."""
    yield from paper.lines(f"{facts['module']}, version {facts['version']}: {facts['about']}")
    yield ""
    if facts["error"]:
        yield from paper.lines(facts["error"])
    else:
        yield from paper.lines(f"provider {facts['provider']}: {facts['why']}")
    for tool, reasons in facts["refused"].items():
        yield from paper.lines(f"not {tool}: {', '.join(reasons)}")
    yield ""
    for each in facts["functions"]:
        head, *rest = paper.lines(
            f"{each['function']}{'*' if each['changes'] else ''}{COMMON.sub('', each['signature'])}"
        )
        yield paper.bold(head)
        yield from (f"    {line}" for line in rest)
        why = f", {each['why']}" if each["why"] else ""
        yield from (f"    {line}" for line in paper.lines(f"{each['state']}{why}. {each['about']}", 4))
    if any(each["changes"] for each in facts["functions"]):
        yield ""
        yield from paper.lines("Functions with * change something. Those of the interface also take test and options.")
