"""Changes within databases, reported at once by event triggers of the provider.

While anything is watched, the provider follows each database from which a resource was read: a connection listens
there, and two event triggers in a schema of the provider notify it of statements that may concern schemas, extensions
or privileges. Only a superuser can create event triggers. The database is also polled every `poll` seconds, which finds
changes without them, and notices if they were removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import LiteralString

import psycopg
from psycopg import sql

from holdfast import plugin
from sessions import Connection, NoDatabase, Sessions, failures

log = logging.getLogger("holdfast.plugin.postgres")
CHANNEL: LiteralString = "holdfast"
SHORTEST, LONGEST = 0.5, 5.0
"""Seconds before the provider connects again: at first, and at most."""
PAUSE = 0.02
"""Seconds between two reports of a database that changes all the time."""
TAGS: LiteralString = """
    'ALTER AGGREGATE', 'ALTER DEFAULT PRIVILEGES', 'ALTER EXTENSION', 'ALTER FOREIGN TABLE', 'ALTER FUNCTION',
    'ALTER MATERIALIZED VIEW', 'ALTER PROCEDURE', 'ALTER ROUTINE', 'ALTER SCHEMA', 'ALTER SEQUENCE', 'ALTER TABLE',
    'ALTER VIEW', 'COMMENT', 'CREATE AGGREGATE', 'CREATE EXTENSION', 'CREATE FOREIGN TABLE', 'CREATE FUNCTION',
    'CREATE MATERIALIZED VIEW', 'CREATE PROCEDURE', 'CREATE SCHEMA', 'CREATE SEQUENCE', 'CREATE TABLE',
    'CREATE TABLE AS', 'CREATE VIEW', 'DROP OWNED', 'GRANT', 'IMPORT FOREIGN SCHEMA', 'REVOKE',
    'SELECT INTO'
"""
"""Statements that may change what the provider manages."""
BODY: LiteralString = """
BEGIN
    -- A temporary object concerns nobody else; to notify would slow down programs that make many.
    IF tg_event = 'sql_drop' THEN
        IF NOT EXISTS (SELECT FROM pg_event_trigger_dropped_objects() WHERE NOT is_temporary) THEN RETURN; END IF;
    ELSIF EXISTS (SELECT FROM pg_event_trigger_ddl_commands())
        AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp')
    THEN RETURN; END IF;
    PERFORM pg_notify('holdfast', '');
END
"""
PRESENT: LiteralString = """
    SELECT count(*) AS number FROM pg_event_trigger t JOIN pg_proc p ON p.oid = evtfoid
        JOIN pg_namespace n ON n.oid = pronamespace
    WHERE nspname = %s AND evtname IN (nspname || '_changed', nspname || '_dropped') AND evtenabled IN ('O', 'A')
        AND nspowner = evtowner AND proowner = evtowner AND prosrc = %s
"""
STRANGERS: LiteralString = """
    SELECT pg_get_userbyid(nspowner) AS owner FROM pg_namespace WHERE nspname = %s
        AND (nspowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
            OR EXISTS (SELECT FROM aclexplode(nspacl) WHERE privilege_type = 'CREATE' AND grantee <> nspowner))
"""
"""Finds the schema of the event triggers if another user could put functions into it, which superusers would
execute."""


class Events:
    """The databases that are followed, and the watches that are notified when one of them may have changed."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._wanted: set[str] = set()
        """The databases of resources that were read."""
        self._watches: set[ChangedDatabases] = set()
        self._noop = False
        """Whether the agent is in noop: then no event triggers are created."""

    @asynccontextmanager
    async def watched(self, *, noop: bool) -> AsyncIterator[ChangedDatabases]:
        """Yield the changes from now on. When the last watch ends, all connections are closed."""
        changes, self._noop = ChangedDatabases(), noop
        self._watches.add(changes)
        try:
            yield changes
        finally:
            self._watches.discard(changes)
            if not self._watches:
                await asyncio.gather(*map(self.leave, list(self._followers)))

    def follow(self, database: str, *, exists: bool = True) -> None:
        """Follow a database, if anything is watched.

        A database that does not exist is followed once the provider creates it.
        """
        self._wanted.add(database)
        if exists and self._watches and database not in self._followers:
            self._followers[database] = asyncio.create_task(self._follow(database))

    def again(self, database: str) -> None:
        """Follow a database that `follow` has requested and whose connection was closed, or which did not exist."""
        if database in self._wanted:
            self.follow(database)

    async def leave(self, database: str) -> None:
        """Close the connection to a database, until it is followed again."""
        task = self._followers.pop(database, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _tell(self, database: str, why: str = "") -> None:
        for each in self._watches:
            each.add(database, why)

    async def _follow(self, database: str) -> None:
        """Notify the watches whenever a database may have changed, until the database no longer exists.

        While the database cannot be reached, each watch reports why.
        """
        wait = SHORTEST
        while True:
            try:
                with failures():
                    async with await self._sessions.connect(database) as connection:
                        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                        async for _ in self._turns(connection, database):
                            self._tell(database)
                            wait = SHORTEST
            except NoDatabase:
                self._followers.pop(database, None)
                self._tell(database)
                return
            except (plugin.Temporary, plugin.Permanent) as error:
                self._tell(database, f"the database {database!r} is not watched: {error}")
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST)

    async def _turns(self, connection: Connection, database: str) -> AsyncIterator[None]:
        """Yield when the database may have changed: at the start, after a notification, every `poll` seconds."""
        config, told = self._sessions.config, ""
        while True:
            hindrance = await arm(connection, str(config["event_schema"]), noop=self._noop)
            if hindrance not in ("", told):
                log.info("the database %s is polled every %s s: %s", database, config["poll"], hindrance)
            told = hindrance
            yield
            await asyncio.sleep(PAUSE)
            async for _ in connection.notifies(timeout=float(config["poll"]), stop_after=1):
                pass


