# Made by `holdfast idl compile` from extension.py, target python. Do not edit it.
"""Extensions of databases."""

from __future__ import annotations

import dataclasses
import enum

from holdfast import plugin


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extension(plugin.Struct):
    """An extension that is installed in a database. The server must have the files of the extension.

        hstore:
          postgres.extension:
            - database: {ref: shop}
            - schema: shop/app
    """

    database: str
    """Database in which the extension is installed."""
    name: names_stub.Identifier
    """Name of the extension."""
    schema: schema_stub.SchemaId | plugin.Unset = plugin.UNSET
    """Schema of its objects, `database/schema`. The default is the schema that the extension names, or `public`."""
    version: str | plugin.Unset = plugin.UNSET
    """Version of the extension. By default, the newest version is installed and then kept."""
    cascade: bool | plugin.Unset = plugin.UNSET
    """Whether the extensions that this one needs are installed, too, and what depends on this one is dropped with
    it.
    """
    oid: int | plugin.Unset = plugin.UNSET
    """Number (OID) of the extension in the database."""


class ExtensionProperty(enum.StrEnum):
    """Names of the fields on the wire."""

    DATABASE = "database"
    NAME = "name"
    SCHEMA = "schema"
    VERSION = "version"
    CASCADE = "cascade"
    OID = "oid"


class ExtensionOperations(plugin.Operations[Extension]):
    """Derive from this class, and write check, diff, read, create, update, delete and watch."""

    token = "postgres:extension:Extension"
    struct = Extension


# Here, because modules may refer to each other in a circle.
import names_stub
import schema_stub
