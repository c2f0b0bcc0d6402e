# Made by `holdfast idl compile` from ec2/vpc.py, target python. Do not edit it.
"""Virtual networks."""

from __future__ import annotations

import dataclasses

from holdfast import pack


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Vpc(pack.Resource):
    """A virtual network of its own.

    The provider sets `vpc_id`.
    """

    _token = "aws:ec2/vpc:Vpc"
    _schema = "../schema.json"
    name: str | pack.Unset = dataclasses.field(default=pack.UNSET, kw_only=False)
    """Name of the resource."""
    cidr_block: str
    """Range of addresses: `10.0.0.0/16`."""
