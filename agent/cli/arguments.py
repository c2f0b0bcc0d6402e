"""Arguments and options whose values the shell completes: resources, names of SLS, kinds."""

from __future__ import annotations

from collections.abc import Callable

import click

from holdfast.agent.cli.options import Function, output, reports_problems, source

Completer = Callable[[click.Context, str], list[str]]
"""Called with click's context and the incomplete word."""
completers: dict[str, Completer] = {}
"""Name -> completer. `completion` registers them; it is imported only to complete a command line."""


def on_states(*forms: str) -> Callable[[Function], Function]:
    """Make a verb take names of SLS, the options of the source, and the output format; errors end it with code 3."""

    def decorate(function: Function) -> Function:
        options = source("config", "states", "pillar", "state_dir", "grains", "id", "environment", "lenient")
        return click.argument("sls", nargs=-1, shell_complete=completed("sls"))(
            options(output(*forms)(reports_problems(function)))
        )

    return decorate


def resource(function: Function) -> Function:
    """Add an argument for one resource, given by identity, ID or name; the shell completes it from the agent."""
    return click.argument("identity", metavar="KIND[ID]", shell_complete=completed("resources"))(function)


def resources(function: Function) -> Function:
    """Add an argument for any number of resources or patterns."""
    return click.argument("patterns", metavar="[KIND[ID]|PATTERN]...", nargs=-1, shell_complete=completed("resources"))(
        function
    )


def completed(what: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return the shell completion of an argument, by the completer with this name."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        return completers[what](ctx, incomplete)

    return complete
