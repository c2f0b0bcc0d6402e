"""`trace`: the time that a pass spent on each resource."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.arguments import output_file
from holdfast.agent.cli.options import COUNT, ConfigurationSource, source
from holdfast.agent.cli.terminal import say
from holdfast.agent.control.client import ask
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.phrases import number_of
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


@dataclass(frozen=True)
class Trace(ControlRequest, verb="trace", viewers="whole"):
    """Ask for the record of a pass."""

    number: int | None = None
    """The number of the pass; by default the last one."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the pass as a Chrome trace."""
        return agent.insight.trace(self.number, agent.engine.view)


@verb(AGENT)
@click.command()
@source("config", "state_dir")
@click.option("--last", "last", is_flag=True, help="Show the last pass that has ended (the default).")
@click.option("--pass", "number", type=COUNT, metavar="N", help="Show pass number N; the last sixteen passes are kept.")
@output_file("to this file")
def trace(source: ConfigurationSource, last: bool, number: int | None, path: Path | None) -> None:
    """Show where a pass spent its time, as a trace for ui.perfetto.dev or chrome://tracing."""
    if last and number is not None:
        raise click.UsageError("--last and --pass exclude each other")
    found = ask(source.view(), Trace(number))
    text = json.dumps(found) + "\n"
    if path is None:
        sys.stdout.write(text)
        return
    _write(path, text)
    about = found["otherData"]
    runs = sum(event["ph"] == "X" for event in found["traceEvents"]) - 1
    say(
        f"{path}: pass {about['pass']} ({about['cause']}), {number_of(runs, 'run')}; open it in ui.perfetto.dev",
        err=True,
    )


def _write(path: Path, text: str) -> None:
    """Write a file that the caller names; links of other users are not followed.

    Raises `OSError` and `ClickException`.
    """
    from holdfast.agent.host.files import Replacement
    from holdfast.resources import paths
    from holdfast.states.source.hostfiles import absolute

    try:
        if path.is_char_device() or path.is_fifo():  # a terminal, /dev/stdout
            path.write_text(text)
            return
        place = paths.at(absolute(path), follow=True)
        seen = place.look()
        mode, uid, gid = 0o644, -1, -1
        if seen is not None and not place.refusal(seen):
            mode, uid, gid = stat.S_IMODE(seen.st_mode) & 0o777, seen.st_uid, seen.st_gid
        Replacement(place, text.encode(), mode, uid, gid, durable=False).place()
    except paths.Unsafe as error:
        raise click.ClickException(f"cannot write {path}: {error}") from None
