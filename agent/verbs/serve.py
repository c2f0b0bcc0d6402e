"""`serve`: records of the running agent over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast.agent.cli.options import ConfigurationSource, reports_problems, source
from holdfast.agent.verbs import AGENT, verb


def _place(_: click.Context, __: click.Parameter, value: str | None) -> Any:
    """Return the place to listen at."""
    from holdfast.agent.serve.server import ListenAddress

    if value is None:
        return None
    try:
        return ListenAddress.of(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a place to listen at: {error}") from None


@verb(AGENT)
@click.command()
@click.option(
    "--listen",
    "place",
    metavar="unix:PATH|127.0.0.1:PORT",
    callback=_place,
    help="Where to listen; default: a socket in the run-time directory of the process or of the session.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File for the token of a port; default: in the same directory.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="Also accept requests to a port under this name and port, such as those of a proxy; may be repeated.",
)
@source("config", "state_dir")
@reports_problems
def serve(source: ConfigurationSource, place: Any, token_file: Path | None, names: tuple[str, ...]) -> None:
    """Serve records of the running agent over HTTP until SIGTERM or Ctrl-C.

    Start it as a user of the group that may inspect the agent; root is refused. The document /v1/openapi.json describes
    all paths. Requests to a port need a token, which is new at each start, in a file that only this user can read.
    """
    from holdfast.agent.cli.terminal import say
    from holdfast.agent.paths import sockets_of
    from holdfast.agent.serve import server

    sockets = sockets_of(source.config, source.overrides)
    server.serve(place or server.default_place(), sockets, token_file, names, lambda text: say(text, err=True))
