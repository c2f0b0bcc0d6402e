"""Databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, LiteralString

from psycopg import sql

from database_stub import Database, DatabaseOperations
from events import Events
from holdfast import plugin
from managed import SeenResource, Single, WantedResource, given
from sessions import NoDatabase, Session, Sessions

INTERRUPTED = -2
"""Limit of connections that marks a database whose DROP was interrupted. Such a database is unusable."""
QUERY: LiteralString = """
    SELECT datname AS name, oid::bigint AS oid, pg_get_userbyid(datdba) AS owner,
        pg_encoding_to_char(encoding) AS encoding, datcollate AS collation, datctype AS character_type,
        datconnlimit AS connection_limit, datallowconn AS allow_connections, datistemplate AS is_template,
        coalesce(shobj_description(oid, 'pg_database'), '') AS comment
    FROM pg_database WHERE datname = ANY(%s)
"""
RELATIONS: LiteralString = """
    SELECT count(*) OVER () AS number, format('%I.%I', nspname, relname) AS name
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'm', 'f') AND relpersistence <> 't'
        AND nspname <> 'information_schema' AND nspname !~ '^pg_'
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass
            AND deptype = 'e')
    ORDER BY 2 LIMIT 3
"""
OPTIONS: Mapping[str, LiteralString] = {
    "connection_limit": "CONNECTION LIMIT {}",
    "allow_connections": "ALLOW_CONNECTIONS {}",
    "is_template": "IS_TEMPLATE {}",
}
"""Field -> option of CREATE DATABASE and ALTER DATABASE."""
CREATION: Mapping[str, LiteralString] = {
    "encoding": "ENCODING {}",
    "collation": "LC_COLLATE {}",
    "character_type": "LC_CTYPE {}",
}
"""Field -> option of CREATE DATABASE alone."""


class Databases(Single[Database], DatabaseOperations):
    """Databases; one query reads all. The server creates and drops them outside of transactions."""

    in_transaction = False
    named = ("name", "owner", "template")

    def __init__(self, sessions: Sessions, events: Events) -> None:
        super().__init__(sessions)
        self._events = events

    def identifier(self, inputs: Database) -> str:
        """Return the name."""
        return inputs.name

    async def find(
        self, session: Session, wanted: Sequence[WantedResource[Database]]
    ) -> Sequence[SeenResource[Database] | None]:
        """Read databases, without those whose DROP was interrupted."""
        rows = {row["name"]: row for row in await session.rows(QUERY, [each.names[0] for each in wanted])}
        return [_seen(rows.get(each.names[0]), each.inputs) for each in wanted]

    async def make(self, session: Session, inputs: Database) -> None:
        """Create a database."""
        rows = await session.rows(QUERY, [inputs.name])
        if rows and rows[0]["connection_limit"] == INTERRUPTED:
            await session.do("DROP DATABASE {}", inputs.name)
        options = [*_options(CREATION, None, inputs), *_options(OPTIONS, None, inputs)]
        for word, name in (("OWNER {}", inputs.owner), ("TEMPLATE {}", inputs.template)):
            if name is not plugin.UNSET:
                options.append(sql.SQL(word).format(sql.Identifier(name)))
        template = given(inputs.template, "")
        try:
            if template:
                await self._free(template)
            await session.do("CREATE DATABASE {} {}", inputs.name, sql.SQL(" ").join(options))
        finally:
            self._events.again(template)
        self._events.again(inputs.name)

    async def create(self, inputs: Database) -> plugin.Found[Database]:
        """Create a database, and then its comment. If the comment fails, the database exists without it."""
        plain = replace(inputs, comment=plugin.UNSET)
        found = await super().create(plain)
        if not given(inputs.comment, ""):
            return found
        try:
            return await self.update(found, inputs)
        except (plugin.Temporary, plugin.Permanent, plugin.Conflict) as error:
            raise plugin.Partial(str(error), found) from None

    async def alter(self, session: Session, seen: SeenResource[Database], inputs: Database) -> None:
        """Change what differs."""
        options = _options(OPTIONS, seen.state, inputs)
        if options:
            await session.do("ALTER DATABASE {} WITH {}", inputs.name, sql.SQL(" ").join(options))
        if inputs.owner not in (plugin.UNSET, seen.state.owner):
            await session.do("ALTER DATABASE {} OWNER TO {}", inputs.name, inputs.owner)
        if inputs.comment not in (plugin.UNSET, seen.state.comment):
            await session.do("COMMENT ON DATABASE {} IS {}", inputs.name, sql.Literal(inputs.comment or None))

    async def drop(self, session: Session, seen: SeenResource[Database]) -> None:
        """Drop a database. One that has tables is dropped only with `cascade`."""
        name, cascade = seen.state.name, seen.state.cascade is True
        if why := await self._kept(seen.state):
            raise plugin.Permanent(why)
        try:
            await self._free(name)
            if seen.state.is_template:
                await session.do("ALTER DATABASE {} WITH IS_TEMPLATE false", name)
            await session.do("DROP DATABASE {} WITH (FORCE)" if cascade else "DROP DATABASE {}", name)
        except BaseException:
            self._events.again(name)
            raise

    async def refusal(self, found: plugin.Found[Database]) -> str:
        """Return why a database must not be dropped: it has tables, or the provider is connected to it."""
        try:
            return await self._kept(found.state)
        except NoDatabase:
            return ""

    async def _kept(self, state: Database) -> str:
        """Return why a database is not dropped, such as the tables that it has; empty if it can be dropped."""
        if state.name == self.sessions.config["database"]:
            told = f"the provider is connected to the database {state.name!r}: to drop it, name another one"
            return f"{told} as `database` in its configuration"
        if state.cascade is True:
            return ""
        async with self.sessions.session(state.name) as inside:
            rows = await inside.rows(RELATIONS)
        if not rows:
            return ""
        names = ", ".join(row["name"] for row in rows) + (", ..." if rows[0]["number"] > len(rows) else "")
        told = f"the database {state.name!r} has tables ({rows[0]['number']}: {names})"
        return f"{told}: to drop it with them, declare `cascade: true`"

    async def _free(self, name: str) -> None:
        """Close the provider's own connections to a database, which prevent copying and dropping it."""
        await self._events.leave(name)
        await self.sessions.leave(name)


def _seen(row: dict[str, Any] | None, inputs: Database) -> SeenResource[Database] | None:
    if row is None or row["connection_limit"] == INTERRUPTED:
        return None
    return SeenResource(Database(**row, template=inputs.template, cascade=inputs.cascade), row)


def _options(words: Mapping[str, LiteralString], before: Database | None, inputs: Database) -> list[sql.Composable]:
    """Return the options that differ from the state before; without a state, all that are given."""
    found: list[sql.Composable] = []
    for field, word in words.items():
        value = getattr(inputs, field)
        if value is not plugin.UNSET and (before is None or value != getattr(before, field)):
            found.append(sql.SQL(word).format(sql.Literal(value)))
    return found
