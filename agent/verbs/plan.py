"""`plan`: what `apply` would change."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.agent.cli.oneshot_options import OneShotOptions, one_shot
from holdfast.agent.verbs import STATES, verb


@verb(STATES)
@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="File for the HTML page; default -, which is stdout.",
)
@one_shot("text", "json", "html")
def plan(options: OneShotOptions) -> None:
    """Show what `apply` would change, and change nothing.

    Pending refreshes of earlier changes are listed, too.

    `--format html -o report.html` writes a page for an audit, with all differences by area. Only its owner may read the
    page, because it may contain data of private files.

    Exit codes: 0 nothing would be changed; 1 something failed; 2 something would be changed; 3 the states do not
    compile; 4 the time limit was reached (--timeout).
    """
    from holdfast.agent.cli.oneshot import OneShotRun

    OneShotRun(options, noop=True).carry_out()
