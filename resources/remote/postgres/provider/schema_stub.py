# Made by `holdfast idl compile` from schema.py, target python. Do not edit it.
"""Schemas of databases."""

from __future__ import annotations

import dataclasses
import enum

from holdfast import plugin


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schema(plugin.Struct):
    """A schema of a database. Its identifier, by which grants refer to it, is `database/schema`.

        app:
          postgres.schema:
            - database: {ref: shop}
            - owner: {ref: alice}
    """

    database: str
    """Database that contains the schema."""
    name: names_stub.Identifier
    """Name of the schema."""
    owner: str | plugin.Unset = plugin.UNSET
    """Role that owns the schema."""
    comment: names_stub.Comment | plugin.Unset = plugin.UNSET
    """What the schema is for. If it is not given, the present comment is kept."""
    cascade: bool | plugin.Unset = plugin.UNSET
    """Whether a deletion drops the schema with everything in it. Otherwise, a schema that is not empty is not
    dropped.
    """
    oid: int | plugin.Unset = plugin.UNSET
    """Number (OID) of the schema in the database."""


class SchemaProperty(enum.StrEnum):
    """Names of the fields on the wire."""

    DATABASE = "database"
    NAME = "name"
    OWNER = "owner"
    COMMENT = "comment"
    CASCADE = "cascade"
    OID = "oid"


class SchemaOperations(plugin.Operations[Schema]):
    """Derive from this class, and write check, diff, read, create, update, delete and watch."""

    token = "postgres:schema:Schema"
    struct = Schema


# Here, because modules may refer to each other in a circle.
import names_stub


SchemaId = str
"""A schema: `{ref: STATE}`, or the database and the name, separated by a slash: `shop/app`."""
