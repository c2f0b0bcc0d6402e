"""The output of `drift list`, `show` and `keep`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import click

from holdfast.agent.cli.options import print_json, print_rows
from holdfast.agent.cli.terminal import Paper, ago, one_line, say
from holdfast.agent.console import DIFF_COLOURS
from holdfast.agent.host.kept import KeptFiles
from holdfast.agent.kept_bounds import KEPT_BOUNDS
from holdfast.agent.narrate import value_in_words
from holdfast.agent.records.actors import described
from holdfast.agent.records.drifts import DONE, NEW, ORDER, SEEN, demand_drift, drifts, find, mark
from holdfast.agent.records.history import HistoryRecord, pass_of
from holdfast.agent.records.reading import RecordReader
from holdfast.resources.accounts import group_name, user_name
from holdfast.resources.visible import clean
from holdfast.states.source.hostfiles import absolute

GONE = "no longer kept: newer content has taken its room (records.kept)"
INDENT = 14
"""Columns of an ID, or of a heading."""
BELOW = 4
"""Columns by which an identity is indented that does not fit next to its heading."""
COLOURS = {NEW: "1;33", SEEN: "33", DONE: "2"}
"""State of the review -> colour."""

Values = Mapping[str, Any]


def show_list(path: Path, form: str, resource: str, since: float | None, limit: int, *, everything: bool) -> None:
    """Print drifts. Raises `HoldfastError`."""
    reviews, begin = ORDER if everything else (NEW, SEEN), since or 0.0
    with RecordReader(path) as reader:
        found = (each for review in reviews for each in drifts(reader, resource=resource, since=begin, review=review))
        listed = list(islice(found, limit))
        more = next(found, None) is not None
    if form == "json":
        print_rows({"more": more}, "drifts", [_row(each) for each in listed])
        return
    paper = Paper.stdout()
    for each in listed:
        for line in _lines(each.values, paper):
            click.echo(line)
    if listed:
        counts = Counter(each.values["review"] for each in listed)
        told = ", ".join(f"{counts[review]} {review}" for review in ORDER if counts[review])
        say(
            f"{told}{f'; there are more: --limit {2 * limit}' if more else ''}; details: holdfast drift show ID",
            err=True,
        )
    else:
        say("there is no such drift" + ("" if everything else " to review; --all shows those that are done"), err=True)


def show_one(path: Path, word: str, form: str) -> None:
    """Print a drift, and mark it as seen. Raises `HoldfastError`."""
    with RecordReader(path) as reader:
        found = find(reader, word)
        run = pass_of(found, reader)
    files = kept_files(path)
    gone = [each for each in found.values.get("replaced") or () if each.get("sha256") and not _there(files, each)]
    if form == "json":
        print_json({**_row(found), "gone": [each["path"] for each in gone]})
    else:
        paper = Paper.stdout()
        for line in _details(found, paper, gone, run.values if run else {}):
            click.echo(line)
    mark(path, found, SEEN)


def keep(path: Path, word: str, form: str) -> None:
    """Mark a drift as done. Raises `HoldfastError`."""
    with RecordReader(path) as reader:
        found = demand_drift(find(reader, word))
    name, done = found.values["resource"], found.values["review"] == DONE
    if not done:
        mark(path, found, DONE, f"{name} stays as declared (drift {found.id})")
    if form == "json":
        print_json({"id": found.id, "resource": name, "review": DONE})
    elif done:
        say(f"the drift {found.id} of {name} is already done")
    else:
        say(f"{name} stays as declared: the drift {found.id} is done")


def kept_files(path: Path) -> KeptFiles:
    """Return the kept content beside these records."""
    return KeptFiles(absolute(path.parent), KEPT_BOUNDS, durable=True)


def _there(files: KeptFiles, file: Values) -> bool:
    return files.read(file["sha256"]) is not None


def _row(drift: HistoryRecord) -> dict[str, Any]:
    """Return a drift for programs."""
    return {"repaired": drift.values["result"] == "changed", **drift.fields}


def _lines(values: Values, paper: Paper) -> Iterator[str]:
    """Yield one drift of the list."""
    review, when = str(values["review"]), ago(values["at"])
    head = f"{values['id']}  {paper.paint(COLOURS[review], f'{review:<4}')}  {when:<11} "
    used = INDENT + 19
    text = f"{_repaired(values)} {values['resource']}"
    yield from paper.beside(head, text, used, BELOW)
    if who := described(values.get("by")):
        yield from (" " * used + paper.dim(line) for line in paper.lines(f"by {who}", used))


def _repaired(values: Values) -> str:
    return str(values["what"]) if values["result"] == "changed" else f"not repaired, {values['what']}"


def _details(drift: HistoryRecord, paper: Paper, gone: list[Values], run: Values) -> Iterator[str]:
    """Yield everything about one drift."""
    values = drift.values
    yield paper.bold(one_line(values["resource"]))
    for name, text in _facts(drift, run):
        yield from _said(name, text, paper)
    for name, old in (values.get("before") or {}).items():
        yield from _said("was", f"{name}: {value_in_words(old)}", paper)
    for file in values.get("replaced") or ():
        yield from _said("replaced", _file_in_words(file, gone=file in gone), paper)
    for name, change in (values.get("changes") or {}).items():
        if name != "diff":
            yield from _said("change", f"{name}: {_change_in_words(change)}", paper)
    for line in clean(str(values.get("diff") or "")).splitlines():
        yield paper.paint(DIFF_COLOURS[line[:1]], line) if line[:1] in DIFF_COLOURS else line


def _facts(drift: HistoryRecord, run: Values) -> Iterator[tuple[str, str]]:
    values = drift.values
    found = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(values["at"]))
    review = values.get("review")
    yield ("drift", f"{drift.id}, {review}") if review else ("change", f"{drift.id} (origin {values['origin']})")
    yield "found", f"{found}, {ago(values['at'])} ({values['cause']})"
    yield "by", described(values.get("by")) or "unknown"
    yield "repair", f"{_repaired(values)}: {values.get('comment') or 'no comment'}"
    if run:
        yield "pass", f"{run['number']} ({run['cause']})"
    if values.get("undone"):
        yield "undone", str(values["undone"])


def _said(name: str, text: str, paper: Paper) -> Iterator[str]:
    first, *rest = paper.lines(str(text), INDENT)
    yield f"  {paper.dim(f'{name:<{INDENT - 2}}')}{first}"
    yield from (" " * INDENT + line for line in rest)


def _file_in_words(file: Values, *, gone: bool) -> str:
    """Return a file that was replaced: as it was, and what was kept of it."""
    if not file.get("path"):
        return str(file.get("lost"))
    owner = f"{user_name(file.get('uid', 0))}:{group_name(file.get('gid', 0))}"
    known = f"{file['path']}: {file.get('size', 0)} bytes, mode {file.get('mode', 0):04o}, owner {owner}"
    if file.get("link"):
        return f"{file['path']}: a link to {file['link']}, owner {owner}"
    if file.get("lost"):
        return f"{known}; not kept: {file['lost']}"
    if not file.get("sha256"):
        return f"{known}; only owner or mode were changed"
    return f"{known}; {GONE if gone else 'kept'}"


def _change_in_words(change: Any) -> str:
    if isinstance(change, Mapping) and set(change) == {"old", "new"}:
        return f"{value_in_words(change['old'])} -> {value_in_words(change['new'])}"
    return value_in_words(change)
