"""Connections to the server: a few for each database, opened when they are needed and closed when they are idle.

Every session resolves names only in `pg_catalog`, so that no object of a user is taken for one of the server, and has
timeouts. Errors of the server become temporary or permanent failures.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, dict_row

from holdfast import plugin

IDLE = 10.0
"""Seconds after which an idle connection is closed. An open connection prevents its database from being dropped."""
MOST = 4
"""Greatest number of connections to one database that are used at once."""
BUILDING = 2
"""Greatest number of databases that are created or dropped at once. This may take long; the other connections are for
reading."""
OLDEST = 14
"""Oldest major version of the server."""

AGAIN = ("08", "40", "53", "57P0", "55P03", "55006", "57014", "42710", "42P04", "42P06", "23505")
"""Beginnings of the codes of errors that may not recur at the next attempt.

They are for connections and resources of the server, deadlocks, timeouts, objects that others use, and objects that
others have created at the same time.
"""
QUIET: LiteralString = (
    "SELECT set_config('log_statement', 'none', true), set_config('log_min_duration_statement', '-1', true),"
    " set_config('log_min_duration_sample', '-1', true), set_config('log_min_error_statement', 'panic', true),"
    " set_config('pg_stat_statements.track_utility', 'off', true)"
)
"""Keeps the rest of a transaction out of the log, and out of the statistics of statements."""
UNSAMPLED: LiteralString = "SELECT set_config('log_transaction_sample_rate', '0', false)"
"""Keeps transactions out of the log that the server would sample when they begin."""
CASCADE = "to drop what depends on it as well, declare `cascade: true`"
"""Replaces the server's hint to use DROP ... CASCADE, which is of no use in a state."""
Connection = psycopg.AsyncConnection[DictRow]


class NoDatabase(plugin.Permanent):
    """A database does not exist."""


