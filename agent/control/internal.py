"""Internal requests: only programs of Holdfast send them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import OTHER

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


@dataclass(frozen=True)
class KeptStates(ControlRequest, verb="keeps"):
    """Ask which states the agent manages, in the form of `Settings.tree`."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> str:
        """Return the states that the agent manages."""
        return agent.reloads.settings.tree


@dataclass(frozen=True)
class LiveGraph(ControlRequest, verb="graph", viewers="whole"):
    """Ask for the running graph, for `show graph --live`."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the resources with their state, and the requisites between them."""
        return agent.insight.graph(agent.engine.view)


@dataclass(frozen=True)
class PlanBeside(ControlRequest, verb="plan"):
    """Ask for the journal, for a one-shot run that changes nothing."""

    tree: str = ""
    """The states of the run, in the form of `Settings.tree`."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Send the journal; `OTHER` if the agent manages other states."""
        if self.tree != agent.reloads.settings.tree:
            return OTHER
        await agent.sessions.send_journal(client)
        return None


@dataclass(frozen=True)
class ApplyBeside(ControlRequest, verb="apply"):
    """Begin the session of a one-shot run beside the agent: see `journal_session`."""

    tree: str = ""
    """The states of the run, in the form of `Settings.tree`."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Send the journal, then receive changes until the run ends; `OTHER` if the agent manages other states."""
        if self.tree != agent.reloads.settings.tree:
            return OTHER
        await agent.sessions.serve(client)
        return None
