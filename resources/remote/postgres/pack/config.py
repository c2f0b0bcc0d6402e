# Made by `holdfast idl compile` from config.py, target python. Do not edit it.
"""How the provider reaches the server."""

from __future__ import annotations

import dataclasses
import enum
import pathlib

from holdfast import pack


class SslMode(enum.StrEnum):
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Server(pack.Struct):
    """The server, and the role that the provider connects as."""

    host: str | pack.Unset = pack.UNSET
    """Name or address of the server, or the directory of its unix socket."""
    port: int | pack.Unset = pack.UNSET
    """Port of the server, which is part of the name of its socket, too."""
    user: _module_names.Identifier | pack.Unset = pack.UNSET
    """Role to connect as; by default the one with the name of the user that the plugin runs as."""
    database: _module_names.Identifier | pack.Unset = pack.UNSET
    """Database to connect to for roles and databases. It must exist, and should be no database of an application."""
    password: str | pack.Unset = dataclasses.field(default=pack.UNSET, repr=False)
    """Password of that role. Without it, the server must accept the user as it is."""
    ssl_mode: SslMode | pack.Unset = pack.UNSET
    """How a connection over TCP is encrypted."""
    ssl_root_certificate: pathlib.PurePosixPath | pack.Unset = pack.UNSET
    """File with the authorities that may sign the certificate of the server."""
    connect_timeout: Seconds | pack.Unset = pack.UNSET
    """How long a connection may take."""
    lock_timeout: Seconds | pack.Unset = pack.UNSET
    """How long a change waits for others, who hold a lock; it is tried again later."""
    statement_timeout: Seconds | pack.Unset = pack.UNSET
    """How long a statement may take, such as the copy of a large template."""
    event_schema: str | pack.Unset = pack.UNSET
    """Schema in each database that holds the event triggers of the provider, by which it learns of changes at once.
    If it is empty, or if the role is no superuser, the provider creates nothing and looks every `poll` seconds.
    """
    poll: Seconds | pack.Unset = pack.UNSET
    """How often the provider looks at schemas, extensions and privileges where no event trigger tells it of changes."""


# Here, because modules may refer to each other in a circle.
from . import names as _module_names


Seconds = int
"""A length of time in seconds."""
