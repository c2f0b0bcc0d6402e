"""The package of the example tests/idl/ec2, written by hand, as the compiler must read it."""

from __future__ import annotations

from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Remote, Rule
from holdfast.agent.model.package import Constant, Enumeration, EnumValue, Module, NamedType, Package
from holdfast.agent.model.types import NONE, TEXT, Type

RULE = Type("record", record="ec2/security_group:SecurityGroupRule")
RULES = Type("list", items=RULE)
PORT = Type("integer", minimum=0, maximum=65535)
NAMED_PORT = Type("integer", minimum=0, maximum=65535, alias="ec2/security_group:Port")
NAME = Field(
    "name",
    Type("text", shortest=1),
    doc="Name of the resource.",
    replaces=True,
    computed=True,
)

EXAMPLE = """web:
  aws-ec2.security_group:
    - vpc: main
    - description: the web servers
    - ingress:
        - {protocol: tcp, from_port: 443, to_port: 443, cidr_blocks: [0.0.0.0/0]}"""

VPC = Module(
    name="ec2/vpc",
    docs=Docs("Virtual networks."),
    order=("Vpc",),
    resources=(
        KindModel(
            name="aws-ec2.vpc",
            docs=Docs("A virtual network of its own."),
            fields=(
                NAME,
                Field(
                    "cidr_block",
                    Type("text", patterns=("[0-9.]+/[0-9]{1,2}",)),
                    doc="Range of addresses: `10.0.0.0/16`.",
                    required=True,
                    wire="cidrBlock",
                    replaces=True,
                ),
                Field(
                    "vpc_id",
                    TEXT,
                    doc="Identifier that the cloud has given to the network.",
                    required=True,
                    wire="vpcId",
                    out=True,
                ),
            ),
            remote=Remote("aws:ec2/vpc:Vpc", named=True, poll=60),
        ),
    ),
)

GROUP = Module(
    name="ec2/security_group",
    docs=Docs("Security groups: which traffic reaches the machines of a network."),
    comment="Rules follow the console of the cloud.",
    order=("Port", "ANYWHERE", "Protocol", "SecurityGroupRule", "SecurityGroup"),
    aliases=(NamedType("Port", PORT, doc="A port of TCP or UDP."),),
    constants=(Constant("ANYWHERE", TEXT, "0.0.0.0/0", doc="Range of all addresses of version 4."),),
    enumerations=(
        Enumeration(
            "Protocol",
            Docs("What a rule applies to."),
            (EnumValue("ALL", "-1", "Every protocol."), EnumValue("TCP", "tcp"), EnumValue("UDP", "udp")),
        ),
    ),
    records=(
        Record(
            "SecurityGroupRule",
            Docs("One kind of traffic that is let through."),
            fields=(
                Field(
                    "protocol",
                    Type("choice", choices=("-1", "tcp", "udp"), enumeration="ec2/security_group:Protocol"),
                    required=True,
                ),
                Field("from_port", NAMED_PORT, doc="First port of the range.", required=True, wire="fromPort"),
                Field("to_port", NAMED_PORT, required=True, wire="toPort"),
                Field(
                    "cidr_blocks",
                    Type("list", items=TEXT, shortest=1),
                    wire="cidrBlocks",
                    comment="A rule names addresses or a group, never both.",
                ),
                Field(
                    "source_group",
                    Type("reference", target="aws:ec2/security_group:SecurityGroup"),
                    wire="sourceGroup",
                ),
                Field("description", Type("union", members=(TEXT, NONE)), default=None),
            ),
            rules=(Rule("ordered", ("from_port", "to_port")), Rule("exactly one", ("cidr_blocks", "source_group"))),
        ),
    ),
    resources=(
        KindModel(
            name="aws-ec2.security_group",
            docs=Docs(
                "Traffic that reaches the machines which are members of the group.",
                examples=(EXAMPLE,),
            ),
            fields=(
                NAME,
                Field(
                    "vpc",
                    Type("reference", target="aws:ec2/vpc:Vpc"),
                    doc="Network of the group.",
                    required=True,
                    replaces=True,
                ),
                Field("description", Type("text", longest=255), required=True, replaces=True),
                Field("ingress", RULES, doc="Traffic to the machines.", default=[]),
                Field("egress", RULES, doc="Traffic from the machines; by default all of it."),
                Field("tags", Type("mapping", keys=TEXT, items=TEXT), default={}, since="0.2.0"),
                Field(
                    "group_id",
                    TEXT,
                    doc="Identifier that the cloud has given to the group.",
                    required=True,
                    wire="groupId",
                    out=True,
                ),
                Field("owner_id", TEXT, wire="ownerId", out=True),
            ),
            remote=Remote("aws:ec2/security_group:SecurityGroup", named=True, poll=60),
        ),
    ),
)

EC2 = Package(
    name="aws",
    version="1.0.0",
    docs=Docs("Some resources of a cloud, as an example of the language."),
    modules=(GROUP, VPC),
)
