"""`run`: the agent, in the foreground."""

from __future__ import annotations

import click

from holdfast.agent.cli.options import ConfigurationSource, reports_problems, source
from holdfast.agent.verbs import HOST, verb


@verb(HOST)
@click.command()
@source("config", "states", "pillar", "state_dir", "id")
@reports_problems
def run(source: ConfigurationSource) -> None:
    """Run the agent in the foreground until SIGTERM or Ctrl-C.

    SIGHUP makes the agent reload settings and states, SIGUSR1 makes it check every resource.
    """
    from holdfast.agent import daemon

    daemon.run(source.config, source.overrides)
