"""Remote kinds in state files: arguments, references, hints and lines, checked without a plugin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

import ec2_package
import notes_package
from holdfast.agent.engine.deliver.transfer import applied
from holdfast.agent.generators import schemas
from holdfast.agent.model.build import build
from holdfast.agent.model.package import Package
from holdfast.agent.plugins.declared import DeclaredPlugin
from holdfast.agent.plugins.plugin_settings import PluginSettings
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.values import UNKNOWN
from holdfast.agent.remote.declared import declare_kinds
from holdfast.resources import registry
from holdfast.resources.assignment import Received
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Compilation, CompilerInputs
from holdfast.states.errors import CompileError, Problem

VPC = "main:\n  aws-ec2.vpc:\n    - cidr_block: 10.0.0.0/16\n"
GROUP = "web:\n  aws-ec2.security_group:\n    - vpc: {ref: main}\n    - description: the web servers\n"
NOTE = "web:\n  notes.note:\n    - owner: me\n"


def plugin(package: Package) -> DeclaredPlugin:
    """Return the plugin of a package as the settings declare it."""
    schema = Schema(package)
    return DeclaredPlugin(
        package.name,
        PluginSettings(schema=Path("/schema.json"), command=("/bin/false",)),
        schema,
        schema.digest,
        b"",
        (),
    )


def declared(*packages: Package) -> None:
    """Declare the kinds of these packages, and no others."""
    declare_kinds({each.name: plugin(each) for each in packages})


@pytest.fixture(autouse=True)
def kinds() -> Iterator[None]:
    """The kinds of two packages, while a test runs."""
    declared(ec2_package.EC2, notes_package.NOTES)
    yield
    declared()


class States:
    """A states directory with one file, compiled again and again."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.compiler = directory, Compiler()
        directory.chmod(0o755)

    def __call__(self, text: str) -> Compilation:
        """Compile the text."""
        (self.directory / "a.sls").write_text(text)
        trusted = frozenset({0, self.directory.stat().st_uid})
        return self.compiler.compile(CompilerInputs(self.directory, trusted_uids=trusted))

    def problems(self, text: str) -> list[tuple[int, str, str]]:
        """Return line, code and message with hint of each problem."""
        with pytest.raises(CompileError) as caught:
            self(text)
        return [(each.location.line, each.code, f"{each.message}; {each.hint}") for each in caught.value.problems]


@pytest.fixture
def states(tmp_path: Path) -> States:
    """A states directory."""
    return States(tmp_path)


def test_a_remote_kind_is_named_by_its_package_and_folders(states):
    """The arguments have the types of the schema; the name is the ID."""
    (call,) = states(VPC).calls

    assert (call.identity, call.resource.kind, call.resource.name) == ("aws-ec2.vpc[main]", "aws-ec2.vpc", "main")
    assert call.resource.given() == {"name": "main", "cidr_block": "10.0.0.0/16"}


def test_all_violations_are_reported_together_at_their_lines(states):
    """Violations within lists and mappings are reported, too. Each has the most similar name."""
    found = states.problems(
        "web:\n"
        "  aws-ec2.security_group:\n"
        "    - vpc: 5\n"
        "    - descripton: x\n"
        "    - group_id: sg-1\n"
        "    - ingress:\n"
        "        - protocol: tpc\n"
        "          from_port: 70000\n"
        "          to_port: 80\n"
        "          cidr_block: [10.0.0.0/8]\n"
    )

    assert sorted((line, code) for line, code, _ in found) == [
        (2, "argument-missing"),
        (3, "argument-type"),
        (4, "unknown-argument"),
        (5, "unknown-argument"),
        (7, "argument-value"),
        (7, "argument-value"),
        (8, "argument-value"),
        (10, "argument-value"),
    ]
    text = "\n".join(said for _, _, said in found)
    assert "did you mean 'tcp'?" in text
    assert "it must be at most 65535, not 70000" in text
    assert "there is no field 'cidr_block'; did you mean 'cidr_blocks'?" in text
    assert "did you mean 'description'?" in text
    assert "refuses 'group_id': the provider sets it" in text


def test_rules_of_several_arguments_are_checked(states):
    """A rule of traffic names addresses or a group."""
    rule = "    - ingress: [{protocol: tcp, from_port: 5, to_port: 4}]\n"
    found = states.problems(VPC + GROUP + rule)

    assert [line for line, _, _ in found] == [8, 8]
    text = "\n".join(said for _, _, said in found)
    assert "from_port must not be greater than to_port" in text
    assert "exactly one of them must be given: cidr_blocks, source_group" in text


def test_a_misspelt_kind_is_named_with_the_most_similar_one(states):
    """Families with dashes are suggested, too."""
    function, family = (states.problems(text) for text in ("a:\n  aws-ec2.vcp: []\n", "a:\n  aws-ec3.vpc: []\n"))

    assert function[0][1:] == (
        "unknown-function",
        "the state 'aws-ec2' has no function 'vcp'; did you mean aws-ec2.vpc?",
    )
    assert family[0][1] == "unknown-state"
    assert "aws-ec2" in family[0][2]


