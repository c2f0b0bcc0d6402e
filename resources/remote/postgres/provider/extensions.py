"""Extensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import sql

import identifiers
from contained import Contained
from extension_stub import Extension, ExtensionOperations
from holdfast import plugin
from managed import SeenResource, WantedResource
from sessions import Session

QUERY: LiteralString = """
    SELECT extname AS name, e.oid::bigint AS oid, extversion AS version, nspname AS schema
    FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = ANY(%s)
"""
FIXED: LiteralString = """
    SELECT v.schema FROM pg_available_extensions a
    LEFT JOIN pg_available_extension_versions v ON v.name = a.name AND v.version = coalesce(%s, a.default_version)
    WHERE a.name = %s
"""
"""Finds the schema that an extension demands, if any."""


class Extensions(Contained[Extension], ExtensionOperations):
    """Extensions; one query reads all of those in a database."""

    named = ("database", "name")

    def identifier(self, inputs: Extension) -> str:
        """Return database and name."""
        return identifiers.joined(inputs.database, inputs.name)

    def refused(self, inputs: Extension) -> Sequence[plugin.Violation]:
        """Refuse a schema of another database."""
        return identifiers.wrong_schema("schema", inputs.schema, inputs.database)

    async def find(
        self, session: Session, wanted: Sequence[WantedResource[Extension]]
    ) -> Sequence[SeenResource[Extension] | None]:
        """Read extensions."""
        rows = {row["name"]: row for row in await session.rows(QUERY, [each.names[1] for each in wanted])}
        return [self._seen(session, rows.get(each.names[1]), each.inputs) for each in wanted]

    def _seen(self, session: Session, row: dict[str, Any] | None, inputs: Extension) -> SeenResource[Extension] | None:
        if row is None:
            return None
        values: dict[str, Any] = {**row, "schema": identifiers.joined(session.database, str(row["schema"]))}
        return SeenResource(Extension(**values, database=session.database, cascade=inputs.cascade), row)

    async def make(self, session: Session, inputs: Extension) -> None:
        """Install an extension."""
        version = None if inputs.version is plugin.UNSET else inputs.version
        rows = await session.rows(FIXED, version, inputs.name)
        if not rows:
            raise plugin.Permanent(f"the server has no files of the extension {inputs.name!r}: install its package")
        options: list[sql.Composable] = [
            sql.SQL("SCHEMA {}").format(sql.Identifier(_schema(inputs) or rows[0]["schema"] or "public"))
        ]
        if version is not None:
            options.append(sql.SQL("VERSION {}").format(sql.Literal(version)))
        if inputs.cascade is True:
            options.append(sql.SQL("CASCADE"))
        await session.do("CREATE EXTENSION {} {}", inputs.name, sql.SQL(" ").join(options))

    async def alter(self, session: Session, seen: SeenResource[Extension], inputs: Extension) -> None:
        """Change version and schema, if they differ."""
        if inputs.version not in (plugin.UNSET, seen.state.version):
            await session.do("ALTER EXTENSION {} UPDATE TO {}", inputs.name, sql.Literal(inputs.version))
        if inputs.schema not in (plugin.UNSET, seen.state.schema):
            await session.do("ALTER EXTENSION {} SET SCHEMA {}", inputs.name, _schema(inputs))

    async def drop(self, session: Session, seen: SeenResource[Extension]) -> None:
        """Drop the extension; what depends on it is dropped only with `cascade`."""
        cascade = seen.state.cascade is True
        await session.do("DROP EXTENSION {} CASCADE" if cascade else "DROP EXTENSION {}", seen.state.name)


def _schema(inputs: Extension) -> str:
    """Return the name of the declared schema; empty if there is none."""
    return identifiers.parts(inputs.schema)[1] if isinstance(inputs.schema, str) else ""
