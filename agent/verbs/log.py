"""`log`: the lines of the running agent's log."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.arguments import of_cause, of_resource, since
from holdfast.agent.cli.options import COUNT, ConfigurationSource, output, source
from holdfast.agent.cli.terminal import say
from holdfast.agent.console import Console, clock, to_json
from holdfast.agent.control.client import TIMEOUT, converse
from holdfast.agent.control.request import ControlRequest, demand_span
from holdfast.agent.control.schema import FOREVER
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent

PAST, ALL = 50, 10**9
"""Past lines shown by default, and with --since."""
SHORTEST = 0.001
"""Seconds back that are requested if --since is in the future."""


@dataclass(frozen=True)
class LogLines(ControlRequest, verb="log", viewers="masked", stream=True):
    """Ask for entries of the log. Entries must match all of `identity`, `failed` and `cause`."""

    lines: int = PAST
    """How many past entries to send first."""
    follow: bool = False
    """Whether to send new entries as they arrive."""
    seconds: float | None = None
    """How many seconds back; by default as far as entries are kept."""
    identity: str = ""
    """Only entries of this resource, or of those that match this pattern."""
    failed: bool = False
    """Only failures."""
    cause: str = ""
    """Only entries with this cause."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for an impossible span of time."""
        demand_span(self.seconds)

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Send the entries."""
        from holdfast.agent.control.log_filter import LogFilter
        from holdfast.agent.control.log_stream import LogStream
        from holdfast.agent.records.history import Chosen
        from holdfast.agent.records.log_lines import OlderLines

        older = OlderLines(agent.recorder.queue, Chosen(self.identity, cause=self.cause, failed=self.failed))
        stream = LogStream(agent.logs, LogFilter(self.identity, self.cause, failed=self.failed), client, older)
        await stream.past(self.lines, self.seconds)
        if self.follow:
            await stream.follow()


@verb(AGENT)
@click.command()
@source("config", "state_dir")
@output("text", "json")
@click.option("--follow", "-f", "following", is_flag=True, help="Wait for new lines, and show them as they arrive.")
@click.option(
    "--lines", "-n", type=COUNT, metavar="N", help="Show at most N past lines; default 50, or all with --since."
)
@since("lines after this time")
@of_resource("lines")
@click.option("--failed", is_flag=True, help="Show only failures.")
@of_cause("lines")
def log(source: ConfigurationSource, form: str, **asked: Any) -> None:
    """Show the log of the running agent.

    Lines must match all options, also with --follow. The agent keeps the latest lines since its start (`log.recent` in
    agent.yaml). Older ones are made from its records of changes, failures and notes, and say `source=records`; journald
    keeps more.

    A time is a span before now (90s, 2h, 3d), 20:15 of today, 2026-11-23, or '2026-11-23 20:15'.
    """
    seconds = _back(asked["since"])
    lines = asked["lines"] if asked["lines"] is not None else PAST if asked["since"] is None else ALL
    request = LogLines(lines, asked["following"], seconds, asked["resource"], asked["failed"], asked["cause"] or "")
    show(source.view(), form, request)


def _back(since: float | None) -> float | None:
    """Return how many seconds ago a time was; None if it was before all lines."""
    seconds = None if since is None else time.time() - since
    return None if seconds is None or seconds >= FOREVER else max(SHORTEST, seconds)


def show(socket: Path, form: str, request: LogLines) -> None:
    """Print the lines that match a request. Raises `ControlError`."""
    render = to_json if form == "json" else Console.at(1).render
    found = False
    for message in converse(socket, request, None if request.follow else TIMEOUT):
        if "kept" in message:
            say(_reach(message["kept"], message.get("recorded")), err=True)
        if "entry" in message:
            found = True
            sys.stdout.buffer.write(render(message["entry"]))
            sys.stdout.flush()
    if request.lines > 0 and not found:
        say("the agent's log has no such line", err=True)


def _reach(kept: float, recorded: float | None) -> str:
    """Return since when there are lines. Those from the records are fewer than those that were logged."""
    begin = f"the log begins at {clock(kept)}"
    if recorded is None or recorded >= kept:
        return f"{begin}; `journalctl -u holdfast` may have older lines"
    records = f"the records have changes, failures and notes since {clock(recorded)}"
    return f"{begin}; {records}; `journalctl -u holdfast` may have more lines"