def test_a_reference_makes_an_edge_and_is_known_later(states):
    """The target runs first; its identifier replaces the reference."""
    group = GROUP + "    - ingress: [{protocol: tcp, from_port: 1, to_port: 2, source_group: {ref: other}}]\n"
    calls = states(group + VPC + GROUP.replace("web:", "other:", 1)).calls
    web = next(call for call in calls if call.identity == "aws-ec2.security_group[web]")
    order = [call.identity for call in calls]
    ids = {"vpc": Received("vpc-1", True), "ingress[0].source_group": Received("sg-2", True)}
    made = applied(web, ids)

    assert order[-1] == "aws-ec2.security_group[web]"
    assert {calls[position].identity for position in web.requisites["recv"]} == {
        "aws-ec2.vpc[main]",
        "aws-ec2.security_group[other]",
    }
    assert web.resource.given()["vpc"] is UNKNOWN
    assert made.resource.given()["vpc"] == "vpc-1"
    assert made.resource.given()["ingress"][0]["source_group"] == "sg-2"
    assert web.low["ingress"][0]["source_group"] == {"ref": "other"}


def test_an_identifier_is_accepted_as_text(states):
    """The resource of the identifier need not be declared."""
    (call,) = states(GROUP.replace("{ref: main}", "vpc-7")).calls

    assert call.resource.given()["vpc"] == "vpc-7"
    assert not call.requisites


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (
            "{ref: mian}",
            "requisite-missing",
            "'vpc' of aws-ec2.security_group[web] names aws-ec2[mian], which does not exist; did you mean 'main'?",
        ),
        ("{ref: db}", "requisite-missing", "'db' is of the type notes"),
        ("{ref: other}", "reference-kind", "must refer to a aws-ec2.vpc, not to aws-ec2.security_group[other]"),
        ("{rfe: main}", "argument-type", "it must be an identifier, or a state: `{ref: ID}`; did you mean 'ref'?"),
        ("{reff: main}", "argument-type", "it must be an identifier, or a state: `{ref: ID}`; did you mean 'ref'?"),
        ("{state: main}", "argument-type", "it must be an identifier, or a state: `{ref: ID}`"),
        ("{ref: 5}", "argument-type", "it must be an identifier, or a state: `{ref: ID}`"),
    ],
)
def test_a_wrong_reference_is_reported_at_its_line(states, wrong, code, said):
    """The state does not exist, is of another kind, or the form is wrong."""
    others = NOTE.replace("web", "db") + GROUP.replace("web", "other").replace("{ref: main}", "vpc-1")
    (found,) = states.problems(VPC + others + GROUP.replace("{ref: main}", wrong))

    assert found[:2] == (13, code)
    assert said in found[2]


def test_an_edge_follows_a_changed_reference(states):
    """The order is computed anew."""
    two = VPC + VPC.replace("main", "second")
    first = states(two + GROUP).calls
    second = states(two + GROUP.replace("main", "second")).calls

    assert first[2].requisites["recv"] == (0,)
    assert second[2].requisites["recv"] == (1,)


def test_outputs_are_received_by_other_states(states):
    """The types are checked: a size is a number, and no password is sent."""
    receiver = "/etc/a:\n  file.managed:\n    - recv: {contents: {notes: web, key: KEY}}\n"
    good = states(NOTE + receiver.replace("KEY", "id")).calls[1]
    number = states.problems(NOTE + receiver.replace("contents", "mode").replace("KEY", "lines"))
    secret = states.problems(NOTE + receiver.replace("KEY", "password"))

    assert good.requisites == {"recv": (0,)}
    assert number[0][1] == "recv-type"
    assert secret[0][1] == "recv-sender"
    assert "sends no 'password'; it sends: id, name, owner, lines, size" in secret[0][2]


def test_a_required_argument_may_be_received(states):
    """Its type is checked against the sender's."""
    good = "a:\n  cmd.run: [{name: id -un}]\nweb:\n  notes.note:\n    - recv: {owner: {cmd: a, key: stdout}}\n"
    calls = states(good).calls
    wrong = states.problems(good.replace("stdout", "retcode"))

    assert calls[1].resource.given()["owner"] is UNKNOWN
    assert applied(calls[1], {"owner": Received("me", True)}).resource.given()["owner"] == "me"
    assert wrong[0][1] == "recv-type"


def test_a_wrong_secret_is_not_shown(states):
    """The error shows neither the value nor the line."""
    with pytest.raises(CompileError) as caught:
        states(NOTE + "    - password: [hunter22]\n")

    assert "hunter22" not in "".join(str(each) for each in caught.value.problems)


def test_what_is_deprecated_is_warned_about_at_its_line(states):
    """There is a warning for the argument and for the kind."""
    model = notes_package.NOTE
    fields = tuple(replace(each, deprecated="use owners") if each.name == "owner" else each for each in model.fields)
    old = replace(model, fields=fields, remote=replace(model.remote, deprecated="use notes.paper"))
    module = replace(notes_package.NOTES.modules[0], resources=(old,))
    declared(replace(notes_package.NOTES, modules=(module,)))
    found: list[Problem] = list(states(NOTE).warnings)

    assert [(each.location.line, each.code, each.hint) for each in found] == [
        (2, "deprecated", "use notes.paper"),
        (3, "deprecated", "use owners"),
    ]


