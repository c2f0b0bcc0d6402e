"""Schemas of databases."""

from typing import Annotated

from holdfast import idl

from .database import Database
from .names import Comment, Identifier
from .role import Role


class Schema(idl.Resource):
    """A schema of a database. Its identifier, by which grants refer to it, is `database/schema`.

    app:
      postgres.schema:
        - database: {ref: shop}
        - owner: {ref: alice}
    """

    database: idl.Ref[Database] = idl.field(replaces=True)
    """Database that contains the schema."""
    name: Identifier = idl.field(replaces=True)
    """Name of the schema."""
    owner: idl.Ref[Role] = idl.field(computed=True)
    """Role that owns the schema."""
    comment: Comment = idl.field(optional=True)
    """What the schema is for. If it is not given, the present comment is kept."""
    cascade: bool = False
    """Whether a deletion drops the schema with everything in it. Otherwise, a schema that is not empty is not
    dropped."""
    oid: int = idl.field(out=True)
    """Number (OID) of the schema in the database."""


SchemaId = Annotated[idl.Ref[Schema], idl.limits(pattern="[^/]+/[^/]+")]
"""A schema: `{ref: STATE}`, or the database and the name, separated by a slash: `shop/app`."""
