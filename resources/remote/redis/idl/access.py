"""How the provider reaches the server."""

from typing import Annotated

from holdfast import idl

Port = Annotated[int, idl.limits(minimum=1, maximum=65535)]
"""A TCP port."""


@idl.at_most_one("socket", "host")
@idl.together("certificate", "key")
class Access(idl.Config):
    """Where the server is, and as whom the provider logs in."""

    socket: idl.Path = idl.field(optional=True)
    """Unix socket of the server. Without `socket` and `host`, the provider connects to 127.0.0.1."""
    host: str = idl.field(optional=True, shortest=1)
    """Name or address of the server."""
    port: Port = 6379
    """Port of the server, if `socket` is not given."""
    tls: bool = False
    """Whether the connection is encrypted. The server must then have a certificate for `host`."""
    authority: idl.Path = idl.field(optional=True)
    """File with the trusted authorities (PEM) for the server's certificate. The default is those of Node.js."""
    certificate: idl.Path = idl.field(optional=True)
    """File with the provider's certificate (PEM), if the server demands one (`tls-auth-clients`)."""
    key: idl.Path = idl.field(optional=True)
    """File with the key of `certificate`. The user of the plugin must be able to read it."""
    user: str = idl.field(default="default", shortest=1)
    """User (ACL) that the provider logs in as, if there is a password."""
    password: str = idl.field(optional=True, secret=True, shortest=1)
    """Password of `user`."""
    events: bool = True
    """Whether the provider adds `KA` to the parameter `notify-keyspace-events`, so that the server reports changes of
    keys. If false, the parameter is not changed; without `KA` the provider reads all keys every five seconds."""
    save: bool = True
    """Whether changes of users and parameters are written to the files of the server, so that they survive its
    restart."""
