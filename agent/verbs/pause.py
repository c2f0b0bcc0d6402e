"""`pause`: no repairs for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.arguments import resources
from holdfast.agent.cli.options import SPAN, ConfigurationSource, source
from holdfast.agent.cli.terminal import say
from holdfast.agent.control.client import ask
from holdfast.agent.control.request import ControlRequest, demand_span
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


@dataclass(frozen=True)
class Pause(ControlRequest, verb="pause"):
    """Stop repairs."""

    patterns: Sequence[str] = ()
    """Resources or patterns; by default everything."""
    reason: str = ""
    """Text for people."""
    seconds: float | None = None
    """Duration; by default until `resume`."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for an impossible duration."""
        demand_span(self.seconds)

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the pauses, each with its end."""
        from holdfast.agent.records.actors import actor_of

        answer = await agent.pausing.pause(self.patterns, self.reason, self.seconds)
        agent.recorder.note("pause", self.patterns, f"{answer['text']}", actor_of(client.peer))
        return answer


@verb(AGENT)
@click.command()
@resources
@source("config", "state_dir")
@click.option(
    "--for",
    "seconds",
    type=SPAN,
    metavar="SPAN",
    help="End the pause after this time: 90s, 30m, 2h, 1h30m or 3d.",
)
@click.option("--reason", metavar="TEXT", default="", help="Reason for the pause; `status`, `why` and the log show it.")
def pause(patterns: tuple[str, ...], source: ConfigurationSource, seconds: float | None, reason: str) -> None:
    """Pause the repairs of the running agent, for all resources or for those named.

    Drift is still noticed. It is repaired when the pause ends: with `resume`, or after the time given with --for.

    A resource is named by its identity, ID or name. Several resources are named by a pattern of identities (`*`, `?`)
    or by their SLS; the pause then applies to new states that match, too. Pauses survive restarts of the agent and of
    the system.
    """
    say(ask(source.socket(), Pause(patterns, reason, seconds))["text"])
