"""Keys, with their values."""

from typing import Annotated

from holdfast import idl

Name = Annotated[str, idl.limits(shortest=1, longest=4096)]
"""Name of a key."""


@idl.exactly_one("text", "secret", "fields", "items", "members", "scores")
class Key(idl.Resource):
    """A key with its value. The server reports each change of a key, so the agent repairs it at once.

    greeting:
      redis.key:
        - text: hello

    limits:
      redis.key:
        - name: app:limits
        - database: 2
        - fields: {requests: "100", window: "60"}
    """

    name: Name = idl.field(replaces=True)
    """Name of the key."""
    database: Annotated[int, idl.limits(minimum=0, maximum=65535)] = idl.field(default=0, replaces=True)
    """Number of the database that has the key."""
    text: str = idl.field(optional=True)
    """Value of a string."""
    secret: str = idl.field(optional=True, secret=True)
    """Value of a string that is never shown."""
    fields: dict[str, str] = idl.field(optional=True, shortest=1)
    """All fields of a hash."""
    items: list[str] = idl.field(optional=True, shortest=1)
    """All items of a list."""
    members: set[str] = idl.field(optional=True, shortest=1)
    """All members of a set."""
    scores: dict[str, float] = idl.field(optional=True, shortest=1)
    """All members of a sorted set, with their scores."""
    persistent: bool = True
    """Whether the key must never expire. If false, an expiry is not changed."""
