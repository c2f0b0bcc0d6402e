# Made by `holdfast idl compile` from config.py, target python. Do not edit it.
"""How the provider reaches the server."""

from __future__ import annotations

import dataclasses
import enum
import pathlib

from holdfast import plugin


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
class Server(plugin.Struct):
    """The server, and the role that the provider connects as."""

    host: str | plugin.Unset = plugin.UNSET
    """Name or address of the server, or the directory of its unix socket."""
    port: int | plugin.Unset = plugin.UNSET
    """Port of the server, which is part of the name of its socket, too."""
    user: names_stub.Identifier | plugin.Unset = plugin.UNSET
    """Role to connect as; by default the one with the name of the user that the plugin runs as."""
    database: names_stub.Identifier | plugin.Unset = plugin.UNSET
    """Database to connect to for roles and databases. It must exist, and should be no database of an application."""
    password: plugin.Secret | plugin.Unset = plugin.UNSET
    """Password of that role. Without it, the server must accept the user as it is."""
    ssl_mode: SslMode | plugin.Unset = plugin.UNSET
    """How a connection over TCP is encrypted."""
    ssl_root_certificate: pathlib.PurePosixPath | plugin.Unset = plugin.UNSET
    """File with the authorities that may sign the certificate of the server."""
    connect_timeout: Seconds | plugin.Unset = plugin.UNSET
    """How long a connection may take."""
    lock_timeout: Seconds | plugin.Unset = plugin.UNSET
    """How long a change waits for others, who hold a lock; it is tried again later."""
    statement_timeout: Seconds | plugin.Unset = plugin.UNSET
    """How long a statement may take, such as the copy of a large template."""
    event_schema: str | plugin.Unset = plugin.UNSET
    """Schema in each database that holds the event triggers of the provider, by which it learns of changes at once.
    If it is empty, or if the role is no superuser, the provider creates nothing and looks every `poll` seconds.
    """
    poll: Seconds | plugin.Unset = plugin.UNSET
    """How often the provider looks at schemas, extensions and privileges where no event trigger tells it of changes."""


# Here, because modules may refer to each other in a circle.
import names_stub


Seconds = int
"""A length of time in seconds."""
