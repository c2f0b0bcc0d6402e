"""`doc`: the kinds with their arguments, and the codes of problems."""

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

    Without KIND, all kinds are listed, your own included. KIND is a family (`file`), a kind (`file.managed`), `all` for
    the arguments that every state takes, or `codes` for the codes of all errors and warnings. Kinds whose files or
    schema cannot be read are left out, with a message on standard error.
    """
    if kind == "codes":
        from holdfast.agent.cli import codes_reference

        codes_reference.show(form)
        return
    from holdfast.agent.cli import kinds_reference
    from holdfast.agent.cli.terminal import say
    from holdfast.agent.configuration import ConfigurationCompiler

    unread = ConfigurationCompiler().load_readable_kinds(source.kinds())
    for each in unread:
        say(f"{each}\n  its kinds are not shown", err=True)
    kinds_reference.show(kind, form)
