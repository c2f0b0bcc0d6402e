"""`recheck`: a check of every resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.options import ConfigurationSource, source
from holdfast.agent.cli.terminal import say
from holdfast.agent.control.client import ask
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


@dataclass(frozen=True)
class Recheck(ControlRequest, verb="recheck"):
    """Check every resource."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Begin; `paused` says whether the check waits for `resume`."""
        from holdfast.agent.records.actors import actor_of

        agent.recorder.asked(actor_of(client.peer))
        agent.engine.recheck()
        return {"paused": agent.engine.paused}


@verb(AGENT)
@click.command()
@source("config", "state_dir")
def recheck(source: ConfigurationSource) -> None:
    """Make the running agent check every resource now."""
    answer = ask(source.socket(), Recheck())
    say(
        "paused: all resources are checked after `holdfast resume`"
        if answer["paused"]
        else "checking all resources; `holdfast log --follow` shows the results"
    )
