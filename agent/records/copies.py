"""Copies of records as JSON lines, and the problems of records, for `holdfast db`. All functions block."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

from holdfast.agent.northbound.drivers.base import TableRow
from holdfast.agent.northbound.errors import Invalid, NorthboundError
from holdfast.agent.northbound.registry import registry
from holdfast.agent.records import models, remote_records, world_records  # noqa: F401 - they register models
from holdfast.agent.records.reading import RecordReader

PLACES = frozenset({models.Published.table})
"""Tables with positions in one database, which mean nothing in a copy."""
LINE = 32 << 20
"""Most bytes of a line."""
KEYS = {"table", "id", "values"}
"""The keys of a line."""


def problems(reader: RecordReader) -> Iterator[str]:
    """Yield the problems of the file and of each record. Raises `Unavailable` if no more can be read."""
    yield from (f"the file is damaged: {each}" for each in reader.damage())
    for row in reader.rows():
        try:
            _demand_readable(row.table, row.id, row.data)
        except Invalid as error:
            yield f"{row.table} {row.id}: {error}"


def lines(reader: RecordReader) -> Iterator[bytes]:
    """Yield each record as a line of JSON. Raises `Unavailable`, and `Invalid` for a record that is not JSON."""
    for row in reader.rows():
        if row.table not in PLACES:
            yield _line(row)


class Lines:
    """The records in a file of such lines; `number` is that of the last line read. Iterating raises `Invalid`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.number = 0

    def __iter__(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield table, ID and data of each record, which its model can read."""
        while line := self._file.readline(LINE):
            self.number += 1
            if len(line) == LINE:
                raise Invalid(f"it has more than {LINE >> 20} MiB")
            if line.strip():
                yield _parsed(line)


def _line(row: TableRow) -> bytes:
    try:
        values = json.loads(row.data)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"cannot export {row.table} {row.id}: {error}; `holdfast db check` lists such records") from None
    line = {"table": row.table, "id": row.id, "values": values}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _parsed(line: bytes) -> tuple[str, str, bytes]:
    """Return the record in a line. Raises `Invalid`."""
    try:
        found = json.loads(line)
        data = json.dumps(found["values"], ensure_ascii=False, separators=(",", ":")).encode()
        table, key = found["table"], found["id"]
    except (ValueError, RecursionError) as error:
        raise Invalid(f"it is not JSON: {error}") from None
    except (TypeError, KeyError):
        raise Invalid("it is not a JSON object with table, id and values") from None
    if found.keys() != KEYS or not isinstance(table, str) or not isinstance(key, str):
        raise Invalid("it is not a JSON object with table, id and values")
    if table in PLACES:
        raise Invalid(f"the records of {table} are for one database only")
    _demand_readable(table, key, data)
    return table, key, data


def _demand_readable(table: str, id: str, data: bytes) -> None:
    """Raise `Invalid` unless the model of the table can read a record as it is."""
    model = registry.tables().get(table)
    if model is None:
        raise Invalid(f"there is no table {table!r}")
    try:
        record = model.decode(data)
        record.demand_whole()
    except NorthboundError as error:
        raise Invalid(str(error)) from None
    if record.newer:
        raise Invalid(f"it has the schema version {record.newer}; this version knows {model.schema_version}")
    if record.id != id:
        raise Invalid(f"its ID is {record.id!r}")
