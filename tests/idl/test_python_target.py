"""The target `python`: its stubs are modules with which a provider answers the protocol."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ec2_package import EC2
from holdfast import plugin
from holdfast.agent.idl.targets.python import TARGET
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Remote
from holdfast.agent.model.package import Module, Package, to_json
from holdfast.agent.model.types import NONE, TEXT, Type
from holdfast.agent.plugins.construct import construct
from holdfast.agent.plugins.in_process import InProcess
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.servicer import Servicer
from nasty_package import HIDING, NASTY, QUOTES

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
    """The stubs are equal byte for byte."""
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


def test_documentation_and_names_cannot_break_a_stub(tmp_path, monkeypatch):
    """Quotes, escapes, fields with names of types, modules that refer to each other, every type."""
    written(NASTY, tmp_path, monkeypatch)
    first, second = importlib.import_module("nasty_stub"), importlib.import_module("b.nasty_stub")
    required = {name: "x" for name in HIDING if name < "d"}
    data = {**required, "list": "x", "numbers": [1], "mapping": {"red": [2.5]}}

    made = construct(first.One, {**data, "other": {"back": data, "few": ["y"]}})

    assert first.__doc__ == first.One.__doc__ == first.Colour.__doc__ == second.WORD == QUOTES
    assert made.other == second.Other(back=construct(first.One, data), few=["y"])
    assert next(iter(made.mapping)) is first.Colour.RED
    assert first.Others == list[second.Other]
    assert second.Many == dict[str, first.One]
    assert first.Same == second.Few


async def test_a_struct_with_a_tag_travels_in_both_directions(tmp_path, monkeypatch):
    """The author gets and returns the class of the struct; its tag is the member `type` of the data."""
    written(NASTY, tmp_path, monkeypatch)
    second = importlib.import_module("b.nasty_stub")
    seen: list[Any] = []

    class Rs(second.ROperations):
        async def create(self, inputs):
            seen.append(inputs.maybe)
            return plugin.Found("1", second.R(pw=inputs.pw, maybe=inputs.maybe, id_out=5))

    class Counting(second.CountFunction):
        pass

    connection = InProcess(Servicer(to_json(NASTY), [Rs(), second.EmptyOperations(), Counting()]))
    inputs = {"pw": {"$secret": "x"}, "maybe": {"type": "other", "few": ["y"]}}
    request = message["CreateRequest"](
        subject=message["Subject"](token=second.ROperations.token), inputs=json.dumps(inputs).encode()
    )
    answer = await connection.call("Create", request)

    assert answer.failure.message == ""
    assert seen == [second.Other(few=["y"])]
    assert json.loads(answer.state)["maybe"] == inputs["maybe"]


def test_a_secret_that_may_be_null_is_typed_so():
    """An author sees that it may be null."""
    fields = (Field("word", TEXT, secret=True), Field("maybe", Type("union", members=(TEXT, NONE)), secret=True))
    kind = KindModel("p.thing", Docs("A thing."), fields, remote=Remote("p:m:Thing"))
    made = TARGET.provider(Package("p", "1.0.0", modules=(Module("m", order=("Thing",), resources=(kind,)),)))

    assert "word: plugin.Secret | plugin.Unset" in made["m_stub.py"]
    assert "maybe: plugin.Secret | None | plugin.Unset" in made["m_stub.py"]
