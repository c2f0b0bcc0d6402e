"""The rows of passes and changes, written without their models: a first run over 50 000 resources writes as many.

A test compares these rows with the models. All texts come from the engine, which has masked the secrets in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from holdfast.agent.engine.model.events import PassRecord
from holdfast.agent.engine.model.outcome import Outcome, Result, result_of
from holdfast.agent.narrate import verb
from holdfast.agent.northbound.drivers.base import Put, TableRow
from holdfast.agent.records.ids import LENGTH
from holdfast.resources.replaced import ReplacedFile

COMMENT, DIFF, VALUE, NAMES = 2000, 65_536, 2000, 200
"""Most characters of a comment, of a diff and of the text of one value; most names of changes."""
MUCH, PARTS = 65_536, 1000
"""Values with more bytes or parts are shortened before they wait, instead of when their record is written."""
PART, FILE = 64, 256
"""Bytes of a part of a value without its text, and of a replaced file."""
LASTING = ("failed", "blocked")
"""Events that extend the previous record when they are repeated; each repair has a record of its own."""
ORIGINS = {
    "start": "start",
    "states changed": "states",
    "grains changed": "states",
    "drift": "drift",
    "poll": "drift",
    "recheck": "drift",
    "command": "command",
    "refresh": "refresh",
}
"""Cause of a run -> origin of its changes. A run with another cause has the origin of the failure before it."""
CUT = " [cut]"
ENCODER = json.JSONEncoder(ensure_ascii=False, default=str, separators=(",", ":"))
"""Writes all rows: `json.dumps` with these arguments would make one for each."""
COUNTED: Sequence[Result] = ("failed", "would-change", "unknown", "skipped")
"""Results that the record of a pass counts, in addition to changes."""


class ChangeEntry(NamedTuple):
    """One record of a change, while it is in memory."""

    id: str
    outcome: Outcome
    what: str
    at: float
    first: float
    times: int
    run: str
    origin: str
    by: Mapping[str, Any] | None = None
    size: int = 0
    """Approximate number of bytes that the outcome holds."""


def origin(cause: str, before: ChangeEntry | None) -> str:
    """Return the origin of a run. A retry has that of the failure before it."""
    return ORIGINS.get(cause) or (before.origin if before else "states")


def what_happened(outcome: Outcome, before: ChangeEntry | None) -> str:
    """Return what happened, as a word; empty if no record is needed. `before` is a lasting failure."""
    if outcome.result is False:
        return "blocked" if outcome.blocked else "failed"
    if not outcome.ran:
        return ""
    if outcome.changed or outcome.refreshed:
        return verb(outcome)
    return "recovered" if before else ""


def change(host: str, entry: ChangeEntry) -> list[Put]:
    """Return the rows of a change: the record, and the row that indexes it by resource."""
    outcome, identity = entry.outcome, readable(entry.outcome.identity)
    result: Result = result_of(outcome)
    values: dict[str, Any] = {
        "id": entry.id,
        "host": host,
        "resource": identity,
        "kind": identity.partition("[")[0],
        "at": entry.at,
        "first": entry.first,
        "times": entry.times,
        "what": entry.what,
        "result": "changed" if outcome.refreshed and result == "ok" else result,
        "origin": entry.origin,
        "cause": outcome.cause,
        "run": entry.run or None,
        "duration": round(outcome.duration, 6),
        "comment": cut(outcome.comment, COMMENT),
        "review": "new" if entry.origin == "drift" and result in ("changed", "would-change") else "",
    }
    if outcome.public:
        values["public"] = True
    changes = {name: value for name, value in outcome.changes.items() if name != "diff" or not outcome.diff}
    for name, found in (("changes", changes), ("before", outcome.before)):
        if found:
            values[name] = _values(found)
    if outcome.diff:
        values["diff"] = cut(outcome.diff, DIFF)
    if outcome.undone:
        values["undone"] = outcome.undone
    if outcome.ended:
        values["ended"] = outcome.ended
    if by := outcome.by.fields() if outcome.by else entry.by:
        values["by"] = dict(by)
    if outcome.replaced:
        values["replaced"] = [_replaced(each) for each in outcome.replaced]
    return [
        row("changes", values),
        _finding(f"{identity} {entry.id}"),
    ]


def _finding(id: str) -> Put:
    """Return the row of `resource_changes` with this ID: the same as `row` makes, in a third of the time."""
    return Put("resource_changes", id, f'{{"$v":1,"id":{encode_basestring(id)}}}'.encode(errors="replace"))


def change_of(identity: str, key: str) -> str:
    """Return the ID of the change to which a row of `resource_changes` with this ID refers; empty for another resource.

    The name of another resource may begin with this whole identity and a space.
    """
    return key[-LENGTH:] if len(key) == len(identity) + 1 + LENGTH else ""


def _replaced(file: ReplacedFile) -> dict[str, Any]:
    said = file._replace(path=readable(file.path), link=readable(file.link))
    return {name: value for name, value in said._asdict().items() if value or name == "path"}


def passed(host: str, id: str, record: PassRecord, by: Mapping[str, Any] | None) -> Put:
    """Return the row of a pass that has ended."""
    tally = record.tally
    counts: dict[str, int] = {
        "checked": tally.ran,
        "changed": len(tally.changed),
        **{result: tally.count(result) for result in COUNTED},
    }
    return row(
        "passes",
        {
            "id": id,
            "host": host,
            "number": record.number,
            "cause": record.cause,
            "at": record.started,
            "duration": round(record.duration, 6),
            "converged": record.converged,
            "interrupted": record.broken_off,
            "counts": {name: number for name, number in counts.items() if number},
            "by": dict(by) if by else None,
        },
    )


class Wrong(NamedTuple):
    """The way in which a resource is not as declared."""

    result: str
    comment: str
    since: float

    @classmethod
    def of(cls, outcome: Outcome, since: float) -> Wrong:
        """Return the values of an outcome."""
        return cls(result_of(outcome), cut(outcome.comment, COMMENT), since)


def shortened(outcome: Outcome) -> tuple[Outcome, int]:
    """Return the outcome as it waits to be written, without the parts that its record omits, and its size in bytes."""
    if len(outcome.diff) > DIFF or len(outcome.comment) > COMMENT:
        outcome = outcome._replace(diff=cut(outcome.diff, DIFF), comment=cut(outcome.comment, COMMENT))
    changes, before = _weight(outcome.changes), _weight(outcome.before)
    if changes > MUCH or before > MUCH:
        outcome = outcome._replace(changes=_values(outcome.changes), before=_values(outcome.before))
        changes, before = _weight(outcome.changes), _weight(outcome.before)
    texts = len(outcome.diff) + len(outcome.comment) + len(outcome.identity)
    return outcome, texts + changes + before + FILE * len(outcome.replaced)


def _weight(values: Mapping[str, Any]) -> int:
    """Return the approximate number of bytes of values; more than `MUCH` if they have too many parts to examine."""
    if not values:
        return 0
    found, rest, looked = 0, [*values.values()], 0
    while rest:
        each = rest.pop()
        looked += 1
        if looked + len(rest) > PARTS:
            return MUCH + 1
        if isinstance(each, (str, bytes)):
            found += len(each)
        elif isinstance(each, Mapping):
            rest += [part for pair in islice(each.items(), PARTS) for part in pair]
        elif isinstance(each, (list, tuple, set, frozenset)):
            rest += islice(each, PARTS)
    return found + looked * PART


def status(host: str, identity: str, wrong: Wrong) -> Put:
    """Return the row of a resource that is not as declared."""
    identity = readable(identity)
    return row("resources", {"id": identity, "host": host, "kind": identity.partition("[")[0], **wrong._asdict()})


def row(table: str, values: Mapping[str, Any]) -> Put:
    """Return a row with these values. Characters that are not valid Unicode become `?`."""
    return Put(table, values["id"], ENCODER.encode({"$v": 1, **values}).encode(errors="replace"))


def readable(identity: str) -> str:
    """Return an identity as Unicode text. Bytes of file names that are not valid Unicode are escaped."""
    return identity if identity.isascii() else identity.encode(errors="backslashreplace").decode()


def read(row: TableRow) -> dict[str, Any]:
    """Return the values of a row; none if it cannot be read."""
    try:
        values = json.loads(row.data)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def failure_of(row: TableRow) -> ChangeEntry | None:
    """Return the entry of a record that a failure extends; None if the record is not that of a failure."""
    values = read(row)
    if values.get("what") not in LASTING:
        return None
    blocked = values["what"] == "blocked"
    try:
        outcome = Outcome(
            values["resource"],
            0,
            result=False,
            changes=values.get("changes") or {},
            comment=values["comment"],
            diff=values.get("diff", ""),
            duration=values["duration"],
            ran=values["result"] == "failed",
            reason="requisite_failed" if blocked else "",
            cause=values["cause"],
            undone=values.get("undone", ""),
            ended=values.get("ended", ""),
            public=values.get("public", False),
            replaced=tuple(ReplacedFile(**each) for each in values.get("replaced", ())),
            before=values.get("before") or {},
        )
        at, first, times = float(values["at"]), float(values["first"]), int(values["times"])
        outcome, size = shortened(outcome)
        said = values["what"], at, first, times, values["run"] or "", values["origin"], values.get("by")
        return ChangeEntry(row.id, outcome, *said, size=size)
    except (KeyError, TypeError, ValueError):  # another program has written it
        return None


def cut(text: str, most: int) -> str:
    """Return the text, or its beginning with a mark. A text that was cut stays as it is."""
    return text if len(text) <= most or (len(text) == most + len(CUT) and text.endswith(CUT)) else text[:most] + CUT


def _values(found: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the values of a change as the record has them."""
    return {cut(str(key), VALUE): _bounded(value) for key, value in islice(found.items(), NAMES)}


def _bounded(value: Any) -> Any:
    """Return a value for JSON. A long or deep value becomes a text that is cut."""
    if value is None or isinstance(value, bool) or (isinstance(value, (int, float)) and abs(value) < 1 << 53):
        return value
    if isinstance(value, str):
        return cut(value, VALUE)
    if isinstance(value, Mapping) and set(value) == {"old", "new"}:
        return {name: _bounded(each) for name, each in value.items()}
    try:
        return cut(json.dumps(value, ensure_ascii=False, default=str), VALUE)
    except Exception:  # noqa: BLE001 - kinds report anything: keys that JSON has not, a circle, or very deep
        return f"<{type(value).__name__}>"
