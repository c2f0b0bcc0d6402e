# Made by `holdfast idl compile` from schema.py, target python. Do not edit it.
"""Schemas of databases."""

from __future__ import annotations

import dataclasses

from holdfast import pack


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Schema(pack.Resource):
    """A schema of a database. Its identifier, by which grants refer to it, is `database/schema`.

    The provider sets `oid`.

        app:
          postgres.schema:
            - database: {ref: shop}
            - owner: {ref: alice}
    """

    _token = "postgres:schema:Schema"
    _schema = "schema.json"
    database: _module_database.Database | str
    """Database that contains the schema."""
    name: _module_names.Identifier
    """Name of the schema."""
    owner: _module_role.Role | str | pack.Unset = pack.UNSET
    """Role that owns the schema."""
    comment: _module_names.Comment | pack.Unset = pack.UNSET
    """What the schema is for. If it is not given, the present comment is kept."""
    cascade: bool | pack.Unset = pack.UNSET
    """Whether a deletion drops the schema with everything in it. Otherwise, a schema that is not empty is not
    dropped.
    """


# Here, because modules may refer to each other in a circle.
from . import database as _module_database
from . import names as _module_names
from . import role as _module_role


SchemaId = Schema | str
"""A schema: `{ref: STATE}`, or the database and the name, separated by a slash: `shop/app`."""
