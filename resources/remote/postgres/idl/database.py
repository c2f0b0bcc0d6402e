"""Databases."""

from holdfast import idl

from .names import Comment, Identifier
from .role import Role


class Database(idl.Resource, poll=30, delete_first=True):
    """A database. The server has no event for changes of databases, so it is polled.

    Encoding and locale of a database cannot be changed: another value replaces the database. A database that has tables
    is dropped only with `cascade`.

    shop:
      postgres.database:
        - owner: {ref: alice}
        - encoding: UTF8
    """

    name: Identifier = idl.field(replaces=True)
    """Name of the database."""
    owner: idl.Ref[Role] = idl.field(computed=True)
    """Role that owns the database."""
    encoding: str = idl.field(computed=True, replaces=True, pattern="[A-Z0-9_]+")
    """Encoding, by the server's name: `UTF8`, `LATIN1`, `SQL_ASCII`."""
    collation: str = idl.field(computed=True, replaces=True, shortest=1)
    """Locale that determines the order of texts: `C.UTF-8`."""
    character_type: str = idl.field(computed=True, replaces=True, shortest=1)
    """Locale that determines which characters are letters."""
    template: Identifier = idl.field(optional=True)
    """Database from which a new database is copied. The server does not record it.

    An encoding or locale other than that of template1 needs `template0`.
    """
    connection_limit: int = idl.field(default=-1, minimum=-1, maximum=2147483647)
    """Greatest number of connections at once; -1: no limit."""
    allow_connections: bool = True
    """Whether roles may connect to the database."""
    is_template: bool = False
    """Whether all roles that may create databases may copy this one."""
    comment: Comment = idl.field(optional=True)
    """What the database is for. If it is not given, the present comment is kept."""
    cascade: bool = False
    """Whether a deletion or replacement drops the database even if it has tables, and ends the sessions of others in
    it."""
    oid: int = idl.field(out=True)
    """Number (OID) of the database in the server."""
