"""Passes, changes and notes of this host, newest first, for `holdfast history` and the older lines of the log.

They are read in pages, so that an answer takes little memory. All functions block.
"""

from __future__ import annotations

import heapq
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from holdfast.agent.control.log_filter import names
from holdfast.agent.northbound.drivers.base import TableRow
from holdfast.agent.records.ids import first_id_of, time_of
from holdfast.agent.records.reading import RecordReader
from holdfast.agent.records.rows import change_of, read, readable

PAGE = 200
"""Rows that are read at once."""
WILDCARDS = re.compile(r"[*?]+")
"""The characters between the literal parts of a pattern of resources."""
LOST = "lost"
"""The `what` of a note where records are missing."""


class HistoryRecord(NamedTuple):
    """A record as it is stored."""

    table: str
    id: str
    values: Mapping[str, Any]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the record, without those of the store, whose names begin with `$`."""
        return {name: value for name, value in self.values.items() if not name.startswith("$")}

    @property
    def time(self) -> float:
        """Time of the beginning. The time of the ID is later if the clock was ahead before: IDs always grow."""
        at = self.values.get("first", self.values.get("at"))
        return at if isinstance(at, (int, float)) else time_of(self.id)


class Chosen(NamedTuple):
    """The conditions of a query; empty or false: no condition.

    Notes have no kind, cause or origin. A note that says that records are missing always matches.
    """

    resource: str = ""
    """An identity, ID, end of a path, or a pattern."""
    kind: str = ""
    cause: str = ""
    origin: str = ""
    failed: bool = False
    review: str = ""
    """State of the review of a drift."""
    after: str = ""
    """Only greater IDs."""
    before: str = ""
    """Only smaller IDs."""
    since: float = 0.0
    """Only records that began at this Unix time or later."""
    until: float = math.inf
    """Only records that began before this Unix time."""

    @property
    def everything(self) -> bool:
        """Whether only the time limits the query."""
        return not (self.resource or self.kind or self.cause or self.origin or self.failed or self.review)

    @property
    def texts(self) -> list[bytes]:
        """Texts that the data of each matching change contain; other changes may contain them as well."""
        result = "failed" if self.failed else ""
        fields = {"kind": self.kind, "cause": self.cause, "origin": self.origin, "result": result}
        fields["review"] = self.review
        found = [f'"{name}":{_json(value)}' for name, value in fields.items() if value]
        words = [_json(word)[1:-1] for word in WILDCARDS.split(self.resource) if word]
        return [each.encode(errors="replace") for each in (*found, *words)]

    @property
    def first(self) -> str:
        """The ID after which all matching records come: no record is younger than its ID."""
        return max(self.after, first_id_of(self.since)) if self.since else self.after

    def time(self, record: HistoryRecord) -> bool:
        """Return whether the time of a record matches."""
        return self.since <= record.time < self.until

    def change(self, values: Mapping[str, Any]) -> bool:
        """Return whether a change matches."""
        return (
            (not self.kind or values.get("kind") == self.kind)
            and (not self.cause or values.get("cause") == self.cause)
            and (not self.origin or values.get("origin") == self.origin)
            and (not self.failed or values.get("result") == "failed")
            and (not self.review or values.get("review") == self.review)
            and (not self.resource or names(self.resource, str(values.get("resource"))))
        )

    def note(self, values: Mapping[str, Any]) -> bool:
        """Return whether a note matches. A note about everything concerns each resource."""
        if values.get("what") == LOST:
            return True
        if self.kind or self.cause or self.origin or self.failed or self.review:
            return False
        about = values.get("about") or ()
        return (
            not self.resource or not about or any(each == self.resource or names(self.resource, each) for each in about)
        )


def newest_first(reader: RecordReader, chosen: Chosen) -> Iterator[HistoryRecord]:
    """Yield the matching records, newest first. A pass matches only if all of its changes do. Raises `Unavailable`."""
    passes = _of(reader, "passes", chosen, newest=True) if chosen.everything else iter(())
    return heapq.merge(*_changes_and_notes(reader, chosen, newest=True), passes, key=attrgetter("id"), reverse=True)


def last(reader: RecordReader, chosen: Chosen, most: int) -> Iterator[HistoryRecord]:
    """Yield at most so many of the last matching changes and notes, oldest first.

    They are read twice, so that only the ID of the first one is in memory. Raises `Unavailable`.
    """
    backwards = heapq.merge(*_changes_and_notes(reader, chosen, newest=True), key=attrgetter("id"), reverse=True)
    too_old = next(islice(backwards, most, None), None)
    rest = chosen._replace(after=too_old.id) if too_old else chosen
    return heapq.merge(*_changes_and_notes(reader, rest, newest=False), key=attrgetter("id"))


def changes(reader: RecordReader, chosen: Chosen, *, newest: bool = True) -> Iterator[HistoryRecord]:
    """Yield the matching changes, newest first or oldest first.

    Raises `Unavailable`. The changes of one resource are found by an index. Otherwise, SQLite skips most changes that
    cannot match, and the others are parsed.
    """
    chosen = chosen._replace(resource=readable(chosen.resource))  # as the records have them
    return (each for each in _changes(reader, chosen, newest=newest) if chosen.change(each.values))


def _changes_and_notes(reader: RecordReader, chosen: Chosen, *, newest: bool) -> list[Iterator[HistoryRecord]]:
    notes = chosen._replace(resource=readable(chosen.resource))
    return [
        changes(reader, chosen, newest=newest),
        (each for each in _of(reader, "notes", chosen, newest=newest) if notes.note(each.values)),
    ]


def oldest(reader: RecordReader) -> Iterator[str]:
    """Yield the IDs of the oldest records, one of each table. Raises `Unavailable`."""
    for table in ("changes", "notes", "passes"):
        yield from (each.id for each in reader.scan(table, limit=1))


def pass_of(change: HistoryRecord, reader: RecordReader) -> HistoryRecord | None:
    """Return the pass of a change; None if it has no record: it was interrupted by a crash, or is still running."""
    row = reader.get("passes", str(change.values.get("run") or ""))
    return _read(row) if row else None


def _changes(reader: RecordReader, chosen: Chosen, *, newest: bool) -> Iterator[HistoryRecord]:
    """Yield changes; those of one resource by the rows that refer to them.

    A text in the form of an identity may be an ID.
    """
    identity, found = chosen.resource, False
    if "[" in identity and identity.endswith("]") and not WILDCARDS.search(identity):
        beginning = f"{identity} "
        bounds = (f"{beginning}{chosen.first}", f"{beginning}{chosen.before or '~'}")
        for each in _rows(reader, "resource_changes", *bounds, newest=newest):
            if (key := change_of(identity, each.id)) and (row := reader.get("changes", key)):
                found = True
                if chosen.time(record := _read(row)):
                    yield record
    if not found:
        yield from _of(reader, "changes", chosen, newest=newest, containing=chosen.texts)


def _of(
    reader: RecordReader, table: str, chosen: Chosen, *, newest: bool, containing: Sequence[bytes] = ()
) -> Iterator[HistoryRecord]:
    found = _rows(reader, table, chosen.first, chosen.before, newest=newest, containing=containing)
    return filter(chosen.time, map(_read, found))


def _rows(
    reader: RecordReader, table: str, after: str, before: str, *, newest: bool, containing: Sequence[bytes] = ()
) -> Iterator[TableRow]:
    """Yield the rows of a table between two IDs, in the order of their IDs or, with `newest`, against it."""
    query = partial(reader.scan, table, limit=PAGE, newest=newest, containing=containing)
    while page := query(after=after, before=before):
        yield from page
        after, before = (after, page[-1].id) if newest else (page[-1].id, before)


def _json(text: str) -> str:
    """Return a text as it is written in the records."""
    return json.dumps(text, ensure_ascii=False)


def _read(row: TableRow) -> HistoryRecord:
    """Return a record. One that cannot be read has no values; `db check` names it."""
    return HistoryRecord(row.table, row.id, read(row))
