"""Verbs that make this host run an agent: `run`, `install`, `uninstall`."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.agent.cli.options import ConfigurationSource, reports_problems, source
from holdfast.agent.cli.terminal import say

_root = click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    metavar="DIR",
    help="Root directory of the system to change; nothing is started there.",
)


@click.command()
@source("config", "states", "pillar", "state_dir", "id")
@reports_problems
def run(source: ConfigurationSource) -> None:
    """Run the agent in the foreground until SIGTERM or Ctrl-C.

    SIGHUP reloads settings and states, SIGUSR1 checks every resource.
    """
    from holdfast.agent import daemon

    daemon.run(source.config, source.overrides)


@click.command()
@_root
@click.option("--no-start", is_flag=True, help="Do not enable and start the service.")
def install(root: Path, no_start: bool) -> None:
    """Install the agent as a service: settings, directories, systemd unit, completion, manual page.

    Existing files are kept.
    """
    from holdfast.agent.install import install as steps

    for line in steps(root, start=not no_start):
        say(line)


@click.command()
@_root
def uninstall(root: Path) -> None:
    """Stop the service and remove what `install` made; states, pillar and own kinds are kept."""
    from holdfast.agent.install import uninstall as steps

    for line in steps(root):
        say(line)
