# Made by `holdfast idl compile` from database.py, target python. Do not edit it.
"""Databases."""

from __future__ import annotations

import dataclasses
import enum

from holdfast import plugin


@dataclasses.dataclass(frozen=True, kw_only=True)
class Database(plugin.Struct):
    """A database. The server has no event for changes of databases, so it is polled.

    Encoding and locale of a database cannot be changed: another value replaces the database. A database that has
    tables is dropped only with `cascade`.

        shop:
          postgres.database:
            - owner: {ref: alice}
            - encoding: UTF8
    """

    name: names_stub.Identifier
    """Name of the database."""
    owner: str | plugin.Unset = plugin.UNSET
    """Role that owns the database."""
    encoding: str | plugin.Unset = plugin.UNSET
    """Encoding, by the server's name: `UTF8`, `LATIN1`, `SQL_ASCII`."""
    collation: str | plugin.Unset = plugin.UNSET
    """Locale that determines the order of texts: `C.UTF-8`."""
    character_type: str | plugin.Unset = plugin.UNSET
    """Locale that determines which characters are letters."""
    template: names_stub.Identifier | plugin.Unset = plugin.UNSET
    """Database from which a new database is copied. The server does not record it. An encoding or locale other than
    that of template1 needs `template0`.
    """
    connection_limit: int | plugin.Unset = plugin.UNSET
    """Greatest number of connections at once; -1: no limit."""
    allow_connections: bool | plugin.Unset = plugin.UNSET
    """Whether roles may connect to the database."""
    is_template: bool | plugin.Unset = plugin.UNSET
    """Whether all roles that may create databases may copy this one."""
    comment: names_stub.Comment | plugin.Unset = plugin.UNSET
    """What the database is for. If it is not given, the present comment is kept."""
    cascade: bool | plugin.Unset = plugin.UNSET
    """Whether a deletion or replacement drops the database even if it has tables, and ends the sessions of others in
    it.
    """
    oid: int | plugin.Unset = plugin.UNSET
    """Number (OID) of the database in the server."""


class DatabaseProperty(enum.StrEnum):
    """Names of the fields on the wire."""

    NAME = "name"
    OWNER = "owner"
    ENCODING = "encoding"
    COLLATION = "collation"
    CHARACTER_TYPE = "characterType"
    TEMPLATE = "template"
    CONNECTION_LIMIT = "connectionLimit"
    ALLOW_CONNECTIONS = "allowConnections"
    IS_TEMPLATE = "isTemplate"
    COMMENT = "comment"
    CASCADE = "cascade"
    OID = "oid"


class DatabaseOperations(plugin.Operations[Database]):
    """Derive from this class, and write check, diff, read, create, update, delete and watch."""

    token = "postgres:database:Database"
    struct = Database


# Here, because modules may refer to each other in a circle.
import names_stub
