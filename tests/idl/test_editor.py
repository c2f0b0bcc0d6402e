"""An editor completes, explains and checks states of a package by the schema that is generated with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ec2_package import EC2
from holdfast.agent.idl.targets.jsonschema import TARGET
from language_server import Client, serving

GOOD = """\
web:
  aws-ec2.security_group:
    - vpc: {ref: main}
    - description: the web servers
    - ingress:
        - protocol: tcp
          from_port: 80
          to_port: 80
          cidr_blocks: [0.0.0.0/0]
main:
  aws-ec2.vpc:
    - cidr_block: 10.0.0.0/16
    - require:
        - file: /etc/motd
/etc/motd:
  file.managed:
    - anything: that the schema of a package does not know
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server that uses the schema of the example."""
    path = tmp_path_factory.mktemp("schemas") / "states.schema.json"
    path.write_text(TARGET.pack(EC2)["states.schema.json"])
    with serving({path: ["*.sls"]}) as client:
        yield client


def test_a_right_file_has_no_problems(server: Client) -> None:
    """States of other kinds are not checked."""
    assert server.problems("file:///x/right.sls", GOOD) == []


def test_mistakes_are_reported_at_their_lines(server: Client) -> None:
    """A mistyped kind, an unknown argument, a value of another type, and two arguments of which one is legal."""
    text = GOOD.replace("aws-ec2.vpc:", "aws-ec2.vcp:").replace("    - description:", "    - descripton:")
    text = text.replace("to_port: 80", "to_port: many").replace(
        "cidr_blocks: [0", "source_group: sg-1\n          cidr_blocks: [0"
    )
    found = server.problems("file:///x/wrong.sls", text)

    assert {line for line, _ in found} >= {3, 5, 7, 11}
    assert "Property aws-ec2.vcp is not allowed." in [message for _, message in found]


def test_kinds_arguments_and_values_are_offered_and_explained(server: Client) -> None:
    """The documentation is that of the source. Fields that only the provider sets are not offered."""
    server.problems("file:///x/new.sls", "web:\n  \n")
    kinds = server.completions("file:///x/new.sls", 1, 2)
    server.problems("file:///x/more.sls", "web:\n  aws-ec2.security_group:\n    - \n")
    arguments = server.completions("file:///x/more.sls", 2, 6)
    server.problems("file:///x/value.sls", GOOD)

    assert "aws-ec2.security_group" in kinds
    assert {"vpc", "ingress", "ensure", "require"} <= set(arguments)
    assert "group_id" not in arguments
    assert "Network of the group" in server.hover("file:///x/value.sls", 2, 7)
