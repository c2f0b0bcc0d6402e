"""Parameters of the server, as in redis.conf."""

from typing import Annotated

from holdfast import idl

Parameter = Annotated[str, idl.limits(pattern="[a-z][a-z0-9-]*")]
"""Name of a parameter."""


@idl.exactly_one("value", "secret")
class Config(idl.Resource, poll=30):
    """A parameter of the server (`CONFIG SET`). The server does not report changes of parameters, so they are polled.

    maxmemory:
      redis.config:
        - value: 100mb
    """

    name: Parameter = idl.field(replaces=True)
    """Name of the parameter."""
    value: str = idl.field(optional=True)
    """Value of the parameter, in any form that redis.conf accepts."""
    secret: str = idl.field(optional=True, secret=True)
    """Value of a parameter that is never shown, such as `requirepass`."""
