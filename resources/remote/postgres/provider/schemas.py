"""Schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from psycopg import sql

import identifiers
from contained import Contained
from holdfast import plugin
from managed import SeenResource, WantedResource, given
from schema_stub import Schema, SchemaOperations
from sessions import NoDatabase, Session

QUERY: LiteralString = """
    SELECT nspname AS name, oid::bigint AS oid, pg_get_userbyid(nspowner) AS owner,
        coalesce(obj_description(oid, 'pg_namespace'), '') AS comment
    FROM pg_namespace WHERE nspname = ANY(%s)
"""

RELATIONS: LiteralString = """
    SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname = %s AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass
            AND deptype = 'e')
    ORDER BY 1 LIMIT 3
"""


class Schemas(Contained[Schema], SchemaOperations):
    """Schemas; one query reads all of those in a database."""

    named = ("database", "name", "owner")

    def identifier(self, inputs: Schema) -> str:
        """Return database and name."""
        return identifiers.joined(inputs.database, inputs.name)

    def refused(self, inputs: Schema) -> Sequence[plugin.Violation]:
        """Refuse reserved names."""
        if not inputs.name.startswith("pg_"):
            return ()
        return [plugin.Violation("rule", "name", "the server reserves names that begin with 'pg_'")]

    async def find(
        self, session: Session, wanted: Sequence[WantedResource[Schema]]
    ) -> Sequence[SeenResource[Schema] | None]:
        """Read schemas."""
        rows = {row["name"]: row for row in await session.rows(QUERY, [each.names[1] for each in wanted])}
        return [
            SeenResource(Schema(**rows[name], database=session.database, cascade=each.inputs.cascade), rows[name])
            if (name := each.names[1]) in rows
            else None
            for each in wanted
        ]

    async def make(self, session: Session, inputs: Schema) -> None:
        """Create a schema."""
        if inputs.owner is plugin.UNSET:
            await session.do("CREATE SCHEMA {}", inputs.name)
        else:
            await session.do("CREATE SCHEMA {} AUTHORIZATION {}", inputs.name, inputs.owner)
        if given(inputs.comment, ""):
            await session.do("COMMENT ON SCHEMA {} IS {}", inputs.name, sql.Literal(inputs.comment))

    async def alter(self, session: Session, seen: SeenResource[Schema], inputs: Schema) -> None:
        """Change what differs."""
        if inputs.owner not in (plugin.UNSET, seen.state.owner):
            await session.do("ALTER SCHEMA {} OWNER TO {}", inputs.name, inputs.owner)
        if inputs.comment not in (plugin.UNSET, seen.state.comment):
            await session.do("COMMENT ON SCHEMA {} IS {}", inputs.name, sql.Literal(inputs.comment or None))

    async def refusal(self, found: plugin.Found[Schema]) -> str:
        """Return that a schema has tables.

        Extensions in it do not count: they may be managed, and are then dropped first.
        """
        if found.state.cascade is True:
            return ""
        try:
            async with self.sessions.session(found.state.database) as session:
                rows = await session.rows(RELATIONS, found.state.name)
        except NoDatabase:
            return ""
        names = ", ".join(row["relname"] for row in rows)
        told = f"the schema {found.state.name!r} is not empty ({names})"
        return f"{told}: to drop it with all that is in it, declare `cascade: true`" if rows else ""

    async def drop(self, session: Session, seen: SeenResource[Schema]) -> None:
        """Drop the schema. One that is not empty is dropped only with `cascade`."""
        await session.do("DROP SCHEMA {} CASCADE" if seen.state.cascade is True else "DROP SCHEMA {}", seen.state.name)
