# Rules follow the console of the cloud.
"""Security groups: which traffic reaches the machines of a network."""

from typing import Annotated, Final

from holdfast import idl

from .vpc import Vpc

Port = Annotated[int, idl.limits(minimum=0, maximum=65535)]
"""A port of TCP or UDP."""

ANYWHERE: Final = "0.0.0.0/0"
"""Range of all addresses of version 4."""


class Protocol(idl.Enum):
    """What a rule applies to."""

    ALL = "-1"
    """Every protocol."""
    TCP = "tcp"
    UDP = "udp"


@idl.ordered("from_port", "to_port")
@idl.exactly_one("cidr_blocks", "source_group")
class SecurityGroupRule:
    """One kind of traffic that is let through."""

    protocol: Protocol
    from_port: Port
    """First port of the range."""
    to_port: Port
    # A rule names addresses or a group, never both.
    cidr_blocks: list[str] = idl.field(optional=True, shortest=1)
    source_group: "idl.Ref[SecurityGroup]" = idl.field(optional=True)
    description: str | None = idl.field(default=None)


class SecurityGroup(idl.NamedResource, poll=60):
    """Traffic that reaches the machines which are members of the group.

    web:
      aws-ec2.security_group:
        - vpc: main
        - description: the web servers
        - ingress:
            - {protocol: tcp, from_port: 443, to_port: 443, cidr_blocks: [0.0.0.0/0]}
    """

    vpc: idl.Ref[Vpc] = idl.field(replaces=True)
    """Network of the group."""
    description: str = idl.field(replaces=True, longest=255)
    ingress: list[SecurityGroupRule] = idl.field(default=[])
    """Traffic to the machines."""
    egress: list[SecurityGroupRule] = idl.field(optional=True)
    """Traffic from the machines; by default all of it."""
    tags: dict[str, str] = idl.field(default={}, since="0.2.0")
    group_id: str = idl.field(out=True)
    """Identifier that the cloud has given to the group."""
    owner_id: str = idl.field(out=True, optional=True)
