"""The output of `describe`: interfaces, their functions, and their providers on this host."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import click

from holdfast.agent.cli import package_reference
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
from holdfast.resources.interfaces.binding import Bound
from holdfast.resources.interfaces.rows import Described
from holdfast.resources.spelling import nearest

Facts = dict[str, Any]
Choice = tuple[str | None, str, Mapping[str, Sequence[str]]]
"""Chosen provider, reason of the choice, and tool -> reasons against it."""
COMMON = re.compile(r"(, )?(\*, )?test: bool = False, options: Options = None")
"""Parameters of all functions that change something."""
UNKNOWN = "unknown"
"""State of functions while no provider is bound."""


def show(name: str | None, source: ConfigurationSource, form: str) -> None:
    """Print one interface, package or function, or all of them; exit with code 1 if no provider works here for it.

    Raises `CompileError` for settings that cannot be used, and `UsageError` if there is no such interface or function.
    """
    settings = source.settings()
    compiler = ConfigurationCompiler()
    compiler.load(settings)
    module, _, function = (name or "").partition(".")
    packages = package_reference.modules(compiler.plugins.values())
    if module in packages:
        package_reference.show(packages[module], function, form)
        return
    try:
        served = {each: registry.serving(each) for each in ([module] if name else registry.modules())}
    except HoldfastError as error:
        raise click.UsageError(str(error)) from None
    with quiet(settings, "error"):
        found = asyncio.run(_described(served, settings, source.facts(settings)))
    paper, shown = Paper.stdout(), found[0]
    if function:
        shown = _one(function, found[0])
        lines = _function_page(shown, paper)
    elif name:
        lines = _page(shown, paper)
    else:
        lines = itertools.chain(_list(found, paper), package_reference.listed(packages, paper))
    if form == "json":
        print_json(shown if name else [*found, *(each.facts() for each in packages.values())])
    else:
        click.echo("\n".join(lines))
    if name and found[0]["error"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _one(name: str, facts: Facts) -> Facts:
    """Return what is known about one function, also by a former name. Raises `UsageError` if there is none."""
    functions = {each["function"]: each for each in facts["functions"]}
    former = {old: each for each in facts["functions"] for old in each["replaces"]}
    found = functions.get(name) or former.get(name)
    if found is None:
        near = nearest(name, functions)
        hint = f"; did you mean {near}?" if near else f"; `holdfast describe {facts['module']}` lists them"
        raise click.UsageError(f"there is no function {facts['module']}.{name}{hint}")
    return {"module": facts["module"], "provider": facts["provider"], "error": facts["error"], **found}


async def _described(
    served: Mapping[str, tuple[type[Interface], str | None]], settings: Settings, grains: Mapping[str, Any] | None
) -> list[Facts]:
    async with local_host(settings, grains) as host:
        return [_facts(name, interface, tool, host, settings) for name, (interface, tool) in served.items()]


def _facts(name: str, interface: type[Interface], tool: str | None, host: LocalHost, settings: Settings) -> Facts:
    """Return all that is known about one module, ready for JSON."""
    found: Choice = (tool, "callers choose it by its name", {})
    error, bound = "", None
    try:
        if tool is None:
            found = _choice(interface, host, settings)
        bound = host.interfaces.get(interface, tool)
    except HoldfastError as failed:
        error = str(failed)
    provider, why, refused = found
    return {
        "module": name,
        "interface": interface.module,
        "version": interface.version,
        "about": _first_line(interface),
        "provider": provider,
        "why": why,
        "refused": {other: list(reasons) for other, reasons in sorted(refused.items()) if other != provider},
        "error": error,
        "functions": list(_declared(interface) if bound is None else _bound(cast("Bound", bound))),
    }


def _choice(interface: type[Interface], host: LocalHost, settings: Settings) -> Choice:
    """Return the chosen provider, why, and what is to say about each provider."""
    override, strict = settings.providers.get(interface.module), settings.interfaces == "strict"
    choice = registry.choose(interface, host.context(f"interface[{interface.module}]"), override, strict=strict)
    fit = {tool: [f"it fits, with priority {offer.priority}"] for tool, offer in registry.offers(interface).items()}
    return choice.offer.tool if choice.offer else None, choice.why, {**fit, **choice.refused}


def _declared(interface: type[Interface]) -> Iterator[Facts]:
    """Yield the functions of an interface that no provider serves here."""
    for name, declaration in sorted(interface.functions().items()):
        changing = changes(declaration, promised=not interface.generated)
        yield _function(name, declaration, changing, None)


def _bound(bound: Bound) -> Iterator[Facts]:
    """Yield the functions of an interface with its provider, which may have more."""
    for entry in bound.describe():
        name, declaration = entry.function, bound.declaration(entry.function)
        changing = declaration is not None and bound.changes(name)
        yield _function(name, declaration, changing, entry)


def _function(name: str, declaration: Any, changing: bool, entry: Described | None) -> Facts:
    return {
        "function": name,
        "signature": signatures.text(declaration) if declaration else "",
        "returns": signatures.returned(declaration) if declaration else "",
        "about": _first_line(declaration),
        "documentation": inspect.getdoc(declaration) or "",
        "changes": changing,
        "replaces": list(getattr(declaration, "_replaces", ())),
        "state": entry.row.state if entry else UNKNOWN,
        "row": entry.row.number if entry else None,
        "why": entry.why if entry else "",
    }


def _first_line(declared: Any) -> str:
    return (inspect.getdoc(declared) or "").partition("\n")[0]


def _function_page(facts: Facts, paper: Paper) -> Iterator[str]:
    """Yield the lines about one function: signature, what a call does here, documentation."""
    returns = f" -> {facts['returns']}" if facts["returns"] else ""
    yield from map(paper.bold, paper.lines(f"{facts['module']}.{facts['function']}{facts['signature']}{returns}"))
    yield ""
    why = f": {facts['why']}" if facts["why"] else ""
    served = f"by {facts['provider']} " if facts["provider"] else ""
    yield from paper.lines(facts["error"] or f"{facts['state']} {served}".rstrip() + why)
    yield from paper.lines("It may change something." if facts["changes"] else "It changes nothing.")
    if facts["replaces"]:
        yield from paper.lines(f"Former names: {', '.join(facts['replaces'])}")
    for paragraph in filter(None, facts["documentation"].split("\n\n")):
        yield ""
        yield from paper.lines(" ".join(paragraph.split()))


def _list(modules: list[Facts], paper: Paper) -> Iterator[str]:
    """Yield one line for each module."""
    width = max(len(each["module"]) for each in modules)
    for each in modules:
        first, *rest = paper.lines(_line(each), width + 2)
        yield f"{paper.bold(each['module'].ljust(width))}  {first}"
        yield from (f"{'':{width}}  {line}" for line in rest)


def _line(facts: Facts) -> str:
    """Return in one sentence which tool serves a module."""
    if (error := _briefly(facts)) != facts["error"]:
        return f"{error}; `holdfast describe {facts['module']}` says why"
    if facts["module"] == facts["provider"]:
        return facts["error"] or f"a tool of the interface {facts['interface']}, which callers choose by its name"
    return facts["error"] or f"{facts['provider']}: {facts['why']}"


def _briefly(facts: Facts) -> str:
    """Return the error; if no provider works, without the reasons of each, which the page lists one by one."""
    error: str = facts["error"]
    return error if facts["provider"] else error.partition(" (")[0]


def _page(facts: Facts, paper: Paper) -> Iterator[str]:
    """Yield the lines about one module: provider, the others, functions."""
    yield from paper.lines(f"{facts['module']}, version {facts['version']}: {facts['about']}")
    yield ""
    if facts["error"]:
        yield from paper.lines(_briefly(facts))
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
