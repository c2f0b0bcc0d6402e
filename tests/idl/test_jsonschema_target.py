"""The targets `jsonschema` and `docs`: a real validator accepts good state files, and refuses bad ones."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, FormatChecker

from ec2_package import EC2
from holdfast.agent.generators.remote_types import FORMS, remote_schema
from holdfast.agent.generators.states_schema import states_schema
from holdfast.agent.idl.targets.docs import TARGET as PAGES
from holdfast.agent.idl.targets.jsonschema import TARGET
from holdfast.agent.model.build import build
from holdfast.agent.model.types import NONE, TEXT, Type, union
from holdfast.agent.plugins.decode import Decoder
from holdfast.agent.plugins.schema import Schema
from holdfast.resources import registry
from nasty_package import HIDING, NASTY, QUOTES

GOLDEN = Path(__file__).parent / "ec2"
RULE = {"protocol": "tcp", "from_port": 80, "to_port": 80, "cidr_blocks": ["0.0.0.0/0"]}
FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module", params=["package", "system"])
def schema(request: pytest.FixtureRequest) -> Draft7Validator:
    """The schema that is generated from a package, and that of an agent which has the package."""
    if request.param == "package":
        return Draft7Validator(json.loads(TARGET.pack(EC2)["states.schema.json"]))
    own = [cls for cls in registry.kinds() if cls.__module__.startswith("holdfast.")]
    return Draft7Validator(states_schema(build(own), [EC2]))


def group(**arguments: Any) -> list[dict[str, Any]]:
    """Return the arguments of a security group."""
    given = {"vpc": "main", "description": "d", **arguments}
    return [{key: value} for key, value in given.items()]


GOOD = {
    "a reference to a state": {"aws-ec2.security_group": group(vpc={"ref": "main"})},
    "rules": {"aws-ec2.security_group": group(ingress=[RULE, {**RULE, "description": None}])},
    "common arguments": {"aws-ec2.security_group": [*group(), {"require": [{"aws-ec2": "main"}]}, {"noop": True}]},
    "the function as an item": {"aws-ec2": ["security_group", *group(name="web")]},
    "an argument from elsewhere": {"aws-ec2.vpc": [{"use": ["other"]}]},
    "absent": {"aws-ec2.security_group": [*group(), {"ensure": "absent"}]},
    "a built-in kind": {"file.absent": [{"name": "/tmp/x"}], "aws-ec2.vpc": [{"cidr_block": "10.0.0.0/16"}]},
}
BAD = {
    "a missing argument": {"aws-ec2.security_group": [{"vpc": "main"}]},
    "an argument that the provider sets": {"aws-ec2.security_group": group(group_id="sg-1")},
    "a mistyped argument": {"aws-ec2.security_group": group(descripton="x")},
    "a number as text": {"aws-ec2.security_group": group(description=5)},
    "text as a number": {"aws-ec2.security_group": group(ingress=[{**RULE, "from_port": "80"}])},
    "a text that is too long": {"aws-ec2.security_group": group(description="x" * 256)},
    "an empty name": {"aws-ec2.security_group": group(name="")},
    "a number that is too large": {"aws-ec2.security_group": group(ingress=[{**RULE, "to_port": 70000}])},
    "another value": {"aws-ec2.security_group": group(ingress=[{**RULE, "protocol": "icmp"}])},
    "a field of no record": {"aws-ec2.security_group": group(ingress=[{**RULE, "colour": "red"}])},
    "two of which one is legal": {"aws-ec2.security_group": group(ingress=[{**RULE, "source_group": "x"}])},
    "an empty list": {"aws-ec2.security_group": group(ingress=[{**RULE, "cidr_blocks": []}])},
    "null for no value": {"aws-ec2.security_group": group(ingress=[{**RULE, "cidr_blocks": None}])},
    "another pattern": {"aws-ec2.vpc": [{"cidr_block": "all"}]},
    "a reference to nothing": {"aws-ec2.security_group": group(vpc={"id": "x"})},
    "a mistyped kind": {"aws-ec2.vcp": [{"cidr_block": "10.0.0.0/16"}]},
    "another function": {"aws-ec2": ["vcp", {"cidr_block": "10.0.0.0/16"}]},
    "another word for absent": {"aws-ec2.security_group": [*group(), {"ensure": "gone"}]},
}
"""What is declared -> the body of a state."""


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD)
def test_good_state_files_are_accepted(schema, body):
    """The files have states of the package and of other kinds."""
    assert [each.message for each in schema.iter_errors({"id": body})] == []


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_bad_state_files_are_refused(schema, body):
    """What the agent refuses in states of the package."""
    assert not schema.is_valid({"id": body})


def test_everything_is_the_same_in_every_run(tmp_path):
    """Processes with different hash seeds write the same bytes, which are those of the example. Each takes a second."""
    made = []
    for seed in ("1", "77"):
        outputs = ["--out-pack", str(tmp_path / seed / "pack"), "--out-provider", str(tmp_path / seed / "provider")]
        command = [sys.executable, "-m", "holdfast.agent.cli.main", "idl", "compile", str(GOLDEN / "idl"), *outputs]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True)
        made.append(files(tmp_path / seed))
    golden = {path: text for path, text in files(GOLDEN).items() if not path.startswith("idl/")}

    assert made[0] == made[1]
    assert golden == {path: made[0][path] for path in made[0] if "/holdfast-runtime/" not in path}


def files(folder: Path) -> dict[str, bytes]:
    """Return path -> content of all files below a folder."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_the_examples_of_the_pages_are_valid(schema):
    """Each example on a generated page is a state file that the schema accepts."""
    examples = [text for page in PAGES.pack(EC2).values() for text in FENCE.findall(page)]

    assert examples
    assert [each.message for text in examples for each in schema.iter_errors(yaml.safe_load(text))] == []


