# Made by `holdfast idl compile` from extension.py, target python. Do not edit it.
"""Extensions of databases."""

from __future__ import annotations

import dataclasses

from holdfast import pack


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Extension(pack.Resource):
    """An extension that is installed in a database; its files must be on the server.

    The provider sets `oid`.

        hstore:
          postgres.extension:
            - database: {ref: shop}
            - schema: shop/app
    """

    _token = "postgres:extension:Extension"
    _schema = "schema.json"
    database: _module_database.Database | str
    """Database that it is installed in."""
    name: _module_names.Identifier
    """Name of the extension."""
    schema: _module_schema.SchemaId | pack.Unset = pack.UNSET
    """Schema of its objects, `database/schema`; by default the one that the extension names, or `public`."""
    version: str | pack.Unset = pack.UNSET
    """Its version; by default the newest one when it is installed."""
    cascade: bool | pack.Unset = pack.UNSET
    """Install the extensions that it needs as well, and drop what depends on it when it is dropped."""


# Here, because modules may refer to each other in a circle.
from . import database as _module_database
from . import names as _module_names
from . import schema as _module_schema
