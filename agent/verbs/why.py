"""`why`: all information about one resource of the running agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.arguments import resource
from holdfast.agent.cli.options import ConfigurationSource, output, source
from holdfast.agent.control.client import ask
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


@dataclass(frozen=True)
class Why(ControlRequest, verb="why", viewers="masked"):
    """Ask for the explanation of a resource."""

    identity: str
    """The resource: its identity, ID or name, or the end of a path."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the explanation; of several matches, a list."""
        return await agent.insight.why(self.identity, agent.engine.view)


@verb(AGENT)
@click.command()
@resource
@source("config", "state_dir")
@output("text", "json")
def why(identity: str, source: ConfigurationSource, form: str) -> None:
    """Show why a resource ran last, what it waits for, what blocks it, and what happens to it next.

    `holdfast status` lists the resources. The ID or the name alone, or the end of a path, is enough: `holdfast why
    nginx`, `holdfast why app.conf` for `/etc/app.conf`. If several resources match, all are shown; in JSON they are a
    list.
    """
    from holdfast.agent.cli import explanation

    explanation.show(ask(source.view(), Why(identity)), form)
