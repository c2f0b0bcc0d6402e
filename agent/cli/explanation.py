"""The output of `why`: all information about a resource of the running agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from holdfast.agent.cli.options import print_json
from holdfast.agent.cli.terminal import Paper, ago, one_line, span
from holdfast.agent.console import clock
from holdfast.agent.narrate import duration
from holdfast.agent.widths import columns, pad
from holdfast.resources.author import Author

CAUSES = {
    "start": "the agent was started",
    "states changed": "its declaration was new or had changed",
    "grains changed": "a grain that it or its states had read had changed",
    "drift": "its watch reported a possible change",
    "poll": "it was due to be checked again (poll, rerun)",
    "retry": "it had failed before",
    "refresh": "a resource that it watches or listens to had changed",
    "recheck": "all resources were checked (recheck)",
    "command": "an operator asked for it",
    "recovery": "the obstacle to its run was gone",
}
"""Cause of a run -> explanation."""
NEXT = {
    "end": "its run ends",
    "again": "it is checked again when its run has ended ({cause})",
    "run": "it runs as soon as nothing prevents it ({cause})",
    "retry": "tried again in {when}",
    "rerun": "run again in {when}",
    "rate-limit": "checked in {when}, when its rate limit allows",
    "flapping": "checked in {when}: repairs are spaced out while it flaps",
    "poll": "checked every {every:g} s",
    "event": "checked as soon as its watch reports an event",
    "action": "run again when its declaration changes or a requisite asks for it: no guard says whether it is needed",
    "superseded": "run again when a state of its sequence is declared differently; the last one is maintained",
    "recheck": "checked with everything else in {when}",
}
"""What happens next -> text."""
ASIDE = 13
"""Columns of the headings at the left."""
REQUISITE = 17
"""Columns before the identity of a neighbour, for its requisite."""
MOST = 20
"""Most neighbours listed on each side."""

Facts = dict[str, Any]


def show(answer: Facts, form: str) -> None:
    """Print the answer to a `why` request, as JSON or for people."""
    several = answer.get("matches")
    if form == "json":
        print_json(answer if several is None else several)
        return
    paper = Paper.stdout()
    for number, each in enumerate([answer] if several is None else several):
        for line in ("",) * (number > 0) + tuple(tell(each, paper)):
            click.echo(line)
    if answer.get("more"):
        click.echo(paper.dim(f"and {answer['more']} more"))


def tell(facts: Facts, paper: Paper) -> Iterator[str]:
    """Yield all information, for people."""
    first, *rest = paper.lines(facts["identity"], 12)
    yield f"{paper.bold(first)}  {paper.state(facts['state'])}"
    yield from map(paper.bold, rest)
    where = f"{facts['file']}:{facts['line']}" if facts["line"] else facts["file"]
    yield from _field(
        "declared",
        [
            f"{where} (sls {facts['sls']})",
            f"place {facts['position'] + 1} in the order of execution: {facts['reason_for_place']}",
        ],
        paper,
    )
    yield from _field("last run", list(_last(facts)), paper)
    yield from _field("waits", list(_waits(facts)), paper)
    yield from _field(
        "blocked by",
        [f"{each['identity']} ({each['state']}): {each['comment']}" for each in facts["blocked_by"]],
        paper,
    )
    yield from _field("next", [_coming(each) for each in facts["next"]], paper)
    yield from _entries(facts, paper)
    yield from _neighbours("needs", facts["needs"], paper)
    yield from _neighbours("needed by", facts["needed_by"], paper)


def _field(heading: str, said: list[str], paper: Paper) -> Iterator[str]:
    for number, line in enumerate(each for text in said for each in paper.lines(text, ASIDE)):
        yield f"{paper.dim(('' if number else heading).ljust(ASIDE))}{line}"


def _last(facts: Facts) -> Iterator[str]:
    """Yield the time, cause and outcome of the last run."""
    last = facts["last"]
    if facts["running"]:
        since = "" if facts["running_for"] is None else f", for {duration(facts['running_for'])} now"
        yield f"it runs{since}"
    if last is None:
        yield "it has not run since the agent was started"
        return
    took = f", took {duration(last['duration'])}" if last["ran"] else ""
    tried = f", {last['attempts']} attempts" if last["attempts"] > 1 else ""
    yield f"{ago(last['at'])}{took}{tried}" if last["at"] else "it could not run"
    by = f": {', '.join(last['by'])}" if last["by"] else ""
    undone = f"; {last['undone']}" if last.get("undone") else ""  # an older agent, before an upgrade, does not send it
    yield f"because {CAUSES.get(last['cause'], last['cause'])}{by}{undone}{_origin(last, last.get('changed_by'))}"
    if last["comment"]:
        yield last["comment"]
    change = facts["last_change"]
    if change:
        yield f"changed last {ago(change['at'])} ({change['cause']}{_origin(change, change.get('by'))})"


def _origin(facts: Facts, by: Facts | None) -> str:
    """Return what has caused a drift, as far as it is known. An older agent does not send it."""
    ended = f"; {facts['ended']}" if facts.get("ended") else ""
    return f"{ended}; changed by {Author.of(by)}" if by and by.get("way") == "host" else ended


def _waits(facts: Facts) -> Iterator[str]:
    for wait in facts["waits"]:
        yield f"{wait['text']}{':' if wait['who'] else ''}"
        yield from (f"  {each['identity']} ({each['state']})" for each in wait["who"])
        if wait["more"]:
            yield f"  and {wait['more']} more"


def _coming(step: Facts) -> str:
    when = span(step["in"]) if step.get("in") is not None else ""
    return NEXT.get(step["what"], str(step["what"])).format(
        when=when, cause=step.get("cause"), every=step.get("every") or 0
    )


def _entries(facts: Facts, paper: Paper) -> Iterator[str]:
    """Yield changes and failures, newest first."""
    if not facts["history"]:
        return
    yield paper.dim("history")
    for entry in facts["history"]:
        head = f"  {clock(entry['at'])} "
        took = f"{duration(entry['duration']):>7}  {entry['cause']}"
        undone = f", {entry['undone']}" if entry.get("undone") else ""
        times = f", {entry['times']} times since {clock(entry['first'])}" if entry["times"] > 1 else ""
        used, said = columns(head) + 11, f"{took}{times}{undone}{_origin(entry, entry.get('by'))}"
        if entry["comment"] and not paper.narrow:
            said += f": {entry['comment']}"
        first, *rest = paper.lines(said, used)
        yield f"{paper.dim(head)}{paper.state(entry['what'], entry['what'].ljust(10))} {first}"
        yield from (" " * used + line for line in rest)
        if entry["comment"] and paper.narrow:
            yield from (f"    {line}" for line in paper.lines(entry["comment"], 4))


def _neighbours(heading: str, rows: list[Facts], paper: Paper) -> Iterator[str]:
    """Yield neighbours on one side, each with its state; an identity that is too long continues on the next line."""
    if not rows:
        return
    yield paper.dim(heading)
    shown = [(row, f"  {row['pending']} pending" if row.get("pending") else "") for row in rows[:MOST]]
    width, used = max(columns(one_line(row["identity"])) for row, _ in shown), 0
    if paper.width is not None:
        behind = REQUISITE + max(columns(f"  {row['state']}{pending}") for row, pending in shown)
        width = min(width, max(10, paper.width - behind))
        used = paper.width - width
    for row, pending in shown:
        *above, last = paper.lines(row["identity"], used)
        heads = [f"  {row['requisite']:14} ", *[" " * REQUISITE] * len(above)]
        yield from (f"{head}{line}" for head, line in zip(heads, above, strict=False))
        yield f"{heads[-1]}{pad(last, width)}  {paper.state(row['state'])}{paper.paint('33', pending)}"
    if len(rows) > MOST:
        yield paper.dim(f"  and {len(rows) - MOST} more (--format json has them all)")
