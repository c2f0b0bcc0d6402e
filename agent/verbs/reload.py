"""`reload`: settings and states, read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import ConfigurationSource, output, print_json, source
from holdfast.agent.cli.terminal import say
from holdfast.agent.control.client import LONG, ask
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.phrases import number_of
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


@dataclass(frozen=True)
class Reload(ControlRequest, verb="reload"):
    """Read settings and states again."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Wait until the states are applied; `problems` lists their problems."""
        return await agent.reloads.reload()


@verb(AGENT)
@click.command()
@source("config", "state_dir")
@output("text", "json")
def reload(source: ConfigurationSource, form: str) -> None:
    """Make the running agent read its settings and states again.

    If they cannot be used, the previous ones stay in force.

    Exit codes: 0 the states were applied; 3 settings or states cannot be used.
    """
    answer = ask(source.socket(), Reload(), LONG)
    if form == "json":
        print_json(answer)
    elif not answer["problems"]:
        say(f"reloaded: {number_of(answer['resources'], 'resource')}")
    for problem in answer["problems"] if form == "text" else ():
        place = ":".join(str(problem[key]) for key in ("file", "line", "column") if problem[key])
        say(f"{place}: {problem['message']} [{problem['code']}]", err=True)
        if problem["hint"]:
            say(f"  {problem['hint']}", err=True)
    if answer["problems"]:
        raise click.exceptions.Exit(ExitCode.UNUSABLE)
