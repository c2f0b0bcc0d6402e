"""`history`: what has changed on this host, and who asked for it."""

from __future__ import annotations

from typing import Any

import click

from holdfast.agent.cli.arguments import completed, of_cause, of_origin, of_resource, since
from holdfast.agent.cli.options import COUNT, MOMENT, ConfigurationSource, output, source
from holdfast.agent.verbs import HOST, verb

ORIGINS = ("drift", "states", "command", "start", "refresh")
"""Origins of changes; a test compares them with the model."""


def _an_id(_context: click.Context, _option: click.Parameter, word: str) -> str:
    """Return an ID of a record as it is stored."""
    from holdfast.agent.records.ids import is_id

    if word and not is_id(word.lower()):
        raise click.BadParameter(f"{word!r} is not the ID of a record, as `holdfast history` shows it")
    return word.lower()


@verb(HOST)
@click.command()
@source("config", "state_dir")
@output("text", "json")
@click.option(
    "--limit", "-n", type=COUNT, metavar="N", default=50, show_default=True, help="Show at most N changes and notes."
)
@since("what began after this time")
@click.option("--until", type=MOMENT, metavar="TIME", help="Show only what began before this time.")
@click.option(
    "--before",
    metavar="ID",
    default="",
    callback=_an_id,
    help="Show only what was written before the record with this ID.",
)
@of_resource("changes")
@click.option(
    "--kind", metavar="KIND", default="", shell_complete=completed("kinds"), help="Show only changes of this kind."
)
@of_cause("changes")
@of_origin("changes", ORIGINS)
@click.option("--failed", is_flag=True, help="Show only failures.")
@click.option("--diff", is_flag=True, help="Show below each change what was different.")
def history(source: ConfigurationSource, form: str, limit: int, diff: bool, **asked: Any) -> None:
    """Show what has changed on this host, newest first, and who asked for it.

    Shows the passes of the agent and of `apply` with their changes and failures, and what operators did (`pause`,
    `resume`), from the records on the disk. It needs no running agent, and includes what happened before the agent was
    started. A lasting failure is one entry, at the time of its first attempt. Secrets are masked.

    The cause is why the resource ran. The origin is why it changed: the host had drifted, the states were changed, an
    operator asked for it, the agent was started, or another resource had changed.

    Entries are in the order in which they were written, even if the clock was wrong for a while. A list that is cut off
    names the ID with which `--before` continues it.

    A time is a span before now (90s, 2h, 3d), 20:15 of today, 2026-11-23, or '2026-11-23 20:15'. The ID before a change
    is the one that `holdfast drift show` and `restore` take.

    Exit codes: 0 done, even if nothing is found; 1 there are no records; 77 not permitted.
    """
    from holdfast.agent.cli import history

    history.show(source.records(), form, limit, history.chosen(**asked), diff=diff)
