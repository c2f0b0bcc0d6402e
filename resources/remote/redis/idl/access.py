"""How the provider reaches the server."""

from typing import Annotated

from holdfast import idl

Port = Annotated[int, idl.limits(minimum=1, maximum=65535)]
"""A port of TCP."""


@idl.at_most_one("socket", "host")
@idl.together("certificate", "key")
class Access(idl.Config):
    """Where the server is, and as whom the provider logs in."""

    socket: idl.Path = idl.field(optional=True)
    """Its unix socket; without `socket` and `host`, the server is at 127.0.0.1."""
    host: str = idl.field(optional=True, shortest=1)
    """Its name or address."""
    port: Port = 6379
    """Its port, if `socket` is not given."""
    tls: bool = False
    """The connection is encrypted, and the server shows a certificate for its name."""
    authority: idl.Path = idl.field(optional=True)
    """File with the certificates (PEM) that may have signed that of the server; without it, those of Node.js."""
    certificate: idl.Path = idl.field(optional=True)
    """File with the certificate (PEM) of the provider, if the server demands one (`tls-auth-clients`)."""
    key: idl.Path = idl.field(optional=True)
    """File with the key of that certificate, which the user of the plugin can read."""
    user: str = idl.field(default="default", shortest=1)
    """User of the server (ACL) as which the provider logs in, if there is a password."""
    password: str = idl.field(optional=True, secret=True, shortest=1)
    """Password of that user."""
    events: bool = True
    """The provider adds `KA` to the parameter `notify-keyspace-events` where it is missing, so that the server reports
    changes of keys. False: the parameter is left alone; without `KA` all keys are read every five seconds."""
    save: bool = True
    """Changes of users and parameters are written to the files of the server, so that its next start has them."""
