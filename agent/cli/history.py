"""The output of `history`: passes with their changes below, and notes; newest first."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from holdfast.agent.cli.options import print_rows
from holdfast.agent.cli.terminal import Paper, say
from holdfast.agent.console import DIFF_COLOURS
from holdfast.agent.narrate import duration
from holdfast.agent.records.actors import described
from holdfast.agent.records.history import LOST, Chosen, HistoryRecord, newest_first, pass_of
from holdfast.agent.records.ids import time_of
from holdfast.agent.records.reading import RecordReader
from holdfast.agent.records.wording import change_in_words, details_of

COUNTS = {
    "checked": "checked",
    "changed": "changed",
    "would-change": "would change",
    "unknown": "unknown",
    "failed": "failed",
    "skipped": "skipped",
}
"""Count in the record of a pass -> words, in the order in which they are shown."""
STAMP, WHAT, BELOW = 9, 24, 2
"""Columns of a time, of an ID with what happened, and by which more about a change is indented."""


def chosen(since: float | None, until: float | None, **asked: Any) -> Chosen:
    """Return what the options of the verb ask for."""
    until = math.inf if until is None else until
    return Chosen(since=since or 0.0, until=until, **{name: value for name, value in asked.items() if value})


def show(path: Path, form: str, limit: int, asked: Chosen, *, diff: bool) -> None:
    """Print at most `limit` changes and notes, with their passes. Raises `HoldfastError`."""
    with RecordReader(path) as reader:
        found = _Limited(newest_first(reader, asked), limit)
        if form == "json":
            rows = list(map(_row, found))
            print_rows({"older": found.older}, "history", rows)
            return
        page, empty = _Page(reader, Paper.stdout(), diff=diff), True
        for record in found:
            empty = False
            for line in page.told(record):
                click.echo(line)
        sys.stdout.flush()
        if empty:
            say("the records have no such change", err=True)
        elif found.older:
            say(f"older ones: holdfast history --before {found.older}", err=True)


class _Limited:
    """Records until there are `limit` changes and notes; the pass of the last change is one of them, if it follows."""

    def __init__(self, found: Iterator[HistoryRecord], limit: int) -> None:
        self._found, self._limit = found, limit
        self.older: str | None = None
        """ID of the last record, if there are older ones; known at the end."""

    def __iter__(self) -> Iterator[HistoryRecord]:
        """Yield the records."""
        left, run, last = self._limit, None, None
        for record in self._found:
            if not left and (record.table != "passes" or record.id != run):
                self.older = last
                return
            if record.table != "passes":
                left, run = left - 1, record.values.get("run")
            last = record.id
            yield record


def _row(record: HistoryRecord) -> dict[str, Any]:
    """Return a record for programs."""
    return {"table": record.table, "id": record.id, **record.fields}


class _Page:
    """The text of records, newest first: a pass, and below it its changes."""

    def __init__(self, reader: RecordReader, paper: Paper, *, diff: bool) -> None:
        self._reader, self._paper, self._diff = reader, paper, diff
        self._day = ""
        """The day of the last line."""
        self._pass: Mapping[str, Any] = {}
        """The pass whose changes are shown now."""
        self._shown: set[str] = set()
        """IDs of the passes that were shown."""

    def told(self, record: HistoryRecord) -> Iterator[str]:
        """Yield the lines of the next record."""
        values = record.values
        if not values:
            unread = f"a record of {record.table} cannot be read: see `holdfast db check`"
            yield from self._said(record.time, unread)
        elif record.table == "changes":
            yield from self._change(record)
        elif record.table == "passes":
            if record.id not in self._shown:
                yield from self._begin(values)
        else:
            self._pass = {}
            missing = "records are missing: " if values.get("what") == LOST else ""
            yield from self._said(values["at"], f"{missing}{values.get('text') or values['what']}")
            yield from self._asked(values.get("by"), "asked by", 0)

    def _begin(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the lines of a pass."""
        self._pass = values
        self._shown.add(str(values["id"]))
        yield from self._said(values["at"], _pass_in_words(values))
        yield from self._asked(values.get("by"), "asked by", 0)

    def _change(self, record: HistoryRecord) -> Iterator[str]:
        values = record.values
        run = str(values.get("run") or "")
        if run != self._pass.get("id", ""):
            found = pass_of(record, self._reader)
            unfinished = {"id": run, "at": time_of(run) or values["at"]}
            yield from self._begin(found.values if found else unfinished) if run else ()
        what = self._paper.state(values["what"], f"{values['what']:<10}")
        yield from self._said(values["first"], change_in_words(values), f"{self._paper.dim(record.id)} {what} ", WHAT)
        if values["result"] in ("failed", "would-change", "unknown") or values["what"] in ("called", "recovered"):
            yield from self._below(str(values.get("comment", "")), BELOW)
        if values.get("by") != self._pass.get("by"):
            yield from self._asked(values.get("by"), "changed by" if values["origin"] == "drift" else "asked by", BELOW)
        if self._diff:
            yield from (f"{' ' * (STAMP + BELOW)}{self._coloured(line)}" for line in details_of(values))

    def _asked(self, by: Mapping[str, Any] | None, how: str, indent: int) -> Iterator[str]:
        who = described(by)
        yield from self._below(f"{how} {who}", indent) if who else ()

    def _said(self, at: float, text: str, head: str = "", width: int = 0) -> Iterator[str]:
        """Yield a text with its time, after a line with the day if that is another one."""
        then = time.localtime(at)
        day = time.strftime("%A %Y-%m-%d", then)
        if day != self._day:
            self._day = day
            yield self._paper.bold(day)
        head = f"{self._paper.dim(time.strftime('%H:%M:%S', then))} {head}"
        yield from self._paper.beside(head, text, STAMP + width, STAMP + BELOW)

    def _below(self, text: str, indent: int) -> Iterator[str]:
        used = STAMP + indent
        yield from (f"{' ' * used}{line}" for line in self._paper.lines(text, used)) if text else ()

    def _coloured(self, line: str) -> str:
        return self._paper.paint(DIFF_COLOURS.get(line[:1], ""), line) if line[:1] in DIFF_COLOURS else line


def _pass_in_words(values: Mapping[str, Any]) -> str:
    """Return what happened in a pass; one without a record is still running, or was killed."""
    if "number" not in values:
        return "a pass without an end: it is running, or the agent was killed"
    counts = values.get("counts") or {}
    told = ", ".join(f"{counts[name]} {words}" for name, words in COUNTS.items() if counts.get(name))
    end = "interrupted" if values.get("interrupted") else "" if values["converged"] else "not converged"
    text = f"pass {values['number']} ({values['cause']}) in {duration(values['duration'])}: {told or 'nothing to do'}"
    return f"{text}; {end}" if end else text
