"""`describe`: interfaces, their functions and their providers on this host; the functions of packages."""

from __future__ import annotations

import click

from holdfast.agent.cli.arguments import completed
from holdfast.agent.cli.options import ConfigurationSource, output, reports_problems, source
from holdfast.agent.verbs import REFERENCE, verb


@verb(REFERENCE)
@click.command()
@click.argument("name", metavar="[MODULE|MODULE.FUNCTION]", required=False, shell_complete=completed("described"))
@source("config", "state_dir", "grains", "id")
@output("text", "json")
@reports_problems
def describe(name: str | None, source: ConfigurationSource, form: str) -> None:
    """Show the functions of an interface, and what a call of each does on this host.

    Without MODULE, all interfaces are listed with their provider here. MODULE is an interface (`pkg`), or a tool that
    callers choose by name (`pip`). For each function, the state and the reason are shown; for the provider, why it was
    chosen, and why the others were not. MODULE.FUNCTION (`pkg.install`) is one function, with its whole documentation.

    A package that the settings name is a module as well (`notes`), and so are its folders (`aws-ec2`).

    Exit code 1: no provider of this interface works on this host.
    """
    from holdfast.agent.cli import interface_reference

    interface_reference.show(name, source, form)
