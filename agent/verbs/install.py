"""`install`: the agent as a service of this host."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.agent.cli.options import root
from holdfast.agent.cli.terminal import say
from holdfast.agent.verbs import HOST, verb


@verb(HOST)
@click.command()
@root
@click.option("--no-start", is_flag=True, help="Do not enable and start the service.")
def install(root: Path, no_start: bool) -> None:
    """Install the agent as a service of this host.

    Creates settings, directories, the systemd units, completion, the manual page, and, except with --root, the group
    holdfast, whose members may inspect the agent. Settings and files that were edited are kept.
    """
    from holdfast.agent.install import install as steps

    for line in steps(root, start=not no_start):
        say(line)
