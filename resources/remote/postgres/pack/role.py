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
    """Whether the role may log in."""
    superuser: bool | pack.Unset = pack.UNSET
    """Whether the role may do everything."""
    create_db: bool | pack.Unset = pack.UNSET
    """Whether the role may create databases."""
    create_role: bool | pack.Unset = pack.UNSET
    """Whether the role may create other roles."""
    inherit: bool | pack.Unset = pack.UNSET
    """Whether the role has the privileges of the roles that it is a member of."""
    replication: bool | pack.Unset = pack.UNSET
    """Whether the role may replicate the server."""
    bypass_rls: bool | pack.Unset = pack.UNSET
    """Whether the role bypasses the security policies of rows."""
    connection_limit: int | pack.Unset = pack.UNSET
    """Greatest number of connections at once; -1: no limit."""
    valid_until: datetime.datetime | None | pack.Unset = pack.UNSET
    """When the password expires; null: never. If it is not given, the present time is kept."""
    password: Password | None | pack.Unset = dataclasses.field(default=pack.UNSET, repr=False)
    """Password of the role; null: the role has none. The server receives only a verifier (SCRAM-SHA-256), never the
    password. If the provider is a superuser, it notices when the server has another password. Otherwise it sets
    the password only when the declaration changes.
    """
    member_of: list[_module_names.Identifier] | pack.Unset = pack.UNSET
    """All roles that this role is a direct member of. If it is not given, the present memberships are kept. The
    options of memberships (`ADMIN`; since PostgreSQL 16 also `INHERIT` and `SET`) are always kept.
    """
    settings: dict[str, str] | pack.Unset = pack.UNSET
    """All settings for new sessions of the role, such as `statement_timeout`. If it is not given, the present ones
    are kept.
    """
    comment: _module_names.Comment | pack.Unset = pack.UNSET
    """What the role is for. If it is not given, the present comment is kept."""


# Here, because modules may refer to each other in a circle.
from . import names as _module_names


Password = str
"""A password, or the verifier that PostgreSQL computes from it: `SCRAM-SHA-256$4096:...`."""
