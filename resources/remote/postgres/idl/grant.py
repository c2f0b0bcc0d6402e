"""Privileges of roles."""

from holdfast import idl

from .database import Database
from .names import Identifier
from .role import Role
from .schema import SchemaId


class Objects(idl.Enum):
    """The objects of a grant."""

    SCHEMA = "schema"
    """The schema itself: `create`, `usage`."""
    TABLES = "tables"
    """Tables and views: `select`, `insert`, `update`, `delete`, `truncate`, `references`, `trigger`."""
    SEQUENCES = "sequences"
    """Sequences: `usage`, `select`, `update`."""
    FUNCTIONS = "functions"
    """Functions and procedures: `execute`."""


class Privilege(idl.Enum):
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


class _Privileges(idl.Resource, delete_first=True):
    """What grants have in common."""

    role: idl.Ref[Role] = idl.field(replaces=True)
    """Role that has the privileges; `public` means all roles."""
    privileges: set[Privilege]
    """What the role may do. With an empty set, the role may do nothing: privileges that others have granted are
    revoked."""
    grantable: bool = False
    """Whether the role may grant these privileges to others."""
    exact: bool = True
    """Whether privileges that are not declared here are revoked. If several grants have the same objects, set `false`
    in each."""


class Grant(_Privileges):
    """Privileges of a role on a schema, or on the tables, sequences or functions in it.

    The role gets them on objects that are created later, at once. Objects that the role owns are not changed.

    reports:
      postgres.grant:
        - role: {ref: reporting}
        - schema: {ref: app}
        - objects: tables
        - privileges: [select]
    """

    schema: SchemaId = idl.field(replaces=True)
    """Schema, `database/schema`."""
    objects: Objects = idl.field(default=Objects.SCHEMA, replaces=True)
    """Kind of the objects in the schema, or the schema itself."""
    only: set[Identifier] = idl.field(optional=True, replaces=True)
    """Names of tables, sequences or functions, which must exist. By default, the grant is for all objects of this
    kind."""


@idl.exactly_one("schema", "database")
class DefaultGrant(_Privileges):
    """Privileges that a role gets on objects that another role creates later (ALTER DEFAULT PRIVILEGES).

    reports of new tables:
      postgres.default_grant:
        - owner: {ref: alice}
        - role: {ref: reporting}
        - schema: {ref: app}
        - objects: tables
        - privileges: [select]
    """

    owner: idl.Ref[Role] = idl.field(replaces=True)
    """Role that creates the objects."""
    schema: SchemaId = idl.field(optional=True, replaces=True)
    """Schema of the objects, `database/schema`."""
    database: idl.Ref[Database] = idl.field(optional=True, replaces=True)
    """Database, for objects in all of its schemas."""
    objects: Objects = idl.field(replaces=True)
    """Kind of the objects: `tables`, `sequences` or `functions`."""


class DatabaseGrant(_Privileges, poll=30):
    """Privileges of a role on a database. The server has no event for these, so they are polled.

    alice in shop:
      postgres.database_grant:
        - role: {ref: alice}
        - database: {ref: shop}
        - privileges: [connect, temporary]
    """

    database: idl.Ref[Database] = idl.field(replaces=True)
    """The database."""
