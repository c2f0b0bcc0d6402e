# Made by `holdfast idl compile` from ec2/security_group.py, target python. Do not edit it.
# Rules follow the console of the cloud.
"""Security groups: which traffic reaches the machines of a network."""

from __future__ import annotations

import dataclasses
import enum
import typing

from holdfast import pack


ANYWHERE: typing.Final = "0.0.0.0/0"
"""Range of all addresses of version 4."""


class Protocol(enum.StrEnum):
    """What a rule applies to."""

    ALL = "-1"
    """Every protocol."""
    TCP = "tcp"
    UDP = "udp"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecurityGroupRule(pack.Struct):
    """One kind of traffic that is let through."""

    protocol: Protocol
    from_port: Port
    """First port of the range."""
    to_port: Port
    # A rule names addresses or a group, never both.
    cidr_blocks: list[str] | pack.Unset = pack.UNSET
    source_group: SecurityGroup | str | pack.Unset = pack.UNSET
    description: str | None | pack.Unset = pack.UNSET


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SecurityGroup(pack.Resource):
    """Traffic that reaches the machines which are members of the group.

    The provider sets `group_id` and `owner_id`.

        web:
          aws-ec2.security_group:
            - vpc: main
            - description: the web servers
            - ingress:
                - {protocol: tcp, from_port: 443, to_port: 443, cidr_blocks: [0.0.0.0/0]}
    """

    _token = "aws:ec2/security_group:SecurityGroup"
    _schema = "../schema.json"
    name: str | pack.Unset = dataclasses.field(default=pack.UNSET, kw_only=False)
    """Name of the resource."""
    vpc: _module_ec2_vpc.Vpc | str
    """Network of the group."""
    description: str
    ingress: list[SecurityGroupRule] | pack.Unset = pack.UNSET
    """Traffic to the machines."""
    egress: list[SecurityGroupRule] | pack.Unset = pack.UNSET
    """Traffic from the machines; by default all of it."""
    tags: dict[str, str] | pack.Unset = pack.UNSET


# Here, because modules may refer to each other in a circle.
from . import vpc as _module_ec2_vpc


Port = int
"""A port of TCP or UDP."""
