"""`metrics`: figures of the running agent for Prometheus."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.options import ConfigurationSource, source
from holdfast.agent.control.client import ask
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


@dataclass(frozen=True)
class Metrics(ControlRequest, verb="metrics", viewers="whole"):
    """Ask for all metrics."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the metrics as text."""
        return agent.insight.full_text(agent.engine.view)


@verb(AGENT)
@click.command()
@source("config", "state_dir")
def metrics(source: ConfigurationSource) -> None:
    """Show the metrics of the running agent in the text format of Prometheus.

    The setting `metrics` makes the agent serve the same text.
    """
    sys.stdout.write(ask(source.view(), Metrics()))
