"""`watch`: the graph of the running agent, live."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.options import ConfigurationSource, source
from holdfast.agent.control.client import follow
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.verbs import AGENT, log, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent

FRAME = 0.1
"""Seconds between two frames."""


@dataclass(frozen=True)
class LiveView(ControlRequest, verb="watch", viewers="masked", stream=True):
    """Follow the state of the agent: health, the pass, and the resources with activity."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Send frames until the client disconnects.

        A slow client gets fewer frames; an unchanged frame is not sent again.
        """
        import asyncio

        sent = b""
        async with client.gone() as gone:
            while not gone.done():
                async with client.turn():
                    line = client.line({"frame": agent.insight.frame(agent.engine.view)})
                if line != sent:
                    await client.write(line)
                    sent = line
                await asyncio.wait({gone}, timeout=FRAME)


@verb(AGENT)
@click.command()
@source("config", "state_dir")
def watch(source: ConfigurationSource) -> None:
    """Show the graph of the running agent as it converges.

    `q` or Ctrl-C ends the view. On a terminal without cursor control, the log is shown, as with `log --follow`.
    """
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        log.show(source.view(), "text", log.LogLines(follow=True))
        return
    from holdfast.agent.cli import live_view

    live_view.show(follow(source.view(), LiveView(), "frame"))
