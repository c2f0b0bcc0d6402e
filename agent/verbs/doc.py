"""`doc`: the kinds and their arguments."""

from __future__ import annotations

import click

from holdfast.agent.cli.arguments import completed
from holdfast.agent.cli.options import ConfigurationSource, output, reports_problems, source
from holdfast.agent.verbs import REFERENCE, verb


@verb(REFERENCE)
@click.command()
@click.argument("kind", required=False, shell_complete=completed("kinds"))
@source("config")
@output("text", "json")
@reports_problems
def doc(kind: str | None, source: ConfigurationSource, form: str) -> None:
    """Show the kinds of resources and their arguments.

    Without KIND, all kinds are listed, your own included. KIND is a family (`file`), a kind (`file.managed`), or `all`
    for the arguments that every state takes.
    """
    from holdfast.agent.cli import kinds_reference
    from holdfast.agent.configuration import ConfigurationCompiler

    ConfigurationCompiler().load_kinds(source.kinds())
    kinds_reference.show(kind, form)
