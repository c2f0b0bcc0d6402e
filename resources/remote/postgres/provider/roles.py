"""Roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from psycopg import sql

import scram
from holdfast import plugin
from managed import SeenResource, Single, WantedResource, given
from role_stub import Role, RoleOperations
from sessions import Session
from settings import altered, as_declared, parsed

ATTRIBUTES: Mapping[str, tuple[LiteralString, LiteralString]] = {
    "login": ("LOGIN", "NOLOGIN"),
    "superuser": ("SUPERUSER", "NOSUPERUSER"),
    "create_db": ("CREATEDB", "NOCREATEDB"),
    "create_role": ("CREATEROLE", "NOCREATEROLE"),
    "inherit": ("INHERIT", "NOINHERIT"),
    "replication": ("REPLICATION", "NOREPLICATION"),
    "bypass_rls": ("BYPASSRLS", "NOBYPASSRLS"),
}
"""Field -> the words that turn it on and off."""
NEW = Role(name="", inherit=True, connection_limit=-1, member_of=[], settings={}, comment="", valid_until=None)
"""Fields of a role that CREATE ROLE makes without options."""
QUERY: LiteralString = """
    SELECT r.rolname AS name, r.oid::bigint AS oid, rolcanlogin AS login, rolsuper AS superuser,
        rolcreatedb AS create_db, rolcreaterole AS create_role, rolinherit AS inherit, rolreplication AS replication,
        rolbypassrls AS bypass_rls, rolconnlimit AS connection_limit,
        CASE WHEN rolvaliduntil <> 'infinity'
            THEN least(greatest(rolvaliduntil, '0001-01-01 00:00Z'), '9999-12-31 00:00Z') END AS valid_until,
        ARRAY(SELECT g.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
            WHERE m.member = r.oid GROUP BY 1 ORDER BY 1) AS member_of,
        coalesce((SELECT setconfig FROM pg_db_role_setting WHERE setrole = r.oid AND setdatabase = 0), '{}')
            AS settings,
        coalesce(shobj_description(r.oid, 'pg_authid'), '') AS comment
    FROM pg_roles r WHERE r.rolname = ANY(%s)
"""
GRANTED_BY_EACH = 160000
"""First version in which REVOKE without GRANTED BY keeps memberships that another role has granted, with a warning."""
GRANTORS: LiteralString = """
    SELECT pg_get_userbyid(grantor) AS grantor FROM pg_auth_members
        JOIN pg_roles g ON g.oid = roleid JOIN pg_roles r ON r.oid = member
    WHERE g.rolname = %s AND r.rolname = %s ORDER BY 1
