"""`version`: the version of Holdfast."""

from __future__ import annotations

import click

from holdfast.agent.verbs import REFERENCE, verb


@verb(REFERENCE)
@click.command()
def version() -> None:
    """Show the version and, if known, the commit from which it was built."""
    from holdfast.agent.version import version as found

    click.echo(f"holdfast {found()}")
