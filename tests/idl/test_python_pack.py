"""The target `python`, for users of a package: typed declarations that check themselves, and give states."""

from __future__ import annotations

import datetime as dt
import importlib
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
import yaml

from ec2_package import EC2
from holdfast import pack
from holdfast.agent.idl.targets.python import TARGET
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Remote
from holdfast.agent.model.package import Module, Package, to_json
from holdfast.agent.model.types import TEXT, Type
from nasty_package import HIDING, NASTY

GOLDEN = Path(__file__).parent / "ec2/pack"
"""What the example gives; `holdfast idl compile` with `--out-pack` renews it."""
USER = """
from {name}.ec2.security_group import ANYWHERE, Port, Protocol, SecurityGroup, SecurityGroupRule
from {name}.ec2.vpc import Vpc
from holdfast import pack

https: Port = 443
network = Vpc("main", cidr_block="10.0.0.0/16")
rule = SecurityGroupRule(protocol=Protocol.TCP, from_port=https, to_port=https, cidr_blocks=[ANYWHERE])
web = SecurityGroup(vpc=network, description="the web servers", ingress=[rule])
inner = SecurityGroup(
    vpc="vpc-5",
    description="the others",
    ingress=[SecurityGroupRule(protocol=Protocol.ALL, from_port=0, to_port=9, source_group=web, description=None)],
)
STATES: dict[str, pack.Resource] = {{"network": network, "web": web, "inner": inner}}
"""


def written(package: Package, directory: Path) -> None:
    """Write the files for users of a package, as `holdfast idl compile` does."""
    for path, text in {**TARGET.pack(package), "schema.json": to_json(package)}.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)


@pytest.fixture
def name(tmp_path, monkeypatch, request):
    """The package of the example, importable under a name that no other test uses."""
    name = f"aws_{abs(hash(request.node.name))}"
    written(EC2, tmp_path / name)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.fixture
def groups(name):
    """The module of security groups."""
    return importlib.import_module(f"{name}.ec2.security_group")


def test_the_files_of_the_example_are_as_they_were():
    """The files are equal byte for byte; only modules have a header."""
    found = {
        each.relative_to(GOLDEN).as_posix(): each.read_text().partition("\n")[2]
        for each in GOLDEN.rglob("*")
        if each.suffix in (".py", ".typed")
    }

    assert found == dict(TARGET.pack(EC2))


def test_declarations_become_states(tmp_path, name):
    """States have IDs.

    A declaration in place of an identifier becomes a reference, and fields that are not given are left out.
    """
    (tmp_path / "user.py").write_text(USER.format(name=name))
    states = importlib.import_module("user").STATES
    text = pack.to_yaml(states)

    assert pack.to_state(states) == {
        "network": {"aws-ec2.vpc": [{"name": "main"}, {"cidr_block": "10.0.0.0/16"}]},
        "web": {
            "aws-ec2.security_group": [
                {"vpc": {"ref": "network"}},
                {"description": "the web servers"},
                {"ingress": [{"protocol": "tcp", "from_port": 443, "to_port": 443, "cidr_blocks": ["0.0.0.0/0"]}]},
            ]
        },
        "inner": {
            "aws-ec2.security_group": [
                {"vpc": "vpc-5"},
                {"description": "the others"},
                {
                    "ingress": [
                        {
                            "protocol": "-1",
                            "from_port": 0,
                            "to_port": 9,
                            "source_group": {"ref": "web"},
                            "description": None,
                        }
                    ]
                },
            ]
        },
    }
    assert text.startswith("#!yaml\n")
    assert yaml.safe_load(text) == pack.to_state(states)


def test_all_violations_are_told_when_a_declaration_is_made(groups):
    """Codes and paths are those of the agent and of the provider."""
    rule = groups.SecurityGroupRule(protocol="icmp", from_port=80, to_port=70000)
    with pytest.raises(pack.Invalid) as raised:
        groups.SecurityGroup("", vpc="v", description="x" * 256, ingress=[rule], tags={"a": 5})

    assert [(each.code, each.path) for each in raised.value.violations] == [
        ("length", "name"),
        ("length", "description"),
        ("choice", "ingress[0].protocol"),
        ("range", "ingress[0].to_port"),
        ("rule", "ingress[0]"),
        ("type", "tags.a"),
    ]
    assert str(raised.value).startswith("aws-ec2.security_group has wrong arguments:\n  name: it must have at least 1")


def test_what_only_the_provider_sets_is_no_argument(groups):
    """A field that does not exist is not an argument either."""
    for name in ("group_id", "colour"):
        with pytest.raises(TypeError, match=name):
            groups.SecurityGroup(vpc="v", description="d", **{name: "x"})


