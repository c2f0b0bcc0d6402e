"""Verbs that talk to the running agent over its control socket."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click

from holdfast.agent.cli.exits import Code
from holdfast.agent.cli.options import (
    COUNT,
    SPAN,
    Function,
    Source,
    completed,
    output,
    print_json,
    resource,
    resources,
    source,
)
from holdfast.agent.cli.terminal import say
from holdfast.agent.console import Console, clock, to_json
from holdfast.agent.control.client import TIMEOUT, ask, converse
from holdfast.agent.control.schema import Request
from holdfast.agent.engine.report import Cause
from holdfast.agent.words import number_of

PAST, ALL = 50, 10**9
"""Past lines that are shown by default, and those that are shown with --since."""
RELOAD_TIMEOUT = 300.0
"""Seconds to wait for a reload: large trees take long."""

_source = source("config", "state_dir")


def verb(function: Function) -> click.Command:
    """A verb that works on a running agent."""
    return click.command()(_source(function))


@click.command()
@_source
@output("text", "json")
@click.option("--follow", "-f", "following", is_flag=True, help="Go on with each new line.")
@click.option(
    "--lines", "-n", type=COUNT, metavar="N", help="Past lines to show first; default 50, or with --since all."
)
@click.option("--since", type=SPAN, metavar="SPAN", help="Only lines that are no older, as in 90s, 30m, 2h or 3d.")
@click.option(
    "--resource",
    "identity",
    metavar="KIND[ID]",
    default="",
    shell_complete=completed("resources"),
    help="Only of this one; or a pattern.",
)
@click.option("--failed", is_flag=True, help="Only what has failed.")
@click.option("--cause", type=click.Choice(get_args(Cause)), help="Only what has happened for this reason.")
def log(source: Source, form: str, **asked: Any) -> None:
    """Show the running agent's log. What the options ask for must all hold, also for lines that come with --follow.

    The agent keeps the last lines (`log.recent` in agent.yaml) since it was started; journald keeps more.
    """
    lines = asked["lines"] if asked["lines"] is not None else PAST if asked["since"] is None else ALL
    wanted = {name: asked[name] for name in ("identity", "failed")}
    request = Request(
        "log", lines=lines, follow=asked["following"], seconds=asked["since"], cause=asked["cause"] or "", **wanted
    )
    show_log(source, form, request)


def show_log(source: Source, form: str, request: Request) -> None:
    """Print the log as it comes."""
    render = to_json if form == "json" else Console.at(1).render
    found = False
    for message in converse(source.socket(), request, None if request.follow else TIMEOUT):
        if "kept" in message:
            say(
                f"the log is kept since {clock(message['kept'])}; `journalctl -u holdfast` may have what is older",
                err=True,
            )
        if "entry" in message:
            found = True
            sys.stdout.buffer.write(render(message["entry"]))
            sys.stdout.flush()
    if request.lines > 0 and not found:
        say("the agent's log has no such line", err=True)


@click.command()
@resources
@_source
@click.option(
    "--for", "seconds", type=SPAN, metavar="SPAN", help="End it after so long, as in 90s, 30m, 2h, 1h30m or 3d."
)
@click.option("--reason", metavar="TEXT", default="", help="Why; shown to everybody who looks.")
def pause(patterns: tuple[str, ...], source: Source, seconds: float | None, reason: str) -> None:
    """Have the running agent repair nothing, or nothing of what is named, until `resume`; drift is noticed and repaired then.

    A resource is named by its identity, ID or name, several by a pattern (`*`, `?`) of identities or by their SLS; new states that match are paused,
    too. It is kept over restarts of the agent and of the system.
    """
    say(_ask(source, Request("pause", patterns=patterns, seconds=seconds, reason=reason))["text"])


@click.command()
@resources
@_source
def resume(patterns: tuple[str, ...], source: Source) -> None:
    """Have the running agent go on after `pause`, with everything or with what is named, and repair what has drifted meanwhile."""
    say(_ask(source, Request("resume", patterns=patterns))["text"])


@verb
def recheck(source: Source) -> None:
    """Have the running agent look at every resource now."""
    answer = _ask(source, Request("recheck"))
    say(
        "paused: everything is checked after `holdfast resume`"
        if answer["paused"]
        else "checking everything; `holdfast log --follow` shows it"
    )


@click.command()
@_source
@output("text", "json")
def reload(source: Source, form: str) -> None:
    """Have the running agent read settings and states again. Exit code 3 when they cannot be used; the old ones then stay in force."""
    answer = _ask(source, Request("reload"), RELOAD_TIMEOUT)
    if form == "json":
        print_json(answer)
    elif not answer["problems"]:
        say(f"reloaded: {number_of(answer['resources'], 'resource')}")
    for problem in answer["problems"] if form == "text" else ():
        place = ":".join(str(problem[key]) for key in ("file", "line", "column") if problem[key])
        say(f"{place}: {problem['message']} [{problem['code']}]", err=True)
        if problem["hint"]:
            say(f"  {problem['hint']}", err=True)
    if answer["problems"]:
        raise click.exceptions.Exit(Code.UNUSABLE)


@click.command()
@resource
@_source
def trigger(identity: str, source: Source) -> None:
    """Have the running agent run one resource now, an action even when it is done already. Its guards (`unless`, ...) hold all the same.

    The ID or the name alone, or the end of a path, is enough where no other resource has it.

    Exit codes: 0 it ran, or had no reason to; 1 it failed.
    """
    answer = _ask(source, Request("trigger", identity=identity), RELOAD_TIMEOUT)
    say(answer["text"])
    if answer["result"] is False:
        raise click.exceptions.Exit(Code.FAILED)


def _ask(source: Source, request: Request, timeout: float = TIMEOUT) -> Any:
    return ask(source.socket(), request, timeout)
