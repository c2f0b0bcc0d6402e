"""`resume`: the end of a pause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.arguments import resources
from holdfast.agent.cli.options import ConfigurationSource, source
from holdfast.agent.cli.terminal import say
from holdfast.agent.control.client import ask
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


@dataclass(frozen=True)
class Resume(ControlRequest, verb="resume"):
    """Resume repairs after a pause."""

    patterns: Sequence[str] = ()
    """Resources or patterns that were paused; by default all."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the remaining pauses."""
        from holdfast.agent.records.actors import actor_of

        answer = await agent.pausing.resume(self.patterns)
        agent.recorder.note("resume", self.patterns, answer["text"], actor_of(client.peer))
        return answer


@verb(AGENT)
@click.command()
@resources
@source("config", "state_dir")
def resume(patterns: tuple[str, ...], source: ConfigurationSource) -> None:
    """Resume the repairs of the running agent after `pause`, for all resources or for those named.

    Resources that have drifted during the pause are repaired.
    """
    say(ask(source.socket(), Resume(patterns))["text"])
