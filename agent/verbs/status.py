"""`status`: resources and health of the running agent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import SECONDS, ConfigurationSource, output, source
from holdfast.agent.control.client import ask, follow, silent
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import ControlError
from holdfast.agent.verbs import AGENT, verb
from holdfast.agent.verbs.watch import LiveView

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent

LISTED = 200
"""Most resources in a long list, without --all."""
RETURN = 10.0
"""Seconds without an agent, for example during a restart, after which --wait without --timeout gives up."""
AWAY = ("no-agent", "busy")
"""Codes of errors that may end by themselves."""
RETRY = 0.1
"""Seconds between two attempts to reach an agent that is not running."""


@dataclass(frozen=True)
class Status(ControlRequest, verb="status", viewers="masked"):
    """Ask for the state of the agent, its health and its resources."""

    number: int | None = None
    """Most rows, with counts by state; by default all rows, without counts."""

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the agent and its health, with the rows of its resources."""
        return agent.status.with_rows(self.number)


@verb(AGENT)
@click.command()
@source("config", "state_dir")
@output("text", "json")
@click.option("--all", "everything", is_flag=True, help="List every resource, however many there are.")
@click.option("--tree", "as_tree", is_flag=True, help="Group resources by the SLS that declare them.")
@click.option(
    "--wait", "wait", is_flag=True, help="First wait until the host has converged, or cannot converge by itself."
)
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="With --wait, give up after this time (exit code 4).")
def status(
    source: ConfigurationSource, form: str, everything: bool, as_tree: bool, *, wait: bool, timeout: float | None
) -> None:
    """Show the resources and the health of the running agent.

    With --wait, first wait until the host has converged, or cannot converge by itself: nothing runs, nothing waits for
    a retry or for the end of a pause, and something has failed, is left alone (noop, pause), or the states do not
    compile. Also wait for an agent that is being restarted: until the timeout, or for 10 s without --timeout. After an
    edit: `holdfast reload && holdfast status --wait`.

    Exit codes: 0 converged; 1 not converged (something failed, is running, is not watched, or is left alone by noop; or
    the states do not compile); 4 timeout (--timeout); 69 no agent answers, 76 the agent is of another version, 77 not
    permitted.
    """
    from holdfast.agent.cli import resource_table

    if timeout is not None and not wait:
        raise click.UsageError("--timeout requires --wait")
    late = wait and not settled(source.view(), timeout)
    all_rows = everything or as_tree or form == "json"
    answer = ask(source.view(), Status(number=None if all_rows else LISTED))
    resource_table.show(answer, form, everything=everything, as_tree=as_tree)
    if late:
        raise click.exceptions.Exit(ExitCode.TIMEOUT)
    if not answer["converged"]:
        raise click.exceptions.Exit(ExitCode.FAILED)


def settled(socket: Path, timeout: float | None) -> bool:
    """Wait until the host has converged, or will not by itself; False: the time is up.

    The agent sends changes, so one request is enough. Raises `ControlError` if no agent has answered until the end.
    """
    frame = None
    for frame in _frames(socket, timeout):
        if frame["converged"] or frame.get("stuck"):
            return True
    if frame is None:
        raise silent(socket)
    return False


def _frames(socket: Path, timeout: float | None) -> Iterator[dict[str, Any]]:
    """Yield the frames of the live view until the timeout, also of an agent that is started again meanwhile.

    Raises `ControlError` if no agent answers until the timeout, or, without one, for `RETURN` seconds.
    """
    lost = time.monotonic()
    end = None if timeout is None else lost + timeout
    while True:
        answered = False
        try:
            for frame in follow(socket, LiveView(), "frame", end):
                answered = True
                yield frame
            return  # noqa: TRY300 - the timeout
        except ControlError as error:
            now = time.monotonic()
            lost = now if answered else lost
            if error.code not in AWAY or now + RETRY > (lost + RETURN if end is None else end):
                raise
            time.sleep(RETRY)
