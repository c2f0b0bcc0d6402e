# Made by `holdfast idl compile` from ec2/security_group.py, target python. Do not edit it.
# Rules follow the console of the cloud.
"""Security groups: which traffic reaches the machines of a network."""

from __future__ import annotations

import dataclasses
import enum
import typing

from holdfast import plugin


ANYWHERE: typing.Final = "0.0.0.0/0"
"""Range of all addresses of version 4."""


class Protocol(enum.StrEnum):
    """What a rule applies to."""

    ALL = "-1"
    """Every protocol."""
    TCP = "tcp"
    UDP = "udp"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecurityGroupRule(plugin.Struct):
    """One kind of traffic that is let through."""

    protocol: Protocol
    from_port: Port
    """First port of the range."""
    to_port: Port
    # A rule names addresses or a group, never both.
    cidr_blocks: list[str] | plugin.Unset = plugin.UNSET
    source_group: str | plugin.Unset = plugin.UNSET
    description: str | None | plugin.Unset = plugin.UNSET


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecurityGroup(plugin.Struct):
    """Traffic that reaches the machines which are members of the group.

        web:
          aws-ec2.security_group:
            - vpc: main
            - description: the web servers
            - ingress:
                - {protocol: tcp, from_port: 443, to_port: 443, cidr_blocks: [0.0.0.0/0]}
    """

    name: str | plugin.Unset = plugin.UNSET
    """Name of the resource."""
    vpc: str
    """Network of the group."""
    description: str
    ingress: list[SecurityGroupRule] | plugin.Unset = plugin.UNSET
    """Traffic to the machines."""
    egress: list[SecurityGroupRule] | plugin.Unset = plugin.UNSET
    """Traffic from the machines; by default all of it."""
    tags: dict[str, str] | plugin.Unset = plugin.UNSET
    group_id: str | plugin.Unset = plugin.UNSET
    """Identifier that the cloud has given to the group."""
    owner_id: str | plugin.Unset = plugin.UNSET


class SecurityGroupProperty(enum.StrEnum):
    """Names of the fields on the wire."""

    NAME = "name"
    VPC = "vpc"
    DESCRIPTION = "description"
    INGRESS = "ingress"
    EGRESS = "egress"
    TAGS = "tags"
    GROUP_ID = "groupId"
    OWNER_ID = "ownerId"


class SecurityGroupOperations(plugin.Operations[SecurityGroup]):
    """Derive from this class, and write check, diff, read, create, update, delete and watch."""

    token = "aws:ec2/security_group:SecurityGroup"
    struct = SecurityGroup


Port = int
"""A port of TCP or UDP."""
