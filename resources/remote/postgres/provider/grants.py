"""Privileges on schemas, and on tables, sequences and functions in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from psycopg import sql

import identifiers
import privileges
from contained import Contained
from grant_stub import Grant, GrantOperations, Objects
from holdfast import plugin
from managed import given
from privileged import GrantTarget, Privileged
from privileges import Holding
from sessions import Session

KINDS: Mapping[str, tuple[str, LiteralString]] = {
    "schema": ("schemas", "SCHEMA"),
    "tables": ("tables", "TABLE"),
    "sequences": ("sequences", "SEQUENCE"),
    "functions": ("functions", "ROUTINE"),
}
"""Value of `objects` -> key of `privileges.EACH`, and word in statements."""
QUERY: LiteralString = """
    WITH wanted AS (
        SELECT w.schema, w.objects, w.role, coalesce(r.oid, 0) AS grantee
        FROM unnest(%s::text[], %s::text[], %s::text[]) AS w (schema, objects, role)
            LEFT JOIN pg_roles r ON rolname = w.role
        WHERE r.oid IS NOT NULL OR w.role = 'public'
    ), objects AS (
        SELECT 'schema' AS objects, nspname AS schema, nspname AS name, '' AS arguments, nspowner AS owner,
            coalesce(nspacl, acldefault('n', nspowner)) AS acl
        FROM pg_namespace
        UNION ALL
        SELECT CASE relkind WHEN 'S' THEN 'sequences' ELSE 'tables' END, nspname, relname, '', relowner,
            coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))
        FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        UNION ALL
        SELECT 'functions', nspname, proname, pg_get_function_identity_arguments(p.oid), proowner,
            coalesce(proacl, acldefault('f', proowner))
        FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
    )
    SELECT w.schema, w.objects, w.role, o.name, o.arguments, o.owner = w.grantee AS own,
        ARRAY(SELECT jsonb_build_object('privilege', privilege_type, 'grantable', is_grantable,
                'grantor', pg_get_userbyid(grantor))
            FROM aclexplode(o.acl) WHERE grantee = w.grantee) AS entries
    FROM wanted w JOIN pg_namespace n ON n.nspname = w.schema
        LEFT JOIN objects o ON o.schema = w.schema AND o.objects = w.objects
    ORDER BY o.name, o.arguments
"""


class Grants(Privileged[Grant], Contained[Grant], GrantOperations):
    """Privileges; one query reads all of those in a database.

    Names: database, schema, objects, role, and those of `only`.
    """

    named = ("role", "only")

    def identifier(self, inputs: Grant) -> str:
        """Return the objects of the grant, and the role."""
        objects, only = given(inputs.objects, Objects.SCHEMA), sorted(given(inputs.only, ()))
        return "/".join([inputs.schema, identifiers.joined(objects, inputs.role, *only)])

    def refused(self, inputs: Grant) -> Sequence[plugin.Violation]:
        """Refuse privileges that such objects do not have, and `only` for a schema."""
        objects = given(inputs.objects, Objects.SCHEMA)
        wrong = identifiers.wrong_schema("schema", inputs.schema)
        if objects is Objects.SCHEMA and inputs.only is not plugin.UNSET:
            told = "`only` names tables, sequences or functions; say which in `objects`"
            wrong.append(plugin.Violation("rule", "only", told))
        return wrong + privileges.wrong(inputs, KINDS[objects][0])

    def target(self, names: Sequence[str]) -> GrantTarget:
        """Return the kind of objects."""
        return GrantTarget(*KINDS[names[2]])

    def missing(self, inputs: Grant) -> str:
        """Return a message that names the role, the schema and the objects."""
        only = sorted(given(inputs.only, ()))
        named = f", or one of these {inputs.objects} in it: {', '.join(only)}" if only else ""
        return f"there is no role {inputs.role!r}, or no schema {inputs.schema!r}{named}"

    def state(self, names: Sequence[str], fields: Mapping[str, Any]) -> Grant:
        """Return the state."""
        only = list(names[4:]) or plugin.UNSET
        schema = identifiers.joined(*names[:2])
        return Grant(schema=schema, objects=Objects(names[2]), role=names[3], only=only, **fields)

    async def holdings(self, session: Session, wanted: Sequence[tuple[str, ...]]) -> Sequence[Sequence[Holding] | None]:
        """Read the privileges of roles, without those on objects that they own."""
        asked = sorted({each[1:4] for each in wanted})
        columns: list[list[str]] = [list(each) for each in zip(*asked, strict=True)]
        found: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
        for row in await session.rows(QUERY, *columns):
            found[row["schema"], row["objects"], row["role"]].append(row)
        return [_chosen(found.get(each[1:4]), each[4:]) for each in wanted]


def _chosen(rows: Sequence[Mapping[str, Any]] | None, only: Sequence[str]) -> Sequence[Holding] | None:
    """Return the privileges of a role on the objects with these names, or on all; None if one does not exist."""
    if rows is None or not {*only} <= {row["name"] for row in rows}:
        return None
    found = (row for row in rows if row["name"] is not None and not row["own"])
    return [_holding(row) for row in found if not only or row["name"] in only]


def _holding(row: Mapping[str, Any]) -> Holding:
    names = (row["schema"],) if row["objects"] == "schema" else (row["schema"], row["name"])
    named: sql.Composable = sql.Identifier(*names)
    if row["objects"] == "functions":  # the server has quoted the types of the arguments
        named = sql.SQL("{}({})").format(named, sql.SQL(row["arguments"]))
    return Holding(named, privileges.held(row["entries"]))
