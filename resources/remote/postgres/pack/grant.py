# Made by `holdfast idl compile` from grant.py, target python. Do not edit it.
"""Privileges of roles."""

from __future__ import annotations

import dataclasses
import enum

from holdfast import pack


class Objects(enum.StrEnum):
    """The objects of a grant."""

    SCHEMA = "schema"
    """The schema itself: `create`, `usage`."""
    TABLES = "tables"
    """Tables and views: `select`, `insert`, `update`, `delete`, `truncate`, `references`, `trigger`."""
    SEQUENCES = "sequences"
    """Sequences: `usage`, `select`, `update`."""
    FUNCTIONS = "functions"
    """Functions and procedures: `execute`."""


class Privilege(enum.StrEnum):
    """What a role may do."""

    ALL = "all"
    """All privileges of this kind of object."""
    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"
    REFERENCES = "references"
    TRIGGER = "trigger"
    MAINTAIN = "maintain"
    """Since PostgreSQL 17."""
    USAGE = "usage"
    CREATE = "create"
    EXECUTE = "execute"
    CONNECT = "connect"
    TEMPORARY = "temporary"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Grant(pack.Resource):
    """Privileges of a role on a schema, or on the tables, sequences or functions in it.

    The role gets them on objects that are created later, at once. Objects that the role owns are not changed.

        reports:
          postgres.grant:
            - role: {ref: reporting}
            - schema: {ref: app}
            - objects: tables
            - privileges: [select]
    """

    _token = "postgres:grant:Grant"
    _schema = "schema.json"
    role: _module_role.Role | str
    """Role that has the privileges; `public` means all roles."""
    privileges: list[Privilege]
    """What the role may do. With an empty set, the role may do nothing: privileges that others have granted are
    revoked.
    """
    grantable: bool | pack.Unset = pack.UNSET
    """Whether the role may grant these privileges to others."""
    exact: bool | pack.Unset = pack.UNSET
    """Whether privileges that are not declared here are revoked. If several grants have the same objects, set
    `false` in each.
    """
    schema: _module_schema.SchemaId
    """Schema, `database/schema`."""
    objects: Objects | pack.Unset = pack.UNSET
    """Kind of the objects in the schema, or the schema itself."""
    only: list[_module_names.Identifier] | pack.Unset = pack.UNSET
    """Names of tables, sequences or functions, which must exist. By default, the grant is for all objects of this
    kind.
    """


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class DefaultGrant(pack.Resource):
    """Privileges that a role gets on objects that another role creates later (ALTER DEFAULT PRIVILEGES).

        reports of new tables:
          postgres.default_grant:
            - owner: {ref: alice}
            - role: {ref: reporting}
            - schema: {ref: app}
            - objects: tables
            - privileges: [select]
    """

    _token = "postgres:grant:DefaultGrant"
    _schema = "schema.json"
    role: _module_role.Role | str
    """Role that has the privileges; `public` means all roles."""
    privileges: list[Privilege]
    """What the role may do. With an empty set, the role may do nothing: privileges that others have granted are
    revoked.
    """
    grantable: bool | pack.Unset = pack.UNSET
    """Whether the role may grant these privileges to others."""
    exact: bool | pack.Unset = pack.UNSET
    """Whether privileges that are not declared here are revoked. If several grants have the same objects, set
    `false` in each.
    """
    owner: _module_role.Role | str
    """Role that creates the objects."""
    schema: _module_schema.SchemaId | pack.Unset = pack.UNSET
    """Schema of the objects, `database/schema`."""
    database: _module_database.Database | str | pack.Unset = pack.UNSET
    """Database, for objects in all of its schemas."""
    objects: Objects
    """Kind of the objects: `tables`, `sequences` or `functions`."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class DatabaseGrant(pack.Resource):
    """Privileges of a role on a database. The server has no event for these, so they are polled.

        alice in shop:
          postgres.database_grant:
            - role: {ref: alice}
            - database: {ref: shop}
            - privileges: [connect, temporary]
    """

    _token = "postgres:grant:DatabaseGrant"
    _schema = "schema.json"
    role: _module_role.Role | str
    """Role that has the privileges; `public` means all roles."""
    privileges: list[Privilege]
    """What the role may do. With an empty set, the role may do nothing: privileges that others have granted are
    revoked.
    """
    grantable: bool | pack.Unset = pack.UNSET
    """Whether the role may grant these privileges to others."""
    exact: bool | pack.Unset = pack.UNSET
    """Whether privileges that are not declared here are revoked. If several grants have the same objects, set
    `false` in each.
    """
    database: _module_database.Database | str
    """The database."""


# Here, because modules may refer to each other in a circle.
from . import database as _module_database
from . import names as _module_names
from . import role as _module_role
from . import schema as _module_schema
