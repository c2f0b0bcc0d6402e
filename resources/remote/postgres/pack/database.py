# Made by `holdfast idl compile` from database.py, target python. Do not edit it.
"""Databases."""

from __future__ import annotations

import dataclasses

from holdfast import pack


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Database(pack.Resource):
    """A database. The server has no event for changes of databases, so it is polled.

    Encoding and locale of a database cannot be changed: another value replaces the database. A database that has
    tables is dropped only with `cascade`.

    The provider sets `oid`.

        shop:
          postgres.database:
            - owner: {ref: alice}
            - encoding: UTF8
    """

    _token = "postgres:database:Database"
    _schema = "schema.json"
    name: _module_names.Identifier
    """Name of the database."""
    owner: _module_role.Role | str | pack.Unset = pack.UNSET
    """Role that owns the database."""
    encoding: str | pack.Unset = pack.UNSET
    """Encoding, by the server's name: `UTF8`, `LATIN1`, `SQL_ASCII`."""
    collation: str | pack.Unset = pack.UNSET
    """Locale that determines the order of texts: `C.UTF-8`."""
    character_type: str | pack.Unset = pack.UNSET
    """Locale that determines which characters are letters."""
    template: _module_names.Identifier | pack.Unset = pack.UNSET
    """Database from which a new database is copied. The server does not record it. An encoding or locale other than
    that of template1 needs `template0`.
    """
    connection_limit: int | pack.Unset = pack.UNSET
    """Greatest number of connections at once; -1: no limit."""
    allow_connections: bool | pack.Unset = pack.UNSET
    """Whether roles may connect to the database."""
    is_template: bool | pack.Unset = pack.UNSET
    """Whether all roles that may create databases may copy this one."""
    comment: _module_names.Comment | pack.Unset = pack.UNSET
    """What the database is for. If it is not given, the present comment is kept."""
    cascade: bool | pack.Unset = pack.UNSET
    """Whether a deletion or replacement drops the database even if it has tables, and ends the sessions of others in
    it.
    """


# Here, because modules may refer to each other in a circle.
from . import names as _module_names
from . import role as _module_role
