"""How the provider reaches the server."""

from typing import Annotated

from holdfast import idl

from .names import Identifier

Seconds = Annotated[int, idl.limits(minimum=1, maximum=3600)]
"""A length of time in seconds."""


class SslMode(idl.Enum):
    """How a connection over TCP is encrypted. A unix socket needs no encryption."""

    DISABLE = "disable"
    """Never."""
    PREFER = "prefer"
    """If the server offers it. The certificate of the server is not checked."""
    REQUIRE = "require"
    """Always. The certificate of the server is not checked."""
    VERIFY_CA = "verify-ca"
    """Always. A trusted authority must have signed the certificate of the server."""
    VERIFY_FULL = "verify-full"
    """As `verify-ca`, and the certificate must also be for this host."""


class Server(idl.Config):
    """The server, and the role that the provider connects as."""

    host: str = "/var/run/postgresql"
    """Name or address of the server, or the directory of its unix socket."""
    port: int = idl.field(default=5432, minimum=1, maximum=65535)
    """Port of the server. The name of its socket contains this number, too."""
    user: Identifier = idl.field(optional=True)
    """Role to connect as. The default is the name of the user that the plugin runs as."""
    database: Identifier = "postgres"
    """Database to connect to for roles and databases. It must exist, and should not be the database of an
    application."""
    password: str = idl.field(optional=True, secret=True, shortest=1)
    """Password of the role. If it is not given, the server must accept the user without a password."""
    ssl_mode: SslMode = SslMode.VERIFY_FULL
    """How a connection over TCP is encrypted."""
    ssl_root_certificate: idl.Path = idl.field(optional=True)
    """File with the authorities that may sign the certificate of the server."""
    connect_timeout: Seconds = idl.field(default=10, unit="seconds")
    """Greatest duration of the attempt to connect."""
    lock_timeout: Seconds = idl.field(default=10, unit="seconds")
    """How long a change waits for a lock that another session holds. After that time, the change is tried again
    later."""
    statement_timeout: Seconds = idl.field(default=300, unit="seconds")
    """Greatest duration of a statement, such as the copy of a large template."""
    event_schema: str = idl.field(default="holdfast", longest=50, pattern="[ -~]*")
    """Schema, in each database, for the event triggers that notify the provider of changes at once.

    If it is empty, or if the role is not a superuser, the provider creates nothing and polls every `poll` seconds.
    """
    poll: Seconds = idl.field(default=30, unit="seconds")
    """How often the provider polls schemas, extensions and privileges if no event trigger reports their changes."""
