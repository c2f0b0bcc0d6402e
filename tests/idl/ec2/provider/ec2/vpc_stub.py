# Made by `holdfast idl compile` from ec2/vpc.py, target python. Do not edit it.
"""Virtual networks."""

from __future__ import annotations

import dataclasses
import enum

from holdfast import plugin


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vpc(plugin.Struct):
    """A virtual network of its own."""

    name: str | plugin.Unset = plugin.UNSET
    """Name of the resource."""
    cidr_block: str
    """Range of addresses: `10.0.0.0/16`."""
    vpc_id: str | plugin.Unset = plugin.UNSET
    """Identifier that the cloud has given to the network."""


class VpcProperty(enum.StrEnum):
    """Names of the fields on the wire."""

    NAME = "name"
    CIDR_BLOCK = "cidrBlock"
    VPC_ID = "vpcId"


class VpcOperations(plugin.Operations[Vpc]):
    """Derive from this class, and write check, diff, read, create, update, delete and watch."""

    token = "aws:ec2/vpc:Vpc"
    struct = Vpc
