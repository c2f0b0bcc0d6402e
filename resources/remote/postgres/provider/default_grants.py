"""Privileges on objects that a role will create (ALTER DEFAULT PRIVILEGES)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from psycopg import sql

import identifiers
import privileges
from contained import Contained
from grant_stub import DefaultGrant, DefaultGrantOperations, Objects
from grants import KINDS
from holdfast import plugin
from privileged import GrantTarget, Privileged
from privileges import Holding
from sessions import Session

WORDS: Mapping[str, LiteralString] = {"tables": "TABLES", "sequences": "SEQUENCES", "functions": "FUNCTIONS"}
"""Value of `objects` -> word in statements."""
QUERY: LiteralString = """
    SELECT w.schema, w.objects, w.owner, w.role,
        ARRAY(SELECT jsonb_build_object('privilege', privilege_type, 'grantable', is_grantable,
                'grantor', pg_get_userbyid(grantor))
            FROM aclexplode(coalesce(d.defaclacl, CASE w.schema WHEN '' THEN acldefault(lower(w.type)::"char", o.oid)
                END)) WHERE grantee = coalesce(r.oid, 0)) AS entries
    FROM (SELECT schema, objects, owner, role,
            CASE objects WHEN 'tables' THEN 'r' WHEN 'sequences' THEN 'S' ELSE 'f' END AS type
            FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS u (schema, objects, owner, role)) w
        JOIN pg_roles o ON o.rolname = w.owner LEFT JOIN pg_roles r ON r.rolname = w.role
        LEFT JOIN pg_namespace n ON n.nspname = w.schema
        LEFT JOIN pg_default_acl d ON defaclrole = o.oid AND defaclnamespace = coalesce(n.oid, 0)
            AND defaclobjtype = w.type::"char"
    WHERE (r.oid IS NOT NULL OR w.role = 'public') AND (n.oid IS NOT NULL OR w.schema = '')
"""


class DefaultGrants(Privileged[DefaultGrant], Contained[DefaultGrant], DefaultGrantOperations):
    """Privileges on later objects; one query reads all of those in a database.

    Names: database, schema, objects, owner, role.
    """

    named = ("role", "owner", "database")

    def identifier(self, inputs: DefaultGrant) -> str:
        """Return the objects of the grant, the owner and the role.

        The schema is empty if the grant is for all schemas.
        """
        place = inputs.schema if isinstance(inputs.schema, str) else identifiers.joined(str(inputs.database), "")
        return "/".join([place, identifiers.joined(inputs.objects, inputs.owner, inputs.role)])

    def refused(self, inputs: DefaultGrant) -> Sequence[plugin.Violation]:
        """Refuse privileges that such objects do not have, and those that the owner has anyway."""
        wrong = identifiers.wrong_schema("schema", inputs.schema)
        if inputs.objects is Objects.SCHEMA:
            return [*wrong, plugin.Violation("choice", "objects", "it must be 'tables', 'sequences' or 'functions'")]
        if inputs.role == inputs.owner:
            wrong.append(plugin.Violation("rule", "role", "the owner has all privileges on what it creates"))
        return wrong + privileges.wrong(inputs, KINDS[inputs.objects][0])

    def target(self, names: Sequence[str]) -> GrantTarget:
        """Return the kind of the objects, and the beginning of statements that names their owner."""
        prefix = sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} ").format(sql.Identifier(names[3]))
        if names[1]:
            prefix += sql.SQL("IN SCHEMA {} ").format(sql.Identifier(names[1]))
        return GrantTarget(names[2], WORDS[names[2]], prefix)

    def missing(self, inputs: DefaultGrant) -> str:
        """Return a message that names the roles and the schema."""
        schema = f", or no schema {inputs.schema!r}" if isinstance(inputs.schema, str) else ""
        return f"there is no role {inputs.owner!r}, or no role {inputs.role!r}{schema}"

    def state(self, names: Sequence[str], fields: Mapping[str, Any]) -> DefaultGrant:
        """Return the state."""
        place = {"schema": identifiers.joined(*names[:2])} if names[1] else {"database": names[0]}
        values: dict[str, Any] = {**place, **fields}
        return DefaultGrant(objects=Objects(names[2]), owner=names[3], role=names[4], **values)

    async def holdings(self, session: Session, wanted: Sequence[tuple[str, ...]]) -> Sequence[Sequence[Holding] | None]:
        """Read the privileges that roles will have."""
        columns: list[list[str]] = [list(each) for each in zip(*(each[1:5] for each in wanted), strict=True)]
        rows = await session.rows(QUERY, *columns)
        found: dict[tuple[str, ...], Any] = {
            (row["schema"], row["objects"], row["owner"], row["role"]): row["entries"] for row in rows
        }
        nothing = sql.SQL("")
        return [
            (Holding(nothing, privileges.held(found[each[1:5]])),) if each[1:5] in found else None for each in wanted
        ]
