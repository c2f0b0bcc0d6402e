"""The target `python`: its stubs are modules with which a provider answers the protocol."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ec2_package import EC2
from holdfast.agent.idl.targets.python import TARGET
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Remote
from holdfast.agent.model.package import Alias, Constant, Module, Package, to_json
from holdfast.agent.model.types import INTEGER, TEXT, Type
from holdfast.agent.plugins.construct import construct
from holdfast.agent.plugins.in_process import InProcess
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.servicer import Servicer

GOLDEN = Path(__file__).parent / "ec2/provider"
"""What the example gives; `holdfast idl compile` with `--out-provider` renews it."""


def written(package: Package, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the stubs of a package where they can be imported."""
    for path, text in TARGET.provider(package).items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    monkeypatch.syspath_prepend(str(directory))
    for name in [each for each in sys.modules if each.endswith("_stub")]:
        monkeypatch.delitem(sys.modules, name)


def test_the_stubs_of_the_example_are_as_they_were():
    """Byte for byte."""
    stubs = TARGET.provider(EC2)
    found = {each.relative_to(GOLDEN).as_posix(): each.read_text() for each in GOLDEN.rglob("*_stub.py")}

    assert {path: text.partition("\n")[2] for path, text in found.items()} == dict(stubs)


async def test_a_provider_that_uses_a_stub_answers_the_protocol(tmp_path, monkeypatch):
    """Structs within structs, enumerations and aliases arrive as the stub declares them."""
    written(EC2, tmp_path, monkeypatch)
    groups = importlib.import_module("ec2.security_group_stub")
    networks = importlib.import_module("ec2.vpc_stub")
    seen: list[Any] = []

    class Groups(groups.SecurityGroupOperations):
        async def create(self, inputs):
            seen.append(inputs)
            values = {**vars(inputs), "group_id": "sg-1"}
            return groups.plugin.Found("sg-1", groups.SecurityGroup(**values))

    connection = InProcess(Servicer(to_json(EC2), [Groups(), networks.VpcOperations()]))
    rule = {"protocol": "tcp", "fromPort": "80", "toPort": "80", "cidrBlocks": ["0.0.0.0/0"]}
    inputs = {"name": "web", "vpc": "v", "description": "d", "ingress": [rule]}
    request = message["CreateRequest"](
        subject=message["Subject"](token=groups.SecurityGroupOperations.token), inputs=json.dumps(inputs).encode()
    )
    answer = await connection.call("Create", request)

    assert answer.failure.message == ""
    assert seen[0].ingress == [
        groups.SecurityGroupRule(protocol=groups.Protocol.TCP, from_port=80, to_port=80, cidr_blocks=[groups.ANYWHERE])
    ]
    assert isinstance(seen[0].ingress[0].protocol, groups.Protocol)
    assert json.loads(answer.state)["groupId"] == "sg-1"
    assert groups.SecurityGroupProperty.GROUP_ID == "groupId"


NASTY = 'It ends with "quotes" and \\N{x}, """three""" and "'


def test_documentation_and_names_cannot_break_a_stub(tmp_path, monkeypatch):
    """Quotes, escapes, fields with names of types, modules that refer to each other, every type."""
    words = ["any", "boolean", "integer", "number", "text", "bytes", "moment", "duration", "path", "address"]
    fields = [Field(f"a_{word}", Type(word), doc=NASTY, comment="two\nlines") for word in words]
    fields += [Field("list", Type("list", items=TEXT)), Field("str", Type("set", items=INTEGER))]
    fields += [Field("other", Type("record", record="b/nasty:Other")), Field("type_of", Type("choice", choices=("x",)))]
    a = Module("nasty", Docs(NASTY), records=(Record("One", Docs(NASTY), tuple(fields), tag="one"),))
    many = Type("list", items=Type("record", record="b/nasty:Other"))
    back = Field("back", Type("union", members=(Type("record", record="nasty:One"), Type("none"))))
    b = Module(
        "b/nasty",
        records=(Record("Other", Docs("O."), (back, Field("few", Type("list", items=TEXT, alias="b/nasty:Few")))),),
        aliases=(Alias("Few", Type("list", items=TEXT)), Alias("Many", many)),
        constants=(Constant("WORD", TEXT, NASTY), Constant("NUMBER", INTEGER, 5)),
        resources=(KindModel("p-b.r", Docs("R."), (Field("pw", TEXT, secret=True),), remote=Remote("p:b/nasty:R")),),
    )
    written(Package("p", "1.0.0", modules=(b, a)), tmp_path, monkeypatch)
    first, second = importlib.import_module("nasty_stub"), importlib.import_module("b.nasty_stub")

    made = construct(first.One, {"list": ["x"], "other": {"back": {"str": [1]}, "few": ["y"]}})

    assert first.__doc__ == first.One.__doc__ == NASTY
    assert second.WORD == NASTY
    assert made.other == second.Other(back=first.One(str=[1]), few=["y"])
    assert second.Many == list[second.Other]
