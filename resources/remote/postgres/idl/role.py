"""Roles: users and groups."""

from typing import Annotated

from holdfast import idl

from .names import Comment, Identifier

Password = Annotated[str, idl.limits(shortest=1, longest=1000)]
"""A password, or the verifier that PostgreSQL makes of it: `SCRAM-SHA-256$4096:...`."""


class Role(idl.Resource, poll=30):
    """A role, which is a user if it may log in. The server has no event for changes of roles, so it is polled.

    alice:
      postgres.role:
        - login: true
        - password: {{ pillar.alice_password | tojson }}
        - member_of: [reporting]
        - settings:
            statement_timeout: 5min
    """

    name: Identifier = idl.field(replaces=True)
    """Name of the role."""
    login: bool = False
    """It may log in."""
    superuser: bool = False
    """It may do everything."""
    create_db: bool = False
    """It may create databases."""
    create_role: bool = False
    """It may create other roles."""
    inherit: bool = True
    """It has the privileges of the roles that it is a member of."""
    replication: bool = False
    """It may replicate the server."""
    bypass_rls: bool = False
    """Security policies of rows do not apply to it."""
    connection_limit: int = idl.field(default=-1, minimum=-1, maximum=2147483647)
    """How many connections it may have at once; -1: any number."""
    valid_until: idl.DateTime | None = idl.field(optional=True)
    """When its password expires; null: never. If it is not given, it is left as it is."""
    password: Password | None = idl.field(optional=True, secret=True, write_only=True)
    """Its password; null: it has none. The server only receives a verifier (SCRAM-SHA-256), never the password.

    If the provider is a superuser, it notices that the server has another password. Otherwise it sets the password when
    the declaration changes.
    """
    member_of: set[Identifier] = idl.field(optional=True)
    """All roles of which it is a direct member. If it is not given, they are left as they are.

    Options of memberships (`ADMIN`; since PostgreSQL 16 also `INHERIT` and `SET`) are left as they are in any case.
    """
    settings: dict[str, str] = idl.field(optional=True)
    """All settings that its sessions begin with, such as `statement_timeout`. If not given, left as they are."""
    comment: Comment = idl.field(optional=True)
    """What the role is for. If it is not given, it is left as it is."""
    oid: int = idl.field(out=True)
    """Number of the role in the server."""
