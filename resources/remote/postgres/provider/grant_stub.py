# Made by `holdfast idl compile` from grant.py, target python. Do not edit it.
"""Privileges of roles."""

from __future__ import annotations

import dataclasses
import enum

from holdfast import plugin


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grant(plugin.Struct):
    """Privileges of a role on a schema, or on the tables, sequences or functions in it.

    The role gets them on objects that are created later, at once. Objects that the role owns are not changed.

        reports:
          postgres.grant:
            - role: {ref: reporting}
            - schema: {ref: app}
            - objects: tables
            - privileges: [select]
    """

    role: str
    """Role that has the privileges; `public` means all roles."""
    privileges: list[Privilege]
    """What the role may do. With an empty set, the role may do nothing: privileges that others have granted are
    revoked.
    """
    grantable: bool | plugin.Unset = plugin.UNSET
    """Whether the role may grant these privileges to others."""
    exact: bool | plugin.Unset = plugin.UNSET
    """Whether privileges that are not declared here are revoked. If several grants have the same objects, set
    `false` in each.
    """
    schema: schema_stub.SchemaId
    """Schema, `database/schema`."""
    objects: Objects | plugin.Unset = plugin.UNSET
    """Kind of the objects in the schema, or the schema itself."""
    only: list[names_stub.Identifier] | plugin.Unset = plugin.UNSET
    """Names of tables, sequences or functions, which must exist. By default, the grant is for all objects of this
    kind.
    """


class GrantProperty(enum.StrEnum):
    """Names of the fields on the wire."""

    ROLE = "role"
    PRIVILEGES = "privileges"
    GRANTABLE = "grantable"
    EXACT = "exact"
    SCHEMA = "schema"
    OBJECTS = "objects"
    ONLY = "only"


class GrantOperations(plugin.Operations[Grant]):
    """Derive from this class, and write check, diff, read, create, update, delete and watch."""

    token = "postgres:grant:Grant"
    struct = Grant


@dataclasses.dataclass(frozen=True, kw_only=True)
class DefaultGrant(plugin.Struct):
    """Privileges that a role gets on objects that another role creates later (ALTER DEFAULT PRIVILEGES).

        reports of new tables:
          postgres.default_grant:
            - owner: {ref: alice}
            - role: {ref: reporting}
            - schema: {ref: app}
            - objects: tables
            - privileges: [select]
    """

    role: str
    """Role that has the privileges; `public` means all roles."""
    privileges: list[Privilege]
    """What the role may do. With an empty set, the role may do nothing: privileges that others have granted are
    revoked.
    """
    grantable: bool | plugin.Unset = plugin.UNSET
    """Whether the role may grant these privileges to others."""
    exact: bool | plugin.Unset = plugin.UNSET
    """Whether privileges that are not declared here are revoked. If several grants have the same objects, set
    `false` in each.
    """
    owner: str
    """Role that creates the objects."""
    schema: schema_stub.SchemaId | plugin.Unset = plugin.UNSET
    """Schema of the objects, `database/schema`."""
    database: str | plugin.Unset = plugin.UNSET
    """Database, for objects in all of its schemas."""
    objects: Objects
    """Kind of the objects: `tables`, `sequences` or `functions`."""


class DefaultGrantProperty(enum.StrEnum):
    """Names of the fields on the wire."""

    ROLE = "role"
    PRIVILEGES = "privileges"
    GRANTABLE = "grantable"
    EXACT = "exact"
    OWNER = "owner"
    SCHEMA = "schema"
    DATABASE = "database"
    OBJECTS = "objects"


class DefaultGrantOperations(plugin.Operations[DefaultGrant]):
    """Derive from this class, and write check, diff, read, create, update, delete and watch."""

    token = "postgres:grant:DefaultGrant"
    struct = DefaultGrant


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatabaseGrant(plugin.Struct):
    """Privileges of a role on a database. The server has no event for these, so they are polled.

        alice in shop:
          postgres.database_grant:
            - role: {ref: alice}
            - database: {ref: shop}
            - privileges: [connect, temporary]
    """

    role: str
    """Role that has the privileges; `public` means all roles."""
    privileges: list[Privilege]
    """What the role may do. With an empty set, the role may do nothing: privileges that others have granted are
    revoked.
    """
    grantable: bool | plugin.Unset = plugin.UNSET
    """Whether the role may grant these privileges to others."""
    exact: bool | plugin.Unset = plugin.UNSET
    """Whether privileges that are not declared here are revoked. If several grants have the same objects, set
    `false` in each.
    """
    database: str
    """The database."""


class DatabaseGrantProperty(enum.StrEnum):
    """Names of the fields on the wire."""

    ROLE = "role"
    PRIVILEGES = "privileges"
    GRANTABLE = "grantable"
    EXACT = "exact"
    DATABASE = "database"


class DatabaseGrantOperations(plugin.Operations[DatabaseGrant]):
    """Derive from this class, and write check, diff, read, create, update, delete and watch."""

    token = "postgres:grant:DatabaseGrant"
    struct = DatabaseGrant


# Here, because modules may refer to each other in a circle.
import names_stub
import schema_stub
