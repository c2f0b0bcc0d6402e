"""The output of `describe` for the functions of packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.kinds_reference import arguments
from holdfast.agent.cli.options import print_json
from holdfast.agent.cli.terminal import Paper
from holdfast.agent.model.model import plain
from holdfast.agent.model.package import FunctionModel, Package
from holdfast.agent.phrases import number_of
from holdfast.resources.spelling import nearest

if TYPE_CHECKING:
    from holdfast.agent.plugins.declared import DeclaredPlugin

Facts = dict[str, Any]


@dataclass
class PackageModule:
    """The functions of one package whose names begin alike: `aws-ec2.snapshot`."""

    name: str
    package: Package
    functions: dict[str, FunctionModel] = field(default_factory=dict)

    def facts(self) -> Facts:
        """Return everything about the functions, ready for JSON."""
        return {
            "module": self.name,
            "package": self.package.name,
            "version": self.package.version,
            "about": self.package.docs.summary,
            "functions": [{"function": name, **plain(each)} for name, each in sorted(self.functions.items())],
        }


def modules(plugins: Iterable[DeclaredPlugin]) -> Mapping[str, PackageModule]:
    """Return the modules of packages that have functions, by name."""
    found: dict[str, PackageModule] = {}
    for plugin in plugins:
        for called, token in plugin.schema.called.items():
            name, _, function = called.partition(".")
            module = found.setdefault(name, PackageModule(name, plugin.schema.package))
            module.functions[function] = plugin.schema.functions[token]
    return found


def show(module: PackageModule, name: str, form: str) -> None:
    """Print one function of a module, or all of them. Raises `UsageError` if there is no such function."""
    if name and name not in module.functions:
        near = nearest(name, module.functions)
        hint = f"did you mean {near}?" if near else f"available: {', '.join(sorted(module.functions))}"
        raise click.UsageError(f"there is no function {module.name}.{name}; {hint}")
    if form == "json":
        facts = module.facts()
        print_json(next(each for each in facts["functions"] if each["function"] == name) if name else facts)
        return
    paper = Paper.stdout()
    lines = _function(f"{module.name}.{name}", module.functions[name], paper) if name else _page(module, paper)
    click.echo("\n".join(lines))


def listed(packages: Mapping[str, PackageModule], paper: Paper) -> Iterator[str]:
    """Yield one line for each module."""
    for name, each in packages.items():
        many = number_of(len(each.functions), "function")
        yield from paper.lines(f"{paper.bold(name)}  {many} of the package {each.package.name} {each.package.version}")


def _page(module: PackageModule, paper: Paper) -> Iterator[str]:
    about = f": {module.package.docs.summary}" if module.package.docs.summary else ""
    yield from paper.lines(f"{module.name}, package {module.package.name} {module.package.version}{about}")
    for name, each in sorted(module.functions.items()):
        yield ""
        yield paper.bold(f"{name}({', '.join(field.name for field in each.parameters)})")
        yield from (f"    {line}" for line in paper.lines(each.docs.summary, 4))


def _function(name: str, function: FunctionModel, paper: Paper) -> Iterator[str]:
    yield paper.bold(name)
    for paragraph in filter(None, (function.docs.summary, *function.docs.text)):
        yield ""
        yield from paper.lines(paragraph)
    if function.deprecated:
        yield from ("", *paper.lines(f"Deprecated: {function.deprecated}"))
    for title, fields in (("Arguments:", function.parameters), ("Result:", function.results)):
        if fields:
            yield from ("", title, *arguments(fields, paper, remote=True))
