"""`trigger`: one resource, run now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.arguments import resource
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import ConfigurationSource, source
from holdfast.agent.cli.terminal import say
from holdfast.agent.control.client import LONG, ask
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


@dataclass(frozen=True)
class Trigger(ControlRequest, verb="trigger"):
    """Run one resource."""

    identity: str
    """The resource: its identity, ID or name, or the end of a path."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the outcome: `text` in a sentence, `result` for programs."""
        from holdfast.agent.records.actors import actor_of

        return await agent.triggers.trigger(self.identity, partial(agent.recorder.asked, actor_of(client.peer)))


@verb(AGENT)
@click.command()
@resource
@source("config", "state_dir")
def trigger(identity: str, source: ConfigurationSource) -> None:
    """Make the running agent run one resource now, even an action that is already done.

    Its guards (`unless`, ...) still apply. If it is running already, it runs once more afterwards. The ID or the name
    alone, or the end of a path, is enough if only one resource has it.

    Exit codes: 0 the resource ran, or had no reason to run; 1 it failed.
    """
    answer = ask(source.socket(), Trigger(identity), LONG)
    say(answer["text"])
    if answer["result"] is False:
        raise click.exceptions.Exit(ExitCode.FAILED)
