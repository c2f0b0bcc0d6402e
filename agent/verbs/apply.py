"""`apply`: the states, applied once."""

from __future__ import annotations

import click

from holdfast.agent.cli.oneshot_options import OneShotOptions, one_shot
from holdfast.agent.verbs import STATES, verb


@verb(STATES)
@click.command()
@click.option("--detailed-exitcode", "detailed", is_flag=True, help="Exit with 2, not 0, when something was changed.")
@one_shot("text", "json")
def apply(options: OneShotOptions) -> None:
    """Apply states once.

    SLS are names or paths of state files. Without SLS, the states are those that the top file assigns to this host, or
    all if there is no top file.

    Exit codes: 0 all resources are as declared; 1 something failed; 2 something would be changed (noop), or was changed
    (--detailed-exitcode); 3 the states do not compile; 4 the time limit was reached (--timeout).
    """
    from holdfast.agent.cli.oneshot import OneShotRun

    OneShotRun(options, noop=False).carry_out()
