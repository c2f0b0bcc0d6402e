"""Verbs that talk to the running agent through its control socket."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click

from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import (
    COUNT,
    SPAN,
    ConfigurationSource,
    Function,
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
from holdfast.agent.control.schema import ControlRequest
from holdfast.agent.engine.model.events import Cause
from holdfast.agent.phrases import number_of

PAST, ALL = 50, 10**9
"""Past lines shown by default, and with --since."""
RELOAD_TIMEOUT = 300.0
"""Seconds to wait for a reload: many states take long."""

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
    help="Show only lines of this resource, or of all that match a pattern.",
)
@click.option("--failed", is_flag=True, help="Only what has failed.")
@click.option("--cause", type=click.Choice(get_args(Cause)), help="Only what has happened for this reason.")
def log(source: ConfigurationSource, form: str, **asked: Any) -> None:
    """Show the running agent's log. Lines must match all options, with --follow too.

    The agent keeps the last lines since its start (`log.recent` in agent.yaml); journald keeps more.
    """
    lines = asked["lines"] if asked["lines"] is not None else PAST if asked["since"] is None else ALL
    wanted = {name: asked[name] for name in ("identity", "failed")}
    request = ControlRequest(
        "log", lines=lines, follow=asked["following"], seconds=asked["since"], cause=asked["cause"] or "", **wanted
    )
    show_log(source, form, request)


def show_log(source: ConfigurationSource, form: str, request: ControlRequest) -> None:
    """Print log lines as they arrive."""
    render = to_json if form == "json" else Console.at(1).render
    found = False
    for message in converse(source.socket(), request, None if request.follow else TIMEOUT):
        if "kept" in message:
            say(
                f"the log is kept since {clock(message['kept'])}; `journalctl -u holdfast` may have older lines",
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
    "--for",
    "seconds",
    type=SPAN,
    metavar="SPAN",
    help="End the pause after this time, for example 90s, 30m, 2h, 1h30m or 3d.",
)
@click.option("--reason", metavar="TEXT", default="", help="Why; shown to everybody who looks.")
def pause(patterns: tuple[str, ...], source: ConfigurationSource, seconds: float | None, reason: str) -> None:
    """Have the running agent stop repairs, of all resources or of those named, until `resume`.

    Drift is still noticed, and repaired then.

    A resource is named by its identity, ID or name; several resources by a pattern (`*`, `?`) of identities or by their
    SLS. New states that match are paused, too. Pauses survive restarts of the agent and of the system.
    """
    say(_ask(source, ControlRequest("pause", patterns=patterns, seconds=seconds, reason=reason))["text"])


@click.command()
@resources
@_source
def resume(patterns: tuple[str, ...], source: ConfigurationSource) -> None:
    """Have the running agent resume repairs after `pause`, of all resources or of those named.

    It repairs what has drifted meanwhile.
    """
    say(_ask(source, ControlRequest("resume", patterns=patterns))["text"])


@verb
def recheck(source: ConfigurationSource) -> None:
    """Have the running agent check every resource now."""
    answer = _ask(source, ControlRequest("recheck"))
    say(
        "paused: everything is checked after `holdfast resume`"
        if answer["paused"]
        else "checking everything; `holdfast log --follow` shows it"
    )


@click.command()
@_source
@output("text", "json")
def reload(source: ConfigurationSource, form: str) -> None:
    """Have the running agent read settings and states again.

    Exit code 3 if they cannot be used; the old ones then stay in force.
    """
    answer = _ask(source, ControlRequest("reload"), RELOAD_TIMEOUT)
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
        raise click.exceptions.Exit(ExitCode.UNUSABLE)


@click.command()
@resource
@_source
def trigger(identity: str, source: ConfigurationSource) -> None:
    """Have the running agent run one resource now, an action even if it was done before.

    Its guards (`unless`, ...) still apply.

    The ID or the name alone, or the end of a path, is enough if no other resource has it.

    Exit codes: 0 it ran or had no reason to run; 1 it failed.
    """
    answer = _ask(source, ControlRequest("trigger", identity=identity), RELOAD_TIMEOUT)
    say(answer["text"])
    if answer["result"] is False:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _ask(source: ConfigurationSource, request: ControlRequest, timeout: float = TIMEOUT) -> Any:
    return ask(source.socket(), request, timeout)
