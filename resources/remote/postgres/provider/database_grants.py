"""Privileges on databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from psycopg import sql

import identifiers
import privileges
from grant_stub import DatabaseGrant, DatabaseGrantOperations
from holdfast import plugin
from privileged import GrantTarget, Privileged
from privileges import Holding
from sessions import Session

QUERY: LiteralString = """
    SELECT datname, w.role, pg_get_userbyid(datdba) = w.role AS own,
        ARRAY(SELECT jsonb_build_object('privilege', privilege_type, 'grantable', is_grantable,
                'grantor', pg_get_userbyid(grantor))
            FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = coalesce(r.oid, 0)) AS entries
    FROM unnest(%s::text[], %s::text[]) AS w (database, role)
        JOIN pg_database ON datname = w.database LEFT JOIN pg_roles r ON rolname = w.role
    WHERE r.oid IS NOT NULL OR w.role = 'public'
"""


class DatabaseGrants(Privileged[DatabaseGrant], DatabaseGrantOperations):
    """Privileges on databases; one query reads all. Names: database, role."""

    named = ("role", "database")

    def identifier(self, inputs: DatabaseGrant) -> str:
        """Return database and role."""
        return identifiers.joined(inputs.database, inputs.role)

    def refused(self, inputs: DatabaseGrant) -> Sequence[plugin.Violation]:
        """Refuse privileges that databases do not have."""
        return privileges.wrong(inputs, "databases")

    def target(self, names: Sequence[str]) -> GrantTarget:
        """Return the kind of object: databases."""
        return GrantTarget("databases", "DATABASE")

    def missing(self, inputs: DatabaseGrant) -> str:
        """Return a message that names the database and the role."""
        return f"there is no database {inputs.database!r}, or no role {inputs.role!r}"

    def state(self, names: Sequence[str], fields: Mapping[str, Any]) -> DatabaseGrant:
        """Return the state."""
        return DatabaseGrant(database=names[0], role=names[1], **fields)

    async def holdings(self, session: Session, wanted: Sequence[tuple[str, ...]]) -> Sequence[Sequence[Holding] | None]:
        """Read what roles hold; the owner of a database is left alone."""
        databases, roles = [each[0] for each in wanted], [each[1] for each in wanted]
        rows = {(row["datname"], row["role"]): row for row in await session.rows(QUERY, databases, roles)}
        return [_holdings(rows.get((database, role))) for database, role in zip(databases, roles, strict=True)]


def _holdings(row: Mapping[str, Any] | None) -> Sequence[Holding] | None:
    if row is None or row["own"]:
        return None if row is None else ()
    return (Holding(sql.Identifier(row["datname"]), privileges.held(row["entries"])),)
