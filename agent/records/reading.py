"""The records for a process that does not own them: it only reads the file, and does not create it.

It works beside the agent and without one. SQLite may create its files beside the database. All functions block.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.agent.northbound.drivers import sqlite_tables
from holdfast.agent.northbound.drivers.base import TableRow
from holdfast.agent.northbound.drivers.sqlite_tables import LAYOUT
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.paths import demand_safe
from holdfast.agent.sqlite_files import beside, code, damaged, status

TIMEOUT = 5.0
"""Seconds for which a query waits for another process."""


class RecordReader:
    """An open file of records. Raises `Unavailable` if there is none or it cannot be read, and `HoldfastError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        """Open the file."""
        demand_safe(self._path, "read the records in", "give its directory to root, and let only root write there")
        if status(self._path) is None:
            raise Unavailable(f"there are no records: {self._path} does not exist; the agent creates it at its start")
        with self._explained():
            self._db = self._opened()
            (layout,) = self._db.execute("pragma user_version").fetchone()
        if layout != LAYOUT:
            self._db.close()
            raise Unavailable(
                f"cannot read {self._path}: it has the layout {layout}, and this version knows {LAYOUT}: use the "
                "version that wrote it"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._db.close()

    def scan(
        self,
        table: str,
        *,
        after: str = "",
        before: str = "",
        limit: int = 100,
        newest: bool = False,
        containing: Sequence[bytes] = (),
    ) -> list[TableRow]:
        """Return at most `limit` rows of a table in the order of their IDs; `newest`: from the greatest downwards.

        `containing`: only rows whose data contain all of these texts.
        """
        query = partial(sqlite_tables.scan, after=after, before=before, limit=limit, newest=newest)
        with self._explained():
            return query(self._db, table, containing=containing)

    def get(self, table: str, id: str) -> TableRow | None:
        """Return a row; None if there is none."""
        with self._explained():
            return sqlite_tables.get(self._db, table, id)

    def rows(self) -> Iterator[TableRow]:
        """Yield all rows at one revision, in the order of their tables and IDs."""
        with self._explained():
            query = "select tbl, id, data, revision, created from rows order by tbl, id"
            for row in self._db.execute(query):
                yield TableRow(*row)

    def damage(self) -> list[str]:
        """Return the damage that SQLite finds in the file; empty if there is none."""
        with self._explained():
            found = [str(text) for (text,) in self._db.execute("pragma integrity_check(20)")]
        return [] if found == ["ok"] else found

    def _opened(self) -> sqlite3.Connection:
        """Connect. A file without its log on a read-only file system is opened as immutable."""
        try:
            return self._connected("mode=ro")
        except sqlite3.OperationalError as error:
            log = status(beside(self._path, "-wal"))
            if code(error) != sqlite3.SQLITE_CANTOPEN or (log and log.st_size):
                raise
            return self._connected("mode=ro&immutable=1")

    def _connected(self, mode: str) -> sqlite3.Connection:
        name = str(self._path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        db = sqlite3.connect(
            f"file:{name}?{mode}", uri=True, timeout=TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("pragma trusted_schema = off")
            db.execute("select revision from state").fetchone()
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise `Unavailable` instead of the errors of SQLite."""
        try:
            yield
        except sqlite3.Error as error:
            advice = "; the agent replaces it when it is started" if damaged(error) else ""
            raise Unavailable(f"cannot read {self._path}: {error}{advice}") from error
