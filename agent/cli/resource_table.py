"""The output of `status`: resources and health of the running agent, as a table or as a tree."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from holdfast.agent.cli.options import print_json
from holdfast.agent.cli.terminal import SEVERITIES, Paper, ago, headline, one_line, span
from holdfast.agent.engine.model.states import QUIET, urgency
from holdfast.agent.phrases import as_declared
from holdfast.agent.widths import columns

SHORT = 50
"""Most resources that are all listed."""
STATE = 11
"""Columns of the state."""
MOST = 8
"""Most lines about a problem of one resource; `why` shows all."""

Row = dict[str, Any]


def show(answer: dict[str, Any], form: str, *, everything: bool, as_tree: bool) -> None:
    """Print the answer to a `status` request, as JSON or for people."""
    if form == "json":
        print_json(answer)
        return
    paper, rows = Paper.stdout(), answer["resources"]
    listed = (
        tree(rows, paper, everything=everything)
        if as_tree
        else table(rows, paper, answer.get("counts"), everything=everything)
    )
    for line in (*heading(answer, paper), *listed):
        click.echo(line)


def heading(answer: dict[str, Any], paper: Paper) -> Iterator[str]:
    """Yield the agent and its health."""
    colour = "1;32" if answer["converged"] else "1;33"
    name, state = f"{one_line(answer['id'])}: ", one_line(headline(answer))
    about = f" (pid {answer['pid']}, up {span(time.time() - answer['started'])})"
    first, *rest = paper.lines(name + state)
    details = paper.dim(about) if paper.holds(name + state + about) else ""
    yield f"{name}{paper.paint(colour, first.removeprefix(name))}{details}"
    yield from (paper.paint(colour, line) for line in rest)
    if isinstance(plugins := answer.get("plugins"), list) and plugins:  # viewers do not see them
        said = ", ".join(f"{each['name']} {each['version']} {each['state']}" for each in plugins)
        yield from (paper.dim(f"  {line}") for line in paper.lines(f"plugins: {one_line(said)}", 2))
    for each in answer["health"]:
        severity, colour = each["severity"], SEVERITIES[each["severity"]]
        first, *rest = paper.lines(f"{severity}: {each['text']} [{each['code']}]", 2)
        yield f"  {paper.paint(colour, severity)}{first.removeprefix(severity)}"
        yield from (f"  {line}" for line in rest)


def table(rows: list[Row], paper: Paper, counts: Mapping[str, int] | None = None, *, everything: bool) -> Iterator[str]:
    """Yield one line for each resource: problems first, else in order of execution.

    `counts`: how many there are of each state, if `rows` may not be all.
    """
    counts = counts or Counter(row["state"] for row in rows)
    shown = _shown(rows, everything=everything or sum(counts.values()) <= SHORT)
    width = _width(shown, paper)
    for row in shown:
        yield from _lines(row, paper, width)
    hidden = Counter(counts)
    hidden.subtract(row["state"] for row in shown)
    if others := ", ".join(f"{number} {word}" for word, number in hidden.items() if number > 0 and word not in QUIET):
        yield f"and more: {others} (--all lists them)"
    if quiet := sum(number for word, number in hidden.items() if number > 0 and word in QUIET):
        yield paper.dim(f"and {quiet} more without problems (--all lists them)")


def tree(rows: list[Row], paper: Paper, *, everything: bool) -> Iterator[str]:
    """Yield one branch for each SLS, in order of execution, problems first.

    Of many resources, only those with problems are listed.
    """
    everything = everything or len(rows) <= SHORT
    branches: dict[str, list[Row]] = {}
    for row in rows:
        branches.setdefault(row["sls"], []).append(row)
    shown = {sls: _shown(branch, everything=everything) for sls, branch in branches.items()}
    width = _width([row for branch in shown.values() for row in branch], paper, indent=3)
    for sls, branch in branches.items():
        yield f"{paper.bold(paper.line(sls))}  {paper.dim(_counts(branch))}"
        for row in shown[sls]:
            marks = ("└─ ", "   ") if row is shown[sls][-1] else ("├─ ", "│  ")
            yield from _lines(row, paper, width, marks)


def _shown(rows: list[Row], *, everything: bool) -> list[Row]:
    """Return rows with problems first; the others only if `everything` is shown."""
    shown = (row for row in rows if everything or row["state"] not in QUIET)
    return [*_once(sorted(shown, key=lambda row: urgency(row["state"])))]


def _once(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows. If several are not watched for one reason, such as a server that is down, the first has it."""
    told: dict[str, str] = {}
    for row in rows:
        first = told.setdefault(row["comment"], row["identity"])
        again = row["comment"].startswith("cannot watch: ") and first != row["identity"]
        yield {**row, "comment": f"cannot watch, for the same reason as {first}"} if again else row


def _counts(branch: list[Row]) -> str:
    counts = Counter(row["state"] for row in branch)
    return ", ".join(f"{number} {word}" for word, number in counts.most_common())


def _width(rows: list[Row], paper: Paper, indent: int = 0) -> int:
    """Return the number of columns for identities.

    Those of the longest; on a terminal at most half of a line, or all of a short one.
    """
    longest = max((columns(row["identity"]) for row in rows), default=0)
    if paper.width is None:
        return longest
    room = paper.width - STATE - indent
    return min(longest, max(20, room if paper.narrow else room * 6 // 10))


def _lines(row: Row, paper: Paper, width: int, marks: tuple[str, str] = ("", "")) -> Iterator[str]:
    """Yield the lines of a resource, usually one.

    Problems are shown in full, on more lines if necessary; the text of other resources may be cut, not their identity.

    `marks` begin the first line and the others.
    """
    mark, below = marks
    quiet, said = row["state"] in QUIET, "; ".join(_said(row))
    if paper.width is not None and columns(one_line(row["identity"])) > width:
        first, *rest = paper.lines(row["identity"], columns(mark) + STATE)
        yield f"{paper.dim(mark)}{paper.state(row['state'], row['state'].ljust(STATE - 1))} {first}"
        rest += [] if quiet or not said else paper.lines(said, columns(mark) + STATE, MOST)
        yield from (f"{paper.dim(below)}{' ' * STATE}{line}" for line in rest)
        return
    state = paper.state(row["state"], row["state"].ljust(STATE - 1))
    head = f"{paper.dim(mark)}{state} {paper.name(row['identity'], width)}"
    used = columns(mark) + STATE + width + 2
    if quiet:
        yield f"{head}  {paper.dim('' if paper.narrow else paper.line(said, used))}".rstrip()
    elif paper.holds(said, used):
        yield f"{head}  {one_line(said)}".rstrip()
    else:
        yield head.rstrip()
        yield from (f"{paper.dim(below)}{' ' * STATE}{line}" for line in paper.lines(said, columns(mark) + STATE, MOST))


def _said(row: Row) -> Iterator[str]:
    """Yield further remarks about a resource: problems first; the last change if there are none."""
    # The comment of a running resource is the result of its previous run.
    comment = [] if row["state"] == "running" or row["comment"] in ("", as_declared(row["name"])) else [row["comment"]]
    if comment and row["failed"] and row["line"]:
        comment = [f"{row['comment']} ({row['file']}:{row['line']})"]
    quiet, change = row["state"] in QUIET, row["last_change"]
    yield from () if quiet else comment
    if row["pending_refresh"]:
        yield "refresh pending"
    if row["next"] is not None:
        yield f"next check in {span(row['next'])}"
    if change:
        yield f"changed {ago(change['at'])} ({change['cause']})"
    yield from comment if quiet else ()
