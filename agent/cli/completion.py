"""Values that the shell completes: resources of the running agent, kinds, names of SLS. Errors are never shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import click

from holdfast.agent.cli.arguments import Completer, completers
from holdfast.agent.cli.options import ConfigurationSource
from holdfast.agent.control.client import ask
from holdfast.agent.verbs.status import Status
from holdfast.resources.errors import HoldfastError
from holdfast.states.errors import CompileError

TIMEOUT = 2.0
"""Seconds that an agent may take to list its resources."""


def completer(find: Callable[[ConfigurationSource, str], Iterator[str]]) -> Completer:
    """Register a completer of words that start with the incomplete one and that a shell can take; none on errors."""

    def complete(ctx: click.Context, incomplete: str) -> list[str]:
        given: dict[str, Any] = {
            name: ctx.params.get(name) for name in ("config", "states", "state_dir", "environment")
        }
        try:
            words = list(find(ConfigurationSource(**given), incomplete))
        except (HoldfastError, OSError):
            return []
        return [word for word in dict.fromkeys(words) if word.startswith(incomplete) and word.isprintable()]

    completers[find.__name__] = complete
    return complete


@completer
def resources(source: ConfigurationSource, incomplete: str) -> Iterator[str]:
    """Yield IDs; identities where several resources share the ID. Once a word has begun, all identities as well."""
    rows = ask(source.view(), Status(), TIMEOUT)["resources"]
    times = Counter(row["id"] for row in rows)
    for row in rows:
        if times[row["id"]] == 1:
            yield row["id"]
        if incomplete or times[row["id"]] > 1:
            yield row["identity"]


@completer
def kinds(source: ConfigurationSource, _: str) -> Iterator[str]:
    """Yield kinds, the operator's included, their families, `all` and `codes`."""
    from holdfast.agent.configuration import ConfigurationCompiler
    from holdfast.resources import registry

    with suppress(CompileError):  # built-in kinds are available in any case
        ConfigurationCompiler().load_readable_kinds(source.kinds())
    yield from ("all", "codes")
    yield from sorted({*registry.families(), *registry.names()})


@completer
def functions(source: ConfigurationSource, incomplete: str) -> Iterator[str]:
    """Yield virtual modules with a dot; once the dot is there, their functions. Packages have functions as well."""
    from holdfast.resources.interfaces import registry

    module, dot = incomplete.partition(".")[:2]
    if not dot:
        yield from (f"{name}." for name in (*registry.names(), *_modules_of_packages(source)))
    elif (interface := registry.find(module)) is not None:
        yield from (f"{module}.{function}" for function in interface.functions())
    else:
        yield from _functions_of_packages(source)


@completer
def interfaces(_: ConfigurationSource, __: str) -> Iterator[str]:
    """Yield virtual modules."""
    from holdfast.resources.interfaces import registry

    yield from registry.names()


@completer
def described(source: ConfigurationSource, _: str) -> Iterator[str]:
    """Yield virtual modules, and the modules of packages that have functions."""
    from holdfast.resources.interfaces import registry

    yield from (*registry.names(), *_modules_of_packages(source))


def _modules_of_packages(source: ConfigurationSource) -> Iterator[str]:
    yield from dict.fromkeys(name.partition(".")[0] for name in _functions_of_packages(source))


def _functions_of_packages(source: ConfigurationSource) -> Iterator[str]:
    """Yield the functions of the packages that the settings name."""
    from holdfast.agent.configuration import ConfigurationCompiler

    compiler = ConfigurationCompiler()
    with suppress(CompileError):  # those of interfaces are available in any case
        compiler.load_readable_kinds(source.kinds())
        for plugin in compiler.plugins.values():
            yield from plugin.schema.called


@completer
def sls(source: ConfigurationSource, _: str) -> Iterator[str]:
    """Yield the names of SLS, which apply when there is no top file."""
    from holdfast.states.source.files import Tree

    yield from (name for name in Tree(source.settings().states).public() if name != "top")
