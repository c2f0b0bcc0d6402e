"""Users of access control lists (ACL)."""

from typing import Annotated

from holdfast import idl

UserName = Annotated[str, idl.limits(pattern=r"[!-~]{1,256}")]
"""Name of a user, without spaces."""
Hash = Annotated[str, idl.limits(pattern="[0-9a-f]{64}")]
"""SHA-256 of a password, in hexadecimal digits: `printf %s PASSWORD | sha256sum`."""
Rule = Annotated[str, idl.limits(pattern=r"[+-][!-~]+|\([!-~][ -~]*\)")]
"""`+get`, `-@dangerous`, `+config|get`; or a selector, as in `ACL LIST`: `(~cache:* resetchannels -@all +get)`."""
KeyPattern = Annotated[str, idl.limits(pattern=r"(?:%(?:R|W|RW)~|~)[!-~]+")]
"""`~app:*`; `%R~app:*` to read only, `%W~app:*` to write only."""
ChannelPattern = Annotated[str, idl.limits(pattern="&[!-~]+")]
"""`&news:*`."""


@idl.at_most_one("password", "hashes")
class AclUser(idl.Resource, poll=30):
    """A user of the server. The server does not report changes of users, so they are polled.

    app:
      redis.acl_user:
        - password: {{ pillar.app_password | tojson }}
        - rules: [+@read, +@write, -@dangerous]
        - keys: [~app:*]
    """

    name: UserName = idl.field(replaces=True)
    """Name of the user."""
    enabled: bool = True
    """Whether the user may log in."""
    password: str = idl.field(optional=True, secret=True, write_only=True, shortest=1)
    """The only password. The server receives its hash, never the password."""
    hashes: set[Hash] = idl.field(optional=True, secret=True)
    """Hashes of all passwords."""
    without_password: bool = False
    """Whether the user can log in with any password."""
    rules: list[Rule] = idl.field(default=["-@all"])
    """Rules for commands, and selectors, in order. Without rules, no command is allowed."""
    keys: set[KeyPattern] = idl.field(default=[])
    """Patterns of all keys that the user may use."""
    channels: set[ChannelPattern] = idl.field(default=[])
    """Patterns of all channels that the user may use."""
