# Made by `holdfast idl compile` from extension.py, target python. Do not edit it.
"""Extensions of databases."""

from __future__ import annotations

import dataclasses

from holdfast import pack


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Extension(pack.Resource):
    """An extension that is installed in a database. The server must have the files of the extension.

    The provider sets `oid`.

        hstore:
          postgres.extension:
            - database: {ref: shop}
            - schema: shop/app
    """

    _token = "postgres:extension:Extension"
    _schema = "schema.json"
    database: _module_database.Database | str
    """Database in which the extension is installed."""
    name: _module_names.Identifier
    """Name of the extension."""
    schema: _module_schema.SchemaId | pack.Unset = pack.UNSET
    """Schema of its objects, `database/schema`. The default is the schema that the extension names, or `public`."""
    version: str | pack.Unset = pack.UNSET
    """Version of the extension. By default, the newest version is installed and then kept."""
    cascade: bool | pack.Unset = pack.UNSET
    """Whether the extensions that this one needs are installed, too, and what depends on this one is dropped with
    it.
    """


# Here, because modules may refer to each other in a circle.
from . import database as _module_database
from . import names as _module_names
from . import schema as _module_schema
