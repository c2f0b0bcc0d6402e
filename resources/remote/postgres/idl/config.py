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
    """If the server offers it; its certificate is not checked."""
    REQUIRE = "require"
    """Always; the certificate of the server is not checked."""
    VERIFY_CA = "verify-ca"
    """Always, and the certificate of the server must be of an authority that is trusted."""
    VERIFY_FULL = "verify-full"
    """The same, and the certificate must be for this host."""


class Server(idl.Config):
    """The server, and the role that the provider connects as."""

    host: str = "/var/run/postgresql"
    """Name or address of the server, or the directory of its unix socket."""
    port: int = idl.field(default=5432, minimum=1, maximum=65535)
    """Port of the server, which is part of the name of its socket, too."""
    user: Identifier = idl.field(optional=True)
    """Role to connect as; by default the one with the name of the user that the plugin runs as."""
    database: Identifier = "postgres"
    """Database to connect to for roles and databases. It must exist, and should be no database of an application."""
    password: str = idl.field(optional=True, secret=True, shortest=1)
    """Password of that role. Without it, the server must accept the user as it is."""
    ssl_mode: SslMode = SslMode.VERIFY_FULL
    """How a connection over TCP is encrypted."""
    ssl_root_certificate: idl.Path = idl.field(optional=True)
    """File with the authorities that may sign the certificate of the server."""
    connect_timeout: Seconds = idl.field(default=10, unit="seconds")
    """How long a connection may take."""
    lock_timeout: Seconds = idl.field(default=10, unit="seconds")
    """How long a change waits for others, who hold a lock; it is tried again later."""
    statement_timeout: Seconds = idl.field(default=300, unit="seconds")
    """How long a statement may take, such as the copy of a large template."""
    event_schema: str = idl.field(default="holdfast", longest=50, pattern="[ -~]*")
    """Schema in each database that holds the event triggers of the provider, by which it learns of changes at once.

    If it is empty, or if the role is no superuser, the provider creates nothing and looks every `poll` seconds.
    """
    poll: Seconds = idl.field(default=30, unit="seconds")
    """How often the provider looks at schemas, extensions and privileges where no event trigger tells it of changes."""