class Sessions:
    """The connections of the provider."""

    def __init__(self) -> None:
        self.config: Mapping[str, Any] = {}
        self.idle: dict[str, list[tuple[Connection, asyncio.TimerHandle]]] = defaultdict(list)
        """Database -> its idle connections, each with the timer that closes it."""
        self.changes: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(1))
        """Database -> lock that a change holds. Two changes of the same thing would fail: `tuple concurrently updated`.

        A lock of the server is not used: any user could take it, and block all changes.
        """
        self.building = asyncio.Semaphore(BUILDING)
        """Held while a database is created or dropped."""
        self._slots: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(MOST))

    def configure(self, config: Mapping[str, Any]) -> None:
        """Use this configuration for connections from now on."""
        self.config = config

    @asynccontextmanager
    async def turn(self, changes: asyncio.Semaphore, database: str) -> AsyncIterator[None]:
        """Wait until other changes have ended. Raises `Temporary` if this takes longer than the statement timeout."""
        limit = self.config["statement_timeout"]
        try:
            async with asyncio.timeout(limit):
                await changes.acquire()
        except TimeoutError:
            where = f"in the database {database!r}" if database else "of roles or databases"
            raise plugin.Temporary(f"other changes {where} have taken longer than {limit} s") from None
        try:
            yield
        finally:
            changes.release()

    @asynccontextmanager
    async def session(self, database: str = "") -> AsyncIterator[Session]:
        """Yield a session in a database; by default, in the configured one.

        Raises `Temporary`, `Permanent`, and `NoDatabase` if the database does not exist.
        """
        database = database or str(self.config["database"])
        async with self._slots[database]:
            with failures():
                connection = await self._taken(database)
                try:
                    yield Session(self, connection, database)
                except asyncio.CancelledError:
                    await connection.close()
                    raise
                finally:
                    self._give_back(database, connection)

    async def _taken(self, database: str) -> Connection:
        """Return an idle connection."""
        while self.idle[database]:
            connection, timer = self.idle[database].pop()
            timer.cancel()
            if not connection.closed and await _answers(connection):
                return connection
        return await self.connect(database)

    def _give_back(self, database: str, connection: Connection) -> None:
        """Keep a connection for a while, if it is usable."""
        if not connection.closed:
            close = asyncio.get_running_loop().call_later(IDLE, self._expire, database, connection)
            self.idle[database].append((connection, close))

    def _expire(self, database: str, connection: Connection) -> None:
        self.idle[database] = [each for each in self.idle[database] if each[0] is not connection]
        connection.pgconn.finish()

    async def leave(self, database: str) -> None:
        """Close the idle connections to a database."""
        for connection, timer in self.idle.pop(database, []):
            timer.cancel()
            await connection.close()

    async def connect(self, database: str) -> Connection:
        """Return a new connection."""
        try:
            connection = await Connection.connect(
                row_factory=dict_row, autocommit=True, prepare_threshold=None, **self._parameters(database)
            )
        except psycopg.OperationalError:
            await self._demand(database)
            raise
        try:
            await _begin(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _demand(self, database: str) -> None:
        """Raise `NoDatabase` if the server says that a database does not exist.

        A failed connection has no code, and its message is in the language of the server.
        """
        if database != self.config["database"]:
            async with self.session() as session:
                if not await session.rows("SELECT FROM pg_database WHERE datname = %s", database):
                    raise NoDatabase(f"there is no database {database!r}")

    def _parameters(self, database: str) -> dict[str, Any]:
        config = self.config
        limits = {"statement_timeout": config["statement_timeout"], "lock_timeout": config["lock_timeout"]}
        options = " ".join(f"-c {name}={seconds}s" for name, seconds in limits.items())
        given = {
            "host": config["host"],
            "port": config["port"],
            "user": config.get("user"),
            "password": config["password"].value if "password" in config else None,
            "sslmode": config["ssl_mode"],
            "sslrootcert": config.get("ssl_root_certificate"),
            "connect_timeout": config["connect_timeout"],
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
        }
        return {
            **{name: str(value) for name, value in given.items() if value is not None},
            "dbname": database,
            "application_name": "holdfast",
            "client_encoding": "UTF8",
            "options": f"-c search_path=pg_catalog -c timezone=UTC -c client_min_messages=warning {options}",
        }


async def _begin(connection: Connection) -> None:
    """Prepare a new connection. Raises `Permanent` if the server is too old."""
    major = connection.info.server_version // 10000
    if major < OLDEST:
        raise plugin.Permanent(f"the server is PostgreSQL {major}; the provider needs {OLDEST} or newer")
    if connection.info.parameter_status("is_superuser") == "on":
        await connection.execute(UNSAMPLED)


async def _answers(connection: Connection) -> bool:
    """Return whether the server still answers; it may have been started again meanwhile."""
    try:
        await connection.execute("SELECT")
    except BaseException as error:
        await connection.close()
        if isinstance(error, psycopg.Error):
            return False
        raise
    return True


class Session:
    """A connection that one operation uses alone."""

    def __init__(self, sessions: Sessions, connection: Connection, database: str) -> None:
        self.connection = connection
        self.database = database
        self._sessions = sessions

    @property
    def is_superuser(self) -> bool:
        """Whether the role of the provider is a superuser."""
        return self.connection.info.parameter_status("is_superuser") == "on"

    @property
    def version(self) -> int:
        """The version of the server: 150004 for 15.4."""
        return self.connection.info.server_version

    @property
    def user(self) -> str:
        """The role of the provider."""
        return self.connection.info.user

    async def rows(self, query: LiteralString, *values: Any) -> list[DictRow]:
        """Return the rows of a query."""
        return await (await self.connection.execute(query, values or None)).fetchall()

    async def do(self, statement: LiteralString, *parts: Any) -> None:
        """Execute a statement. `parts` replace `{}` in it; texts among them are identifiers."""
        composed = [sql.Identifier(each) if isinstance(each, str) else each for each in parts]
        await self.connection.execute(sql.SQL(statement).format(*composed))

    async def keep_out_of_log(self) -> None:
        """Log no further statements of this transaction, if the server allows that."""
        if self.is_superuser:
            await self.rows(QUIET)


@contextmanager
def failures() -> Iterator[None]:
    """Turn errors of the server into failures, with the server's message and hint."""
    try:
        yield
    except psycopg.Error as error:
        code, said = error.sqlstate or "", _said(error)
        lost = isinstance(error, psycopg.OperationalError) and not code
        temporary = (lost and "authentication" not in said) or code.startswith(AGAIN) or "concurrently" in said
        raise (plugin.Temporary if temporary else plugin.Permanent)(said) from None


def _said(error: psycopg.Error) -> str:
    """Return the server's message, details and hint. A hint for SQL is replaced by one for states."""
    diag = error.diag
    hint = CASCADE if "DROP ... CASCADE" in (diag.message_hint or "") else diag.message_hint
    parts = [each for each in (diag.message_primary, diag.message_detail, hint) if each] or [str(error)]
    lines = [" ".join(line.split()) for each in parts for line in each.splitlines()]
    return "; ".join(line for line in lines if line) or type(error).__name__
