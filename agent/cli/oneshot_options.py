"""The options that `apply` and `plan` share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from holdfast.agent.cli.arguments import completed, on_states
from holdfast.agent.cli.options import SECONDS, ConfigurationSource, Function
from holdfast.states.gc_pause import gc_deferred

_timeout = click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Give up after this time (exit code 4).")
_verbose = click.option(
    "-v", "--verbose", is_flag=True, help="Also show resources that are as declared or have no reason to run."
)
_quiet = click.option(
    "-q", "--quiet", is_flag=True, help="Show only failures and the summary: no changes and no warnings."
)
_only = click.option(
    "--only",
    multiple=True,
    metavar="RESOURCE",
    shell_complete=completed("resources"),
    help="Restrict the run to this resource (identity, ID, name, or pattern with * and ?) and all that it requires; "
    "may be repeated.",
)
_anyway = click.option(
    "--anyway", is_flag=True, help="Continue although a running agent manages other states on this host."
)


class OneShotOptions(NamedTuple):
    """The arguments of a verb."""

    sls: tuple[str, ...]
    source: ConfigurationSource
    form: str
    timeout: float | None
    verbose: bool
    quiet: bool
    only: tuple[str, ...]
    anyway: bool
    output: Path | None = None
    detailed: bool = False
    """Whether the exit code says that something was changed."""


def one_shot(*forms: str) -> Callable[[Function], Function]:
    """Return a verb that converges once, with these output formats."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(**given: Any) -> None:
            with gc_deferred():  # from the imports on
                function(OneShotOptions(**given))

        return on_states(*forms)(_timeout(_only(_anyway(_quiet(_verbose(wrapper))))))

    return decorate
