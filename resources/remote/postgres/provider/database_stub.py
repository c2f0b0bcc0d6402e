# Made by `holdfast idl compile` from database.py, target python. Do not edit it.
"""Databases."""

from __future__ import annotations

import dataclasses
import enum

from holdfast import plugin


@dataclasses.dataclass(frozen=True, kw_only=True)
class Database(plugin.Struct):
    """A database. The server has no event for changes of databases, so it is polled.

    Encoding and locale of a database cannot be changed: another value replaces the database. It is only dropped
    if it has no tables, or if `cascade` says so.

        shop:
          postgres.database:
            - owner: {ref: alice}
            - encoding: UTF8
    """

    name: names_stub.Identifier
    """Name of the database."""
    owner: str | plugin.Unset = plugin.UNSET
    """Role that owns it."""
    encoding: str | plugin.Unset = plugin.UNSET
    """Its encoding, by the server's name: `UTF8`, `LATIN1`, `SQL_ASCII`."""
    collation: str | plugin.Unset = plugin.UNSET
    """Locale by which texts are ordered: `C.UTF-8`."""
    character_type: str | plugin.Unset = plugin.UNSET
    """Locale that says what is a letter."""
    template: names_stub.Identifier | plugin.Unset = plugin.UNSET
    """Database that it is copied from when it is created; the server does not remember it. Another encoding or
    locale than that of template1 needs `template0`.
    """
    connection_limit: int | plugin.Unset = plugin.UNSET
    """How many connections it may have at once; -1: any number."""
    allow_connections: bool | plugin.Unset = plugin.UNSET
    """Roles may connect to it."""
    is_template: bool | plugin.Unset = plugin.UNSET
    """Roles that may create databases may copy it."""
    comment: names_stub.Comment | plugin.Unset = plugin.UNSET
    """What the database is for. If it is not given, it is left as it is."""
    cascade: bool | plugin.Unset = plugin.UNSET
    """A deletion or replacement drops it with its tables, and ends the sessions of others in it."""
    oid: int | plugin.Unset = plugin.UNSET
    """Number of the database in the server."""


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
