"""Arguments and options that several verbs share: resources, names of SLS, what to show, where to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import click

from holdfast.agent.cli.options import MOMENT, Function, output, reports_problems, source
from holdfast.agent.engine.model.outcome import Cause

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


def of_resource(what: str) -> Callable[[Function], Function]:
    """Add an option that selects what concerns a resource; `what` is shown, as in "lines"."""
    return click.option(
        "--resource",
        metavar="KIND[ID]",
        default="",
        shell_complete=completed("resources"),
        help=f"Show only {what} of this resource, or of all that match a pattern.",
    )


def since(what: str) -> Callable[[Function], Function]:
    """Add an option for the time after which `what` is shown, as in "lines after this time"."""
    return click.option("--since", type=MOMENT, metavar="TIME", help=f"Show only {what}: 2h (before now), or 20:15.")


def of_cause(what: str) -> Callable[[Function], Function]:
    """Add an option that selects what has a cause; `what` is shown."""
    return _one_of("cause", get_args(Cause), what)


def of_origin(what: str, origins: tuple[str, ...]) -> Callable[[Function], Function]:
    """Add an option that selects what has an origin; `what` is shown."""
    return _one_of("origin", origins, what)


def _one_of(name: str, choices: tuple[str, ...], what: str) -> Callable[[Function], Function]:
    words = f"Show only {what} with this {name}: {', '.join(choices)}."
    return click.option(f"--{name}", type=click.Choice(choices), metavar=name.upper(), help=words)


def output_file(how: str) -> Callable[[Function], Function]:
    """Add an option for a file to write, instead of stdout; `how` says how, as in "to this file"."""
    return click.option(
        "-o",
        "--output",
        "path",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Write {how} instead of stdout.",
    )


def completed(what: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return the shell completion of an argument, by the completer with this name."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        return completers[what](ctx, incomplete)

    return complete