def test_a_reference_to_another_kind_of_resource_is_refused(name, groups):
    """A reference to a declaration without an ID among the states is refused, too."""
    network = importlib.import_module(f"{name}.ec2.vpc").Vpc(cidr_block="10.0.0.0/16")
    group = groups.SecurityGroup(vpc=network, description="d")
    with pytest.raises(pack.Invalid, match="vpc: it must be a Vpc or its identifier, not a SecurityGroup"):
        groups.SecurityGroup(vpc=group, description="d")

    with pytest.raises(ValueError, match="web: vpc refers to a Vpc that is not among the states"):
        pack.to_state({"web": group})


def test_references_may_be_anywhere(tmp_path, monkeypatch):
    """They may be in sets, whose order is always the same, in mappings, in structs, and in secret fields."""
    a = Type("reference", target="demo:m:A")
    fields = (
        Field("several", Type("set", items=a)),
        Field("named", Type("mapping", keys=TEXT, items=Type("list", items=a))),
        Field("inner", Type("record", record="m:S"), secret=True),
    )
    kinds = (
        KindModel("demo.a", Docs("A."), (), remote=Remote("demo:m:A")),
        KindModel("demo.b", Docs("B."), fields, remote=Remote("demo:m:B")),
    )
    module = Module("m", resources=kinds, records=(Record("S", Docs("S."), (Field("a", a),)),))
    written(Package("demo", "1.0.0", modules=(module,)), tmp_path / "referring")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module("referring.m")
    one, two = made.A(), made.A()
    b = made.B(several={two, one, "id-5"}, named={"x": [one]}, inner=made.S(a=two))
    state = pack.to_state({"two": two, "one": one, "b": b})["b"]["demo.b"]

    assert state == [
        {"several": ["id-5", {"ref": "one"}, {"ref": "two"}]},
        {"named": {"x": [{"ref": "one"}]}},
        {"inner": {"a": {"ref": "two"}}},
    ]
    with pytest.raises(ValueError, match=r"b: inner\.a refers to a A that is not among the states"):
        pack.to_state({"one": one, "b": made.B(inner=made.S(a=two))})


def test_names_cannot_break_a_module_and_secrets_are_not_shown(tmp_path, monkeypatch):
    """Fields with names of types, modules in a circle, every type, and forms of state files."""
    written(NASTY, tmp_path / "nasty_pack")
    monkeypatch.syspath_prepend(str(tmp_path))
    second = importlib.import_module("nasty_pack.b.nasty")
    first = importlib.import_module("nasty_pack.nasty")
    one = first.One(
        **{name: "x" for name in HIDING if name < "d"},
        a_bytes=b"x",
        a_moment=dt.datetime(2026, 1, 31, tzinfo=dt.UTC),
        a_duration=dt.timedelta(minutes=90),
        a_path=PurePosixPath("/etc"),
        mapping={first.Colour.RED: [0.5]},
        numbers={3},
        other=second.Other(few=["y"]),
    )
    made = second.R(pw="hunter2", maybe=one)
    written_one = pack.to_state({"id": made})["id"]["p-b.r"][1]["maybe"]

    assert "hunter2" not in repr(made)
    assert written_one == {
        "type": "one",
        "a_bytes": "eA==",
        "a_moment": "2026-01-31T00:00:00Z",
        "a_duration": "5400s",
        "a_path": "/etc",
        **{name: "x" for name in HIDING if name < "d"},
        "numbers": [3],
        "mapping": {"red": [0.5]},
        "other": {"type": "other", "few": ["y"]},
    }


def test_generated_modules_and_their_use_satisfy_mypy(tmp_path):
    """Strictly: modules for users, stubs of providers, and a program that declares resources. mypy takes seconds."""
    for package, name in ((EC2, "aws"), (NASTY, "nasty_pack")):
        written(package, tmp_path / "packs" / name)
        for path, text in TARGET.provider(package).items():
            (tmp_path / "provider" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "provider" / path).write_text(text)
    (tmp_path / "packs/user.py").write_text(USER.format(name="aws"))
    (tmp_path / "packs/wrong.py").write_text(
        "from aws.ec2.vpc import Vpc\nVpc(cidr_block=5)\nVpc(colour='red', cidr_block='x')\nVpc()\n"
    )
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = True\nexplicit_package_bases = True\nmypy_path = packs:provider\n"
        "[mypy-holdfast.*]\nfollow_imports = silent\n"
    )
    command = [sys.executable, "-m", "mypy", "--cache-dir=/dev/null", "packs", "provider"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout

    assert [line.split(":")[0] for line in told.splitlines()[:-1]] == ["packs/wrong.py"] * 3
