"""Extensions of databases."""

from holdfast import idl

from .database import Database
from .names import Identifier
from .schema import SchemaId


class Extension(idl.Resource):
    """An extension that is installed in a database; its files must be on the server.

    hstore:
      postgres.extension:
        - database: {ref: shop}
        - schema: shop/app
    """

    database: idl.Ref[Database] = idl.field(replaces=True)
    """Database that it is installed in."""
    name: Identifier = idl.field(replaces=True)
    """Name of the extension."""
    schema: SchemaId = idl.field(computed=True)
    """Schema of its objects, `database/schema`; by default the one that the extension names, or `public`."""
    version: str = idl.field(computed=True, shortest=1, longest=63)
    """Its version; by default the newest one when it is installed."""
    cascade: bool = False
    """Install the extensions that it needs as well, and drop what depends on it when it is dropped."""
    oid: int = idl.field(out=True)
    """Number of the extension in the database."""