def test_what_is_deprecated_within_a_struct_is_warned_about_at_its_line(states):
    """There are warnings for a member and for the struct itself, but not for members that are not given."""
    line = notes_package.LINE
    numbered = tuple(replace(each, deprecated="count") if each.name == "number" else each for each in line.fields)
    old = replace(line, fields=numbered, deprecated="use text")
    module = notes_package.NOTES.modules[0]
    records = tuple(old if each is line else each for each in module.records)
    declared(replace(notes_package.NOTES, modules=(replace(module, records=records),)))
    lines = "    - lines:\n        - text: hello\n        - text: you\n          number: 5\n"
    found: list[Problem] = list(states("web:\n  notes.note:\n    - owner: me\n" + lines).warnings)

    assert [(each.location.line, each.hint) for each in found] == [(5, "use text"), (6, "use text"), (7, "count")]
    assert "the argument 'lines.1.number' of notes.note is deprecated" in found[2].message


def test_states_of_one_thing_that_contradict_each_other_are_refused(states):
    """Two states with the same name differ. Resources that differ in an argument which replaces them may both exist."""
    other = NOTE.replace("web:", "other:").replace("- owner", "- name: web\n    - owner")
    wrong = states.problems(NOTE + other + "    - ensure: absent\n")
    two = states(NOTE + other.replace("owner: me", "owner: you")).calls

    assert wrong[0][1] == "contradiction"
    assert len(two) == 2


def test_a_changed_schema_declares_its_kinds_anew(states):
    """A valid state may become invalid, and kinds of removed packages no longer exist."""
    states(NOTE)
    model = notes_package.NOTE
    fields = tuple(each for each in model.fields if each.name != "owner")
    module = replace(notes_package.NOTES.modules[0], resources=(replace(model, fields=fields),))
    declared(replace(notes_package.NOTES, modules=(module,)))
    changed = states.problems(NOTE)
    declared(ec2_package.EC2)
    gone = states.problems(NOTE)

    assert changed[0][1] == "unknown-argument"
    assert gone[0][1] == "unknown-state"
    assert registry.remote() == ["aws-ec2.security_group", "aws-ec2.vpc"]


def spoilt(**changes: Any) -> Package:
    """Return the package of notes with another kind."""
    module = replace(notes_package.NOTES.modules[0], resources=(replace(notes_package.NOTE, **changes),))
    return replace(notes_package.NOTES, modules=(module,))


@pytest.mark.parametrize(
    ("package", "said"),
    [
        (spoilt(name="file.note"), "the states of 'file' are built in, so a package cannot add 'file.note'"),
        (spoilt(name="notes"), "the resource 'notes' has a name that no state can have"),
        (
            spoilt(fields=(replace(notes_package.NOTE.fields[0], name="ensure"),)),
            "notes.note has an argument 'ensure', which means something else in every state",
        ),
    ],
)
def test_a_package_whose_kinds_cannot_be_declared_is_refused(package, said):
    """The error is one of the setting `plugins`; all kinds are as before."""
    before = registry.remote()
    with pytest.raises(CompileError, match=r"the setting 'plugins\.schema' is wrong: ") as caught:
        declared(package)

    assert said in caught.value.problems[0].message
    assert registry.remote() == before


def test_the_model_has_remote_kinds_as_states_use_them():
    """Outputs are not arguments; records have the prefix of their package."""
    found = build(filter(None, map(registry.find, registry.remote())))
    kinds = {each.name: each for each in found.kinds}
    group, note = kinds["aws-ec2.security_group"], kinds["notes.note"]

    assert [each.name for each in group.fields] == [
        "name", "vpc", "description", "ingress", "egress", "tags", "ensure",
    ]  # fmt: skip
    assert group.docs == ec2_package.GROUP.resources[0].docs
    assert group.fields[3].type.items.record == "aws.ec2.security_group.SecurityGroupRule"
    assert {"aws.ec2.security_group.SecurityGroupRule", "notes.note.Line"} <= found.records.keys()
    assert (group.watch, note.watch) == ("checked every 60 s", "events of the plugin")
    assert list(note.sends) == ["id", "name", "owner", "lines", "size"]
    assert next(each for each in note.fields if each.name == "password").secret


def test_the_schema_for_editors_agrees_with_the_compiler():
    """The schema of state files has the remote kinds that are declared."""
    schema = Draft7Validator(schemas.states())
    good, wrong, unknown = (
        yaml.safe_load(text)
        for text in (VPC + GROUP, VPC + GROUP.replace("ref:", "rfe:"), NOTE.replace("owner", "ownr"))
    )

    assert schema.is_valid(good)
    assert not schema.is_valid(wrong)
    assert not schema.is_valid(unknown)
