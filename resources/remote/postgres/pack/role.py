# Made by `holdfast idl compile` from role.py, target python. Do not edit it.
"""Roles: users and groups."""

from __future__ import annotations

import dataclasses
import datetime

from holdfast import pack


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Role(pack.Resource):
    """A role, which is a user if it may log in. The server has no event for changes of roles, so it is polled.

    The provider sets `oid`.

        alice:
          postgres.role:
            - login: true
            - password: {{ pillar.alice_password | tojson }}
            - member_of: [reporting]
            - settings:
                statement_timeout: 5min
    """

    _token = "postgres:role:Role"
    _schema = "schema.json"
    name: _module_names.Identifier
    """Name of the role."""
    login: bool | pack.Unset = pack.UNSET
    """It may log in."""
    superuser: bool | pack.Unset = pack.UNSET
    """It may do everything."""
    create_db: bool | pack.Unset = pack.UNSET
    """It may create databases."""
    create_role: bool | pack.Unset = pack.UNSET
    """It may create other roles."""
    inherit: bool | pack.Unset = pack.UNSET
    """It has the privileges of the roles that it is a member of."""
    replication: bool | pack.Unset = pack.UNSET
    """It may replicate the server."""
    bypass_rls: bool | pack.Unset = pack.UNSET
    """Security policies of rows do not apply to it."""
    connection_limit: int | pack.Unset = pack.UNSET
    """How many connections it may have at once; -1: any number."""
    valid_until: datetime.datetime | None | pack.Unset = pack.UNSET
    """When its password expires; null: never. If it is not given, it is left as it is."""
    password: Password | None | pack.Unset = dataclasses.field(default=pack.UNSET, repr=False)
    """Its password; null: it has none. The server only receives a verifier (SCRAM-SHA-256), never the password. If
    the provider is a superuser, it notices that the server has another password. Otherwise it sets the password
    when the declaration changes.
    """
    member_of: list[_module_names.Identifier] | pack.Unset = pack.UNSET
    """All roles of which it is a direct member. If it is not given, they are left as they are. Options of
    memberships (`ADMIN`; since PostgreSQL 16 also `INHERIT` and `SET`) are left as they are in any case.
    """
    settings: dict[str, str] | pack.Unset = pack.UNSET
    """All settings that its sessions begin with, such as `statement_timeout`. If not given, left as they are."""
    comment: _module_names.Comment | pack.Unset = pack.UNSET
    """What the role is for. If it is not given, it is left as it is."""


# Here, because modules may refer to each other in a circle.
from . import names as _module_names


Password = str
"""A password, or the verifier that PostgreSQL makes of it: `SCRAM-SHA-256$4096:...`."""
