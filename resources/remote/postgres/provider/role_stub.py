# Made by `holdfast idl compile` from role.py, target python. Do not edit it.
"""Roles: users and groups."""

from __future__ import annotations

import dataclasses
import datetime
import enum

from holdfast import plugin


@dataclasses.dataclass(frozen=True, kw_only=True)
class Role(plugin.Struct):
    """A role, which is a user if it may log in. The server has no event for changes of roles, so it is polled.

        alice:
          postgres.role:
            - login: true
            - password: {{ pillar.alice_password | tojson }}
            - member_of: [reporting]
            - settings:
                statement_timeout: 5min
    """

    name: names_stub.Identifier
    """Name of the role."""
    login: bool | plugin.Unset = plugin.UNSET
    """It may log in."""
    superuser: bool | plugin.Unset = plugin.UNSET
    """It may do everything."""
    create_db: bool | plugin.Unset = plugin.UNSET
    """It may create databases."""
    create_role: bool | plugin.Unset = plugin.UNSET
    """It may create other roles."""
    inherit: bool | plugin.Unset = plugin.UNSET
    """It has the privileges of the roles that it is a member of."""
    replication: bool | plugin.Unset = plugin.UNSET
    """It may replicate the server."""
    bypass_rls: bool | plugin.Unset = plugin.UNSET
    """Security policies of rows do not apply to it."""
    connection_limit: int | plugin.Unset = plugin.UNSET
    """How many connections it may have at once; -1: any number."""
    valid_until: datetime.datetime | None | plugin.Unset = plugin.UNSET
    """When its password expires; null: never. If it is not given, it is left as it is."""
    password: plugin.Secret | None | plugin.Unset = plugin.UNSET
    """Its password; null: it has none. The server only receives a verifier (SCRAM-SHA-256), never the password. If
    the provider is a superuser, it notices that the server has another password. Otherwise it sets the password
    when the declaration changes.
    """
    member_of: list[names_stub.Identifier] | plugin.Unset = plugin.UNSET
    """All roles of which it is a direct member. If it is not given, they are left as they are. Options of
    memberships (`ADMIN`; since PostgreSQL 16 also `INHERIT` and `SET`) are left as they are in any case.
    """
    settings: dict[str, str] | plugin.Unset = plugin.UNSET
    """All settings that its sessions begin with, such as `statement_timeout`. If not given, left as they are."""
    comment: names_stub.Comment | plugin.Unset = plugin.UNSET
    """What the role is for. If it is not given, it is left as it is."""
    oid: int | plugin.Unset = plugin.UNSET
    """Number of the role in the server."""


class RoleProperty(enum.StrEnum):
    """Names of the fields on the wire."""

    NAME = "name"
    LOGIN = "login"
    SUPERUSER = "superuser"
    CREATE_DB = "createDb"
    CREATE_ROLE = "createRole"
    INHERIT = "inherit"
    REPLICATION = "replication"
    BYPASS_RLS = "bypassRls"
    CONNECTION_LIMIT = "connectionLimit"
    VALID_UNTIL = "validUntil"
    PASSWORD = "password"
    MEMBER_OF = "memberOf"
    SETTINGS = "settings"
    COMMENT = "comment"
    OID = "oid"


class RoleOperations(plugin.Operations[Role]):
    """Derive from this class, and write check, diff, read, create, update, delete and watch."""

    token = "postgres:role:Role"
    struct = Role


# Here, because modules may refer to each other in a circle.
import names_stub


Password = str
"""A password, or the verifier that PostgreSQL makes of it: `SCRAM-SHA-256$4096:...`."""
