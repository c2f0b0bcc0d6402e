"""Roles: users and groups."""

from typing import Annotated

from holdfast import idl

from .names import Comment, Identifier

Password = Annotated[str, idl.limits(shortest=1, longest=1000)]
"""A password, or the verifier that PostgreSQL computes from it: `SCRAM-SHA-256$4096:...`."""


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
    """Whether the role may log in."""
    superuser: bool = False
    """Whether the role may do everything."""
    create_db: bool = False
    """Whether the role may create databases."""
    create_role: bool = False
    """Whether the role may create other roles."""
    inherit: bool = True
    """Whether the role has the privileges of the roles that it is a member of."""
    replication: bool = False
    """Whether the role may replicate the server."""
    bypass_rls: bool = False
    """Whether the role bypasses the security policies of rows."""
    connection_limit: int = idl.field(default=-1, minimum=-1, maximum=2147483647)
    """Greatest number of connections at once; -1: no limit."""
    valid_until: idl.DateTime | None = idl.field(optional=True)
    """When the password expires; null: never. If it is not given, the present time is kept."""
    password: Password | None = idl.field(optional=True, secret=True, write_only=True)
    """Password of the role; null: the role has none. The server receives only a verifier (SCRAM-SHA-256), never the
    password.

    If the provider is a superuser, it notices when the server has another password. Otherwise it sets the password only
    when the declaration changes.
    """
    member_of: set[Identifier] = idl.field(optional=True)
    """All roles that this role is a direct member of. If it is not given, the present memberships are kept.

    The options of memberships (`ADMIN`; since PostgreSQL 16 also `INHERIT` and `SET`) are always kept.
    """
    settings: dict[str, str] = idl.field(optional=True)
    """All settings for new sessions of the role, such as `statement_timeout`. If it is not given, the present ones are
    kept."""
    comment: Comment = idl.field(optional=True)
    """What the role is for. If it is not given, the present comment is kept."""
    oid: int = idl.field(out=True)
    """Number (OID) of the role in the server."""
