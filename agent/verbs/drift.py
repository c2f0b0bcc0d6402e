"""`drift`: reviews what differed from its declaration."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.agent.cli.arguments import completed, of_resource, since
from holdfast.agent.cli.options import COUNT, SPAN, ConfigurationSource, output, reports_problems, source
from holdfast.agent.verbs import HOST, verb

DAY = 86_400.0
_about = click.argument("word", metavar="ID|RESOURCE", shell_complete=completed("resources"))


@verb(HOST)
@click.group()
def drift() -> None:
    """Review what differed from its declaration, and was or would be repaired: list, show, restore, adopt, keep.

    Each drift is new, seen or done. The commands use the records on the disk, and need no running agent. Name a drift
    by its ID, or by its resource, which means the newest drift of that resource.
    """


@drift.command("list", short_help="List drifts, new ones first.")
@source("config", "state_dir")
@output("text", "json")
@of_resource("drifts")
@since("what was found after this time")
@click.option("--all", "everything", is_flag=True, help="Show drifts that are done, too.")
@click.option("--limit", "-n", type=COUNT, metavar="N", default=50, show_default=True, help="Show at most N drifts.")
def list_(
    source: ConfigurationSource, form: str, resource: str, since: float | None, limit: int, *, everything: bool
) -> None:
    """List drifts: new ones first, then those that were seen, each newest first.

    Shows the ID, when the drift was found, who caused it as far as that is known, and whether it was repaired.

    Exit codes: 0 done, even if there is none; 1 there are no records; 77 not permitted.
    """
    from holdfast.agent.cli import drift

    drift.show_list(source.records(), form, resource, since, limit, everything=everything)


@drift.command(short_help="Show a drift, and mark it as seen.")
@_about
@source("config", "state_dir")
@output("text", "json")
def show(word: str, source: ConfigurationSource, form: str) -> None:
    """Show a drift: what differed, who caused it, and what was kept of it. Marks it as seen.

    Exit codes: 0 done; 1 there is no such drift, or several; 77 not permitted.
    """
    from holdfast.agent.cli import drift

    drift.show_one(source.records(), word, form)


@drift.command(short_help="Bring back what a repair has overwritten.")
@_about
@source("config", "state_dir")
@click.option(
    "--to", "to", type=click.Path(path_type=Path), metavar="PATH", help="Write to this path; default: PATH.restored."
)
@click.option("--in-place", is_flag=True, help="Put it back in its place, and pause the resource.")
@click.option(
    "--file", "file", metavar="PATH", default="", help="Which file, if the repair has replaced several; default: all."
)
@click.option(
    "--for",
    "seconds",
    type=SPAN,
    metavar="SPAN",
    default="1d",
    show_default=True,
    help="With --in-place, end the pause after this time.",
)
@output("text", "json")
def restore(
    word: str, source: ConfigurationSource, to: Path | None, file: str, seconds: float, form: str, *, in_place: bool
) -> None:
    """Bring back the content that a repair has overwritten or removed, with its owner and its mode.

    Without options, it is written next to the file, as PATH.restored. With --in-place, the resource is paused first, so
    that the running agent does not repair it again; `holdfast drift adopt` prints the change of the states that would
    make it permanent. Set-uid and set-gid bits are not restored.

    Exit codes: 0 it was restored; 1 it cannot be restored; 69 no agent answers (--in-place); 77 not permitted.
    """
    from holdfast.agent.cli import drift_restore

    if to is not None and in_place:
        raise click.UsageError("--to and --in-place exclude each other")
    target = drift_restore.RestoreTarget(file, None if to is None else str(to.absolute()), in_place, seconds)
    drift_restore.restore(source, word, target, form)


@drift.command(short_help="Print the change of the states that makes a drift permanent.")
@_about
@source("config", "states", "pillar", "state_dir", "id", "environment", "lenient")
@output("text", "json")
@reports_problems
def adopt(word: str, source: ConfigurationSource, form: str) -> None:
    """Print the change of the states that would make a drift permanent; change nothing.

    That is a patch for `patch -p1` in the states directory: of the source of a file, or of the state file, where the
    arguments are literal text there. Otherwise, the verb prints the arguments as they would have to be, with the
    reason, or names what decides the content: a template, the pillar, or grains.

    Exit codes: 0 the change was printed; 1 the drift cannot be adopted; 3 states or settings cannot be used; 77 not
    permitted.
    """
    from holdfast.agent.cli import drift_adopt

    drift_adopt.adopt(source, word, form)


@drift.command(short_help="Keep the state as declared, and mark the drift as done.")
@_about
@source("config", "state_dir")
@output("text", "json")
def keep(word: str, source: ConfigurationSource, form: str) -> None:
    """Mark a drift as done: the state stays as it is declared.

    Exit codes: 0 done; 1 there is no such drift, or several; 77 not permitted.
    """
    from holdfast.agent.cli import drift

    drift.keep(source.records(), word, form)
