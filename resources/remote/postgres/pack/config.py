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
    """If the server offers it. The certificate of the server is not checked."""
    REQUIRE = "require"
    """Always. The certificate of the server is not checked."""
    VERIFY_CA = "verify-ca"
    """Always. A trusted authority must have signed the certificate of the server."""
    VERIFY_FULL = "verify-full"
    """As `verify-ca`, and the certificate must also be for this host."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Server(pack.Struct):
    """The server, and the role that the provider connects as."""

    host: str | pack.Unset = pack.UNSET
    """Name or address of the server, or the directory of its unix socket."""
    port: int | pack.Unset = pack.UNSET
    """Port of the server. The name of its socket contains this number, too."""
    user: _module_names.Identifier | pack.Unset = pack.UNSET
    """Role to connect as. The default is the name of the user that the plugin runs as."""
    database: _module_names.Identifier | pack.Unset = pack.UNSET
    """Database to connect to for roles and databases. It must exist, and should not be the database of an
    application.
    """
    password: str | pack.Unset = dataclasses.field(default=pack.UNSET, repr=False)
    """Password of the role. If it is not given, the server must accept the user without a password."""
    ssl_mode: SslMode | pack.Unset = pack.UNSET
    """How a connection over TCP is encrypted."""
    ssl_root_certificate: pathlib.PurePosixPath | pack.Unset = pack.UNSET
    """File with the authorities that may sign the certificate of the server."""
    connect_timeout: Seconds | pack.Unset = pack.UNSET
    """Greatest duration of the attempt to connect."""
    lock_timeout: Seconds | pack.Unset = pack.UNSET
    """How long a change waits for a lock that another session holds. After that time, the change is tried again
    later.
    """
    statement_timeout: Seconds | pack.Unset = pack.UNSET
    """Greatest duration of a statement, such as the copy of a large template."""
    event_schema: str | pack.Unset = pack.UNSET
    """Schema, in each database, for the event triggers that notify the provider of changes at once. If it is empty,
    or if the role is not a superuser, the provider creates nothing and polls every `poll` seconds.
    """
    poll: Seconds | pack.Unset = pack.UNSET
    """How often the provider polls schemas, extensions and privileges if no event trigger reports their changes."""


# Here, because modules may refer to each other in a circle.
from . import names as _module_names


Seconds = int
"""A length of time in seconds."""
