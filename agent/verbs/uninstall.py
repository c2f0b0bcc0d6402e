"""`uninstall`: the end of the service."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.agent.cli.options import root
from holdfast.agent.cli.terminal import say
from holdfast.agent.verbs import HOST, verb


@verb(HOST)
@click.command()
@root
def uninstall(root: Path) -> None:
    """Remove the service of this host.

    The service is stopped, and the files that `install` made are removed. States, pillar and your own kinds are kept.
    """
    from holdfast.agent.install import uninstall as steps

    for line in steps(root):
        say(line)
