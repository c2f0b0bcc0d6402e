# Made by `holdfast idl compile` from database.py, target python. Do not edit it.
"""Databases."""

from __future__ import annotations

import dataclasses

from holdfast import pack


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Database(pack.Resource):
    """A database. The server has no event for changes of databases, so it is polled.

    Encoding and locale of a database cannot be changed: another value replaces the database. It is only dropped
    if it has no tables, or if `cascade` says so.

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
    """Role that owns it."""
    encoding: str | pack.Unset = pack.UNSET
    """Its encoding, by the server's name: `UTF8`, `LATIN1`, `SQL_ASCII`."""
    collation: str | pack.Unset = pack.UNSET
    """Locale by which texts are ordered: `C.UTF-8`."""
    character_type: str | pack.Unset = pack.UNSET
    """Locale that says what is a letter."""
    template: _module_names.Identifier | pack.Unset = pack.UNSET
    """Database that it is copied from when it is created; the server does not remember it. Another encoding or
    locale than that of template1 needs `template0`.
    """
    connection_limit: int | pack.Unset = pack.UNSET
    """How many connections it may have at once; -1: any number."""
    allow_connections: bool | pack.Unset = pack.UNSET
    """Roles may connect to it."""
    is_template: bool | pack.Unset = pack.UNSET
    """Roles that may create databases may copy it."""
    comment: _module_names.Comment | pack.Unset = pack.UNSET
    """What the database is for. If it is not given, it is left as it is."""
    cascade: bool | pack.Unset = pack.UNSET
    """A deletion or replacement drops it with its tables, and ends the sessions of others in it."""


# Here, because modules may refer to each other in a circle.
from . import names as _module_names
from . import role as _module_role
