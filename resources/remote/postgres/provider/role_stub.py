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
    """Whether the role may log in."""
    superuser: bool | plugin.Unset = plugin.UNSET
    """Whether the role may do everything."""
    create_db: bool | plugin.Unset = plugin.UNSET
    """Whether the role may create databases."""
    create_role: bool | plugin.Unset = plugin.UNSET
    """Whether the role may create other roles."""
    inherit: bool | plugin.Unset = plugin.UNSET
    """Whether the role has the privileges of the roles that it is a member of."""
    replication: bool | plugin.Unset = plugin.UNSET
    """Whether the role may replicate the server."""
    bypass_rls: bool | plugin.Unset = plugin.UNSET
    """Whether the role bypasses the security policies of rows."""
    connection_limit: int | plugin.Unset = plugin.UNSET
    """Greatest number of connections at once; -1: no limit."""
    valid_until: datetime.datetime | None | plugin.Unset = plugin.UNSET
    """When the password expires; null: never. If it is not given, the present time is kept."""
    password: plugin.Secret | None | plugin.Unset = plugin.UNSET
    """Password of the role; null: the role has none. The server receives only a verifier (SCRAM-SHA-256), never the
    password. If the provider is a superuser, it notices when the server has another password. Otherwise it sets
    the password only when the declaration changes.
    """
    member_of: list[names_stub.Identifier] | plugin.Unset = plugin.UNSET
    """All roles that this role is a direct member of. If it is not given, the present memberships are kept. The
    options of memberships (`ADMIN`; since PostgreSQL 16 also `INHERIT` and `SET`) are always kept.
    """
    settings: dict[str, str] | plugin.Unset = plugin.UNSET
    """All settings for new sessions of the role, such as `statement_timeout`. If it is not given, the present ones
    are kept.
    """
    comment: names_stub.Comment | plugin.Unset = plugin.UNSET
    """What the role is for. If it is not given, the present comment is kept."""
    oid: int | plugin.Unset = plugin.UNSET
    """Number (OID) of the role in the server."""


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
"""A password, or the verifier that PostgreSQL computes from it: `SCRAM-SHA-256$4096:...`."""
