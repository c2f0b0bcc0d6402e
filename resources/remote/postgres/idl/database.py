"""Databases."""

from holdfast import idl

from .names import Comment, Identifier
from .role import Role


class Database(idl.Resource, poll=30, delete_first=True):
    """A database. The server has no event for changes of databases, so it is polled.

    Encoding and locale of a database cannot be changed: another value replaces the database. It is only dropped if it
    has no tables, or if `cascade` says so.

    shop:
      postgres.database:
        - owner: {ref: alice}
        - encoding: UTF8
    """

    name: Identifier = idl.field(replaces=True)
    """Name of the database."""
    owner: idl.Ref[Role] = idl.field(computed=True)
    """Role that owns it."""
    encoding: str = idl.field(computed=True, replaces=True, pattern="[A-Z0-9_]+")
    """Its encoding, by the server's name: `UTF8`, `LATIN1`, `SQL_ASCII`."""
    collation: str = idl.field(computed=True, replaces=True, shortest=1)
    """Locale by which texts are ordered: `C.UTF-8`."""
    character_type: str = idl.field(computed=True, replaces=True, shortest=1)
    """Locale that says what is a letter."""
    template: Identifier = idl.field(optional=True)
    """Database that it is copied from when it is created; the server does not remember it.

    Another encoding or locale than that of template1 needs `template0`.
    """
    connection_limit: int = idl.field(default=-1, minimum=-1, maximum=2147483647)
    """How many connections it may have at once; -1: any number."""
    allow_connections: bool = True
    """Roles may connect to it."""
    is_template: bool = False
    """Roles that may create databases may copy it."""
    comment: Comment = idl.field(optional=True)
    """What the database is for. If it is not given, it is left as it is."""
    cascade: bool = False
    """A deletion or replacement drops it with its tables, and ends the sessions of others in it."""
    oid: int = idl.field(out=True)
    """Number of the database in the server."""