"""
VERIFIERS: LiteralString = "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = ANY(%s)"


class Roles(Single[Role], RoleOperations):
    """Roles; one query reads all."""

    named = ("name", "member_of")

    def identifier(self, inputs: Role) -> str:
        """Return the name."""
        return inputs.name

    def refused(self, inputs: Role) -> Sequence[plugin.Violation]:
        """Refuse reserved names, and settings that the server could not store."""
        wrong = []
        if inputs.name in ("public", "none") or inputs.name.startswith("pg_"):
            wrong.append(plugin.Violation("rule", "name", "the server reserves this name for itself"))
        if any("\0" in text for each in given(inputs.settings, {}).items() for text in each):
            wrong.append(plugin.Violation("form", "settings", "a setting has no NUL character"))
        return wrong

    async def find(
        self, session: Session, wanted: Sequence[WantedResource[Role]]
    ) -> Sequence[SeenResource[Role] | None]:
        """Read roles, and their verifiers if that is allowed."""
        names = [each.names[0] for each in wanted]
        rows = {row["name"]: row for row in await session.rows(QUERY, names)}
        verifiers: dict[str, str | None] | None = None
        if session.is_superuser:
            verifiers = {row["rolname"]: row["rolpassword"] for row in await session.rows(VERIFIERS, names)}
        return [
            self._seen(rows[name], each.inputs, verifiers) if name in rows else None
            for name, each in zip(names, wanted, strict=True)
        ]

    def _seen(
        self, row: dict[str, Any], inputs: Role, verifiers: Mapping[str, str | None] | None
    ) -> SeenResource[Role]:
        state = Role(**{**row, "settings": as_declared(parsed(row["settings"]), inputs.settings)})
        if verifiers is None:
            return SeenResource(state, row)
        stored = verifiers.get(state.name)
        differs = ("password",) if inputs.password is not plugin.UNSET and _other(stored, inputs.password) else ()
        return SeenResource(state, (row, stored), differs)

    async def make(self, session: Session, inputs: Role) -> None:
        """Create a role without rights, and give it what is declared, in one transaction."""
        await session.do("CREATE ROLE {}", inputs.name)
        await self._change(session, NEW, inputs)

    async def alter(self, session: Session, seen: SeenResource[Role], inputs: Role) -> None:
        """Change what differs."""
        if inputs.name == session.user and (lost := _lost(seen.state, inputs, ("login", "superuser"))):
            told = f"the provider connects as {inputs.name}, which would lose `{lost}`"
            raise plugin.Permanent(f"{told}: declare `{lost}: true` for this role")
        keep = "password" not in seen.differs and session.is_superuser
        await self._change(session, seen.state, inputs, password=not keep)

    async def drop(self, session: Session, seen: SeenResource[Role]) -> None:
        """Drop the role. While objects depend on it, the server refuses this and names them."""
        await session.do("DROP ROLE {}", seen.state.name)

    async def _change(self, session: Session, before: Role, inputs: Role, *, password: bool = True) -> None:
        options = [*_options(before, inputs)]
        if options:
            await session.do("ALTER ROLE {} {}", inputs.name, sql.SQL(" ").join(options))
        await self._memberships(session, before, inputs)
        for statement in altered("ROLE", inputs.name, given(before.settings, {}), inputs.settings):
            await session.connection.execute(statement)
        if inputs.comment is not plugin.UNSET and inputs.comment != before.comment:
            await session.do("COMMENT ON ROLE {} IS {}", inputs.name, sql.Literal(inputs.comment or None))
        if password and inputs.password is not plugin.UNSET:
            secret = None if inputs.password is None else scram.verifier(inputs.password.value)
            await session.keep_out_of_log()
            await session.do("ALTER ROLE {} PASSWORD {}", inputs.name, sql.Literal(secret))

    async def _memberships(self, session: Session, before: Role, inputs: Role) -> None:
        old = set(given(before.member_of, ()))
        new = set(given(inputs.member_of, old))
        for group in sorted(new - old):
            await session.do("GRANT {} TO {}", group, inputs.name)
        for group in sorted(old - new):
            if session.version < GRANTED_BY_EACH:
                await session.do("REVOKE {} FROM {}", group, inputs.name)
                continue
            for row in await session.rows(GRANTORS, group, inputs.name):
                await session.do("REVOKE {} FROM {} GRANTED BY {}", group, inputs.name, row["grantor"])


def _other(stored: str | None, declared: plugin.Secret | None) -> bool:
    """Return whether the server has another password than the declared one."""
    return stored is not None if declared is None else not scram.belongs(stored, declared.value)


def _lost(state: Role, inputs: Role, fields: Sequence[str]) -> str:
    """Return the first of these attributes that a role would lose; empty if it would lose none."""
    return next((each for each in fields if getattr(state, each) and getattr(inputs, each) is False), "")


def _options(before: Role, inputs: Role) -> list[sql.Composable]:
    """Return the options of ALTER ROLE for what differs."""
    found: list[sql.Composable] = []
    for field, (on, off) in ATTRIBUTES.items():
        value = getattr(inputs, field)
        if value is not plugin.UNSET and value != given(getattr(before, field), default=False):
            found.append(sql.SQL(on if value else off))
    if inputs.connection_limit not in (plugin.UNSET, before.connection_limit):
        found.append(sql.SQL("CONNECTION LIMIT {}").format(sql.Literal(inputs.connection_limit)))
    if inputs.valid_until not in (plugin.UNSET, before.valid_until):
        until = "infinity" if inputs.valid_until is None else given(inputs.valid_until).isoformat()
        found.append(sql.SQL("VALID UNTIL {}").format(sql.Literal(until)))
    return found
