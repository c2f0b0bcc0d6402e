"""`status`: resources and health of the running agent, as a table or as a tree."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from holdfast.agent.cli.options import Source, output, print_json, source
from holdfast.agent.cli.terminal import Paper, ago, one_line, span
from holdfast.agent.control.client import ask
from holdfast.agent.control.schema import Request
from holdfast.agent.widths import columns
from holdfast.agent.words import as_declared

SHORT = 50
"""Resources up to which all of them are listed."""
QUIET = ("ok", "skipped")
"""States that a long list leaves out."""

Row = dict[str, Any]


@click.command()
@source("config", "state_dir")
@output("text", "json")
@click.option("--all", "everything", is_flag=True, help="List every resource, however many there are.")
@click.option("--tree", "as_tree", is_flag=True, help="Group them by the SLS that declare them.")
def status(source: Source, form: str, everything: bool, as_tree: bool) -> None:
    """Show resources and health of the running agent.

    Exit codes: 0 converged, 1 not (something failed, is under way, or the states do not compile).
    """
    answer = ask(source.socket(), Request("status"))
    if form == "json":
        print_json(answer)
    else:
        paper = Paper.stdout()
        for line in (*heading(answer, paper), *(tree if as_tree else table)(answer["resources"], paper, everything=everything)):
            click.echo(line)
    if not answer["converged"]:
        raise click.exceptions.Exit(1)


def heading(answer: dict[str, Any], paper: Paper) -> Iterator[str]:
    """The agent and its health."""
    conditions = answer["health"]
    state = "not all is right" if answer["status"] in [each["text"] for each in conditions] else answer["status"]
    colour = "1;32" if answer["converged"] else "1;33"
    about = f" (pid {answer['pid']}, up {span(time.time() - answer['started'])})"
    yield f"{one_line(answer['id'])}: {paper.paint(colour, one_line(state))}{paper.dim(about)}"
    for each in conditions:
        colour = "1;31" if each["severity"] == "error" else "33"
        yield f"  {paper.paint(colour, each['severity'])}: {one_line(each['text'])} [{each['code']}]"


def table(rows: list[Row], paper: Paper, *, everything: bool) -> Iterator[str]:
    """One line for each resource, in order of execution."""
    shown = rows if everything or len(rows) <= SHORT else [row for row in rows if row["state"] not in QUIET]
    width = _width(shown, paper)
    yield from (_line(row, paper, width) for row in shown)
    if len(shown) < len(rows):
        yield paper.dim(f"and {len(rows) - len(shown)} more that are right (--all lists them)")


def tree(rows: list[Row], paper: Paper, *, everything: bool) -> Iterator[str]:
    """One branch for each SLS, in order of execution; of many resources only those that are not right."""
    everything = everything or len(rows) <= SHORT
    branches: dict[str, list[Row]] = {}
    for row in rows:
        branches.setdefault(row["sls"], []).append(row)
    shown = {sls: [row for row in branch if everything or row["state"] not in QUIET] for sls, branch in branches.items()}
    width = _width([row for branch in shown.values() for row in branch], paper, indent=3)
    for sls, branch in branches.items():
        yield f"{paper.bold(paper.line(sls))}  {paper.dim(_counts(branch))}"
        for row in shown[sls]:
            mark = "└─ " if row is shown[sls][-1] else "├─ "
            yield paper.dim(mark) + _line(row, paper, width, indent=3)


def _counts(branch: list[Row]) -> str:
    counts = Counter(row["state"] for row in branch)
    return ", ".join(f"{number} {word}" for word, number in counts.most_common())


def _width(rows: list[Row], paper: Paper, indent: int = 0) -> int:
    """Columns for identities: as many as the longest takes, but on a terminal at most half of the line."""
    longest = max((columns(row["identity"]) for row in rows), default=0)
    return longest if paper.width is None else min(longest, max(20, (paper.width - 10 - indent) * 6 // 10))


def _line(row: Row, paper: Paper, width: int, indent: int = 0) -> str:
    said = paper.line("; ".join(_said(row)), indent + 10 + width + 2)
    return f"{paper.state(row['state'], row['state'].ljust(9))} {paper.name(row['identity'], width)}  {paper.dim(said)}".rstrip()


def _said(row: Row) -> Iterator[str]:
    """What else there is to say of it; that it is as declared, its word says."""
    if row["comment"] not in ("", as_declared(row["name"])):
        yield row["comment"]
    if row["pending_refresh"]:
        yield "refresh pending"
    if row["next"] is not None:
        yield f"next look in {span(row['next'])}"
    change = row["last_change"]
    if change:
        yield f"changed {ago(change['at'])} ({change['cause']})"