class ChangedDatabases:
    """Databases that may have changed since they were last taken, or whose changes are not seen."""

    def __init__(self) -> None:
        self._databases: dict[str, str] = {}
        """Database -> why its changes are not seen; empty: it may have changed."""
        self._some = asyncio.Event()

    def add(self, database: str, why: str = "") -> None:
        """Add a database, or replace its entry."""
        self._databases[database] = why
        self._some.set()

    async def take(self) -> tuple[str, str]:
        """Wait for a database, and return its name, with the reason if its changes are not seen."""
        await self._some.wait()
        database = next(iter(self._databases))
        why = self._databases.pop(database)
        if not self._databases:
            self._some.clear()
        return database, why


async def arm(connection: Connection, schema: str, *, noop: bool = False) -> str:
    """Create the event triggers of a database, unless `noop`. Return why there are none; empty if there are."""
    if not schema:
        return "`event_schema` is empty"
    present = await (await connection.execute(PRESENT, [schema, BODY])).fetchone()
    if present is not None and present["number"] == 2:
        return ""
    if noop:
        return "the agent is in noop, so no event triggers are created"
    if hindrance := await _hindrance(connection, schema):
        return hindrance
    try:
        await _install(connection, schema)
    except psycopg.Error as error:
        if connection.closed:
            raise
        return f"the event triggers cannot be created: {error.diag.message_primary or error}"
    return ""


async def _hindrance(connection: Connection, schema: str) -> str:
    """Return why no event triggers may be created; empty if they may."""
    if connection.info.parameter_status("is_superuser") != "on":
        return f"{connection.info.user} is not a superuser, so it cannot create event triggers"
    if connection.info.parameter_status("in_hot_standby") == "on":
        return "the server is a standby"
    strange = await (await connection.execute(STRANGERS, [schema])).fetchone()
    if strange is not None:
        return f"the schema {schema!r} belongs to {strange['owner']}, or others may create objects in it"
    return ""


async def _install(connection: Connection, schema: str) -> None:
    """Create the schema, the function and the event triggers, or replace them."""
    names = {
        "schema": sql.Identifier(schema),
        "function": sql.Identifier(schema, "notify"),
        "changed": sql.Identifier(f"{schema}_changed"),
        "dropped": sql.Identifier(f"{schema}_dropped"),
        "body": sql.Literal(BODY),
    }
    statements = (
        "CREATE SCHEMA IF NOT EXISTS {schema}",
        "COMMENT ON SCHEMA {schema} IS 'event triggers by which Holdfast learns of changes'",
        "DROP EVENT TRIGGER IF EXISTS {changed}",
        "DROP EVENT TRIGGER IF EXISTS {dropped}",
        "DROP FUNCTION IF EXISTS {function}()",
        "CREATE FUNCTION {function}() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog AS {body}",
        "CREATE EVENT TRIGGER {changed} ON ddl_command_end WHEN TAG IN (" + TAGS + ") EXECUTE FUNCTION {function}()",
        "CREATE EVENT TRIGGER {dropped} ON sql_drop EXECUTE FUNCTION {function}()",
    )
    async with connection.transaction():
        for each in statements:
            await connection.execute(sql.SQL(each).format(**names))