def test_links_of_pages_lead_to_headings():
    """Links work within and between pages, for every type and name."""
    for package in (EC2, NASTY):
        pages = PAGES.pack(package)
        for path, text in pages.items():
            for page, anchor in re.findall(r"\]\(([^)#]*)#([^)]*)\)", text):
                there = pages[os.path.normpath(Path(path).parent / page) if page else path]
                headings = re.findall(r"^## (?:Function )?`(.*)`$", there, re.MULTILINE)
                assert anchor in [re.sub(r"[^\w-]", "", each.lower()) for each in headings]


def test_any_package_gives_a_schema_and_pages():
    """Of draft-07, whose references lead to definitions; documentation cannot break either."""
    schema = json.loads(TARGET.pack(NASTY)["states.schema.json"])
    used = set(re.findall(r"'#/definitions/([^']+)'", str(schema)))
    one = {"type": "one", **{name: "x" for name in HIDING if name < "d"}}

    Draft7Validator.check_schema(schema)
    assert used <= schema["definitions"].keys()
    assert schema["definitions"]["p.nasty.One"]["description"] == QUOTES
    assert Draft7Validator(schema).is_valid({"id": {"p-b.r": [{"pw": "x"}, {"maybe": one}]}})
    assert not Draft7Validator(schema).is_valid({"id": {"p-b.r": [{"pw": "x"}, {"maybe": {**one, "type": "two"}}]}})
    assert PAGES.pack(NASTY).keys() == {"nasty.md", "b/nasty.md"}


VALUES: list[Any] = [
    *(
        None,
        True,
        "yes",
        0,
        -5,
        7,
        2.5,
        "",
        "abc",
        "x" * 9,
        "/etc",
        "etc",
        "aGk=",
        "a",
        "5",
        [],
        ["a", "b"],
        ["a", "a"],
    ),
    *({}, {"a": "b"}, {"A": 1}, "1h30m", "90", "2026-01-31T12:00:00Z", "2026-01-31", "192.0.2.1", "2001:db8::1", [1]),
]
TYPES = [
    *(Type(word) for word in FORMS if word not in ("boolean", "choice", "record", "reference", "tagged", "union")),
    Type("integer", minimum=0, maximum=5),
    Type("number", above=0, below=7),
    Type("text", shortest=1, longest=3),
    Type("text", patterns=("[a-z]+", "a.*")),
    Type("reference", target="aws:ec2/vpc:Vpc"),
    Type("reference", target="aws:ec2/vpc:Vpc", patterns=("[a-z]+",)),
    Type("choice", choices=("abc", "etc")),
    Type("list", items=TEXT, shortest=1),
    Type("set", items=TEXT),
    Type("mapping", keys=Type("text", patterns=("[a-z]",)), items=TEXT, longest=1),
    union([TEXT, NONE]),
]


@pytest.mark.parametrize("type_", TYPES, ids=[f"{each.type} {number}" for number, each in enumerate(TYPES)])
def test_a_schema_accepts_what_the_agent_accepts(type_):
    """Value by value, for every type; only base64 may be damaged in ways that no pattern finds."""
    validator = Draft7Validator(remote_schema(type_), format_checker=FormatChecker())
    differing = []
    for value in VALUES:
        decoder = Decoder(Schema(EC2), wire=False)
        decoder.value(type_, value, "")
        if validator.is_valid(value) == bool(decoder.violations):
            differing.append(value)

    assert [each for each in differing if type_.type != "bytes" or not isinstance(each, str)] == []


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        (r"[a-z0-9-]+(?:\.[a-z\-]+)*", True),
        (r"(?!x)\d{1,3}|\w\s\u00e9\n\\\\", True),
        (r"(?i)[a-z]+", False),
        (r"(?P<word>a)", False),
        (r"\Aa\Z", False),
        (r"a\@b", False),
        (r"a++b", False),
    ],
)
def test_a_pattern_that_only_python_has_is_left_out(pattern, kept):
    """An editor would report the schema itself."""
    assert ("pattern" in remote_schema(Type("text", patterns=(pattern,)))) == kept
