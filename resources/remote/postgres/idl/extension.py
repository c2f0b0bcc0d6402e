"""Extensions of databases."""

from holdfast import idl

from .database import Database
from .names import Identifier
from .schema import SchemaId


class Extension(idl.Resource):
    """An extension that is installed in a database. The server must have the files of the extension.

    hstore:
      postgres.extension:
        - database: {ref: shop}
        - schema: shop/app
    """

    database: idl.Ref[Database] = idl.field(replaces=True)
    """Database in which the extension is installed."""
    name: Identifier = idl.field(replaces=True)
    """Name of the extension."""
    schema: SchemaId = idl.field(computed=True)
    """Schema of its objects, `database/schema`. The default is the schema that the extension names, or `public`."""
    version: str = idl.field(computed=True, shortest=1, longest=63)
    """Version of the extension. By default, the newest version is installed and then kept."""
    cascade: bool = False
    """Whether the extensions that this one needs are installed, too, and what depends on this one is dropped with
    it."""
    oid: int = idl.field(out=True)
    """Number (OID) of the extension in the database."""
