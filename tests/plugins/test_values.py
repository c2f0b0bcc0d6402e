"""Values of remote resources: from state files to the wire and back, and everything that can be wrong with them."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_package import EC2
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Remote
from holdfast.agent.model.package import Module, Package, to_json
from holdfast.agent.model.types import INTEGER, NONE, TEXT, Type
from holdfast.agent.plugins.decode import INVALID, Decoder
from holdfast.agent.plugins.differences import differences
from holdfast.agent.plugins.encode import Encoder
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.values import UNKNOWN, Secret

SCHEMA = Schema(EC2)
GROUP = SCHEMA.kinds["aws-ec2.security_group"]
RIGHT = {
    "name": "web",
    "vpc": "vpc-1",
    "description": "the web servers",
    "ingress": [{"protocol": "tcp", "from_port": 80, "to_port": 443, "cidr_blocks": ["0.0.0.0/0"]}],
}
A, B = (
    Record("A", Docs("A."), (Field("size", INTEGER, required=True),), tag="a"),
    Record("B", Docs("B."), (Field("word", TEXT),), tag="b"),
)
TAGGED = Type("tagged", members=(Type("record", record="m:A"), Type("record", record="m:B")))
OTHER = Schema(Package("p", "1.0.0", modules=(Module("m", records=(A, B)),)))

FINITE = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1), timezones=st.just(dt.UTC))  # noqa: DTZ001
SIMPLE: list[tuple[Type, st.SearchStrategy]] = [
    (Type("boolean"), st.booleans()),
    (Type("integer"), st.integers(-(2**63), 2**63 - 1)),
    (Type("number"), FINITE),
    (Type("text"), st.text()),
    (Type("bytes"), st.binary()),
    (Type("moment"), MOMENTS),
    (Type("duration"), st.timedeltas(dt.timedelta(0), dt.timedelta(days=99999))),
    (Type("path"), st.from_regex(r"(/[a-z]{1,5}){1,4}", fullmatch=True).map(PurePosixPath)),
    (Type("address"), st.ip_addresses()),
    (Type("any"), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists)),
]


def pairs(depth: int = 2) -> st.SearchStrategy:
    """Return types, each with one of its values."""
    simple = st.sampled_from(SIMPLE).flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1] | st.just(UNKNOWN)))
    if not depth:
        return simple
    inner = pairs(depth - 1)

    def containers(pair: tuple[Type, object]) -> st.SearchStrategy:
        type_, value = pair
        return st.sampled_from(
            [
                (Type("list", items=type_), [value, value]),
                (Type("set", items=type_), [value]),
                (Type("mapping", keys=TEXT, items=type_), {"$x": value, "": value, "$$": value}),
                (Type("union", members=(type_, NONE)) if type_.type not in ("union", "any") else type_, value),
                (type_, Secret(value) if value is not UNKNOWN and not isinstance(value, Secret) else value),
            ]
        )

    return inner.flatmap(containers)


@given(pairs())
def test_the_wire_keeps_every_value(pair):
    """These include exact integers, null, secrets and unknown values."""
    type_, value = pair
    text = json.dumps(Encoder(OTHER).value(type_, value))
    decoder = Decoder(OTHER, wire=True)

    assert decoder.value(type_, json.loads(text), "") == value
    assert decoder.violations == []


@given(pairs(1), st.recursive(st.none() | st.booleans() | st.integers() | FINITE | st.text(), st.lists))
def test_any_data_give_a_value_or_a_violation(pair, data):
    """No data raise another exception."""
    for wire in (False, True):
        decoder = Decoder(OTHER, wire=wire)
        assert (decoder.value(pair[0], data, "x") is INVALID) is bool(decoder.violations)


def test_a_declaration_goes_to_the_provider_and_back():
    """On the wire, a declaration has wire names, and its integers are texts."""
    decoder = Decoder(SCHEMA, wire=False)
    values = decoder.inputs(GROUP, RIGHT)
    data = Encoder(SCHEMA).fields(GROUP.fields, values)
    back = Decoder(SCHEMA, wire=True)

    assert decoder.violations == []
    assert data["ingress"] == [{"protocol": "tcp", "fromPort": "80", "toPort": "443", "cidrBlocks": ["0.0.0.0/0"]}]
    assert back.inputs(GROUP, data) == values
    assert Encoder(SCHEMA, wire=False).fields(GROUP.fields, values) == RIGHT


def test_defaults_are_filled_in_where_they_are_asked_for():
    """A field that is given as null is given."""
    decoder = Decoder(SCHEMA, wire=False, defaults=True)
    rule = {**RIGHT["ingress"][0], "description": None}

    values = decoder.inputs(GROUP, {**RIGHT, "ingress": [rule]})

    assert values["tags"] == {}
    assert values["ingress"][0]["description"] is None
    assert "egress" not in values


WRONG = [
    ({"vpc": None}, [("type", "vpc")]),
    ({"description": "x" * 256}, [("length", "description")]),
    ({"group_id": "sg-1"}, [("unexpected", "group_id")]),
    ({"descripton": "x"}, [("unexpected", "descripton")]),
    ({"ingress": {}}, [("type", "ingress")]),
    ({"tags": {"a": 1, "b": True}}, [("type", "tags.a"), ("type", "tags.b")]),
    ({"tags": {1: "x"}}, [("type", "tags.1")]),
    (
        {"ingress": [{"protocol": "tpc", "from_port": 70000, "to_port": True}]},
        [
            ("choice", "ingress[0].protocol"),
            ("range", "ingress[0].from_port"),
            ("type", "ingress[0].to_port"),
            ("rule", "ingress[0]"),
        ],
    ),
    (
        {"ingress": [{"protocol": "tcp", "from_port": 2, "to_port": 1, "cidr_blocks": [], "source_group": "g"}]},
        [("length", "ingress[0].cidr_blocks"), ("rule", "ingress[0]"), ("rule", "ingress[0]")],
    ),
]


@pytest.mark.parametrize(("change", "told"), WRONG)
def test_all_violations_come_together_and_are_the_same_on_both_sides(change, told):
    """Codes and paths are the same for a declaration in a state file and on the wire."""
    data = {**RIGHT, **change}
    local, remote = Decoder(SCHEMA, wire=False), Decoder(SCHEMA, wire=True)
    local.inputs(GROUP, data)
    remote.inputs(GROUP, on_the_wire(data))

    assert sorted(each[:2] for each in local.violations) == sorted(told)
    assert sorted(each[:2] for each in remote.violations) == sorted(told)


def on_the_wire(data: object) -> object:
    """Wire names in place of names, without any check."""
    names = {each.name: each.wire for record in SCHEMA.records.values() for each in record.fields if each.wire}
    names |= {each.name: each.wire for each in GROUP.fields if each.wire}
    if isinstance(data, dict):
        return {names.get(key, key): on_the_wire(item) for key, item in data.items()}
    return [on_the_wire(item) for item in data] if isinstance(data, list) else data


def test_required_arguments_are_missed_and_required_outputs_are_only_the_providers():
    """The name of a resource and what the provider sets may be left out."""
    decoder = Decoder(SCHEMA, wire=False)
    decoder.inputs(GROUP, {})
    answer = Decoder(SCHEMA, wire=True)
    answer.outputs(GROUP, {"name": "web", "vpc": "v", "description": "d"})

    assert [each[:2] for each in decoder.violations] == [("missing", "vpc"), ("missing", "description")]
    assert [each[:2] for each in answer.violations] == [("missing", "group_id")]


def test_rules_on_unknown_values_are_skipped():
    """Rules about which fields are given still apply."""
    rule = {"protocol": "tcp", "fromPort": {"$unknown": True}, "toPort": "1", "sourceGroup": {"$unknown": True}}
    decoder = Decoder(SCHEMA, wire=True)

    values = decoder.inputs(GROUP, {"vpc": "v", "description": "d", "ingress": [rule]})

    assert decoder.violations == []
    assert values["ingress"][0]["from_port"] is UNKNOWN


def test_the_tag_says_which_record_of_a_union_a_value_is():
    """The error for a wrong tag has the existing ones."""
    decoder = Decoder(OTHER, wire=False)

    assert decoder.value(TAGGED, {"type": "a", "size": 3}, "x") == {"type": "a", "size": 3}
    assert decoder.violations == []
    assert Encoder(OTHER).value(TAGGED, {"type": "a", "size": 3}) == {"type": "a", "size": "3"}
    assert decoder.value(TAGGED, {"type": "c"}, "x") is INVALID
    assert decoder.violations[0][:2] == ("choice", "x.type")
    assert "'a', 'b'" in decoder.violations[0].message


@pytest.mark.parametrize(
    ("word", "data", "value"),
    [
        ("duration", "1h30m", dt.timedelta(minutes=90)),
        ("duration", 1.5, dt.timedelta(seconds=1.5)),
        ("moment", "2026-01-31T13:00:00+01:00", dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)),
        ("path", "//srv/./www/", PurePosixPath("/srv/www")),
        ("address", "2001:DB8::0001", ipaddress.ip_address("2001:db8::1")),
        ("bytes", "aGk=", b"hi"),
    ],
)
def test_texts_have_one_form_after_reading(word, data, value):
    """All accepted forms give the same value."""
    assert Decoder(OTHER, wire=False).value(Type(word), data, "") == value


@pytest.mark.parametrize(
    ("word", "data"),
    [
        ("duration", "90"),
        ("duration", "9" * 99 + "d"),
        ("duration", 10**400),
        ("moment", "2026-01-31T12:00:00"),
        ("moment", "2026-02-30T12:00:00Z"),
        ("path", "srv"),
        ("path", "/srv/../etc"),
        ("address", "1.2.3"),
        ("bytes", "a"),
    ],
)
def test_texts_of_another_form_are_refused(word, data):
    """The message says which form is right."""
    decoder = Decoder(OTHER, wire=False)
    decoder.value(Type(word), data, "x")

    assert [each[:2] for each in decoder.violations] == [("form", "x")]


@pytest.mark.parametrize("type_", [INTEGER, Type("text", patterns=("x",)), Type("choice", choices=("hunter3",))])
def test_a_message_does_not_repeat_a_secret(type_):
    """No message about a wrong value repeats it."""
    record = Record("R", Docs("R."), (Field("password", type_, secret=True),))
    schema = Schema(Package("p", "1.0.0", modules=(Module("m", records=(record,)),)))
    decoder = Decoder(schema, wire=False)
    decoder.value(Type("record", record="m:R"), {"password": "hunter2"}, "")

    assert len(decoder.violations) == 1
    assert "hunter" not in repr(decoder.violations)


def test_the_type_that_a_secret_must_have_is_told():
    """An author who writes a list in place of a password must see which type is expected, as for any argument."""
    schema = Schema(Package("p", "1.0.0", modules=(Module("m"),)))
    decoder = Decoder(schema, wire=False)
    decoder.field(Field("password", Type("text"), secret=True), ["hunter2"], "password")

    assert [each.message for each in decoder.violations] == ["it must be text, not a list"]


def test_a_value_that_its_sender_marks_as_secret_is_not_repeated():
    """The value is masked whether its field is secret or not."""
    decoder = Decoder(OTHER, wire=True)
    decoder.value(Type("choice", choices=("hunter3",)), {"$secret": "hunter2"}, "x")

    assert [each.code for each in decoder.violations] == ["choice"]
    assert "hunter" not in repr(decoder.violations)


def test_a_whole_number_that_no_float_can_hold_is_no_number():
    """The value is a violation, not a bug of the agent."""
    decoder = Decoder(OTHER, wire=False)
    decoder.value(Type("number"), 10**400, "x")

    assert [each[:2] for each in decoder.violations] == [("type", "x")]


def test_a_whole_number_is_a_number_also_in_a_union():
    """Python allows it wherever a float is declared."""
    ratio = Type("union", members=(Type("number"), Type("none")))
    data = Encoder(OTHER).value(ratio, 1)

    assert Decoder(OTHER, wire=True).value(ratio, data, "") == 1.0
    with pytest.raises(TypeError, match="the union has no type for str"):
        Encoder(OTHER).value(ratio, "1")


def test_a_secret_field_is_a_secret_whether_the_sender_says_so_or_not():
    """Its representation does not show the value."""
    record = Record("R", Docs("R."), (Field("password", TEXT, secret=True),))
    schema = Schema(Package("p", "1.0.0", modules=(Module("m", records=(record,)),)))

    for data in ("hunter2", {"$secret": "hunter2"}):
        value = Decoder(schema, wire=True).value(Type("record", record="m:R"), {"password": data}, "")
        assert value == {"password": Secret("hunter2")}
        assert "hunter2" not in repr(value)


@pytest.mark.parametrize(
    ("found", "instead", "said"),
    [
        ('"record": "ec2/security_group:SecurityGroupRule"', '"record": "ec2:Rule"', "the record 'ec2:Rule'"),
        ('"target": "aws:ec2/vpc:Vpc"', '"target": "aws:ec2/vpc:Vcp"', "the resource 'aws:ec2/vpc:Vcp'"),
    ],
)
def test_a_schema_that_names_what_it_does_not_declare_is_refused(found, instead, said):
    """Another program may have written the schema."""
    text = to_json(EC2)
    assert found in text

    with pytest.raises(ValueError, match=f"it names {said}, which it does not declare"):
        Schema.read(text.replace(found, instead))


SIZED = (
    Field("size", INTEGER, default=5, environment=("OTHER_SIZE", "SIZE")),
    Field("word", TEXT, environment=("WORD",), secret=True),
    Field("items", Type("list", items=INTEGER), environment=("ITEMS",)),
)


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        (None, {}),
        ({}, {"size": 5}),
        ({"SIZE": "7", "WORD": "5"}, {"size": 7, "word": Secret("5")}),
        ({"SIZE": "7", "OTHER_SIZE": "8", "ITEMS": "[1, 2]"}, {"size": 8, "items": [1, 2]}),
    ],
)
def test_the_environment_of_the_provider_gives_defaults(environ, wanted):
    """The first variable that is set is used.

    In other places, fields with a default from the environment are left out.
    """
    decoder = Decoder(SCHEMA, wire=True, defaults=True, environ=environ)

    assert decoder.fields(SIZED, (), {}) == wanted
    assert decoder.fields(SIZED, (), {"size": "1", "word": "x", "items": []})["size"] == 1
    assert not decoder.violations


def test_a_wrong_value_of_the_environment_is_a_violation():
    """It is named by its field, and a secret is not shown."""
    decoder = Decoder(SCHEMA, wire=True, defaults=True, environ={"SIZE": "many", "ITEMS": "[1, 'x"})
    decoder.fields(SIZED, (), {})

    assert [(each.code, each.path) for each in decoder.violations] == [("type", "size"), ("type", "items")]


def test_a_number_of_json_is_the_same_with_and_without_a_fraction():
    """TypeScript has one type for both; true is not a number."""
    kind = KindModel("p.r", Docs("R."), (Field("a", Type("any")),), remote=Remote("p:m:R"))

    assert differences(kind, {"a": [1]}, {"a": [1.0]}) == []
    assert len(differences(kind, {"a": [1]}, {"a": [True]})) == 1


def test_an_author_names_fields_that_replace_by_the_generated_constants():
    """The constants have wire names; names of the language are accepted, too."""
    kind = KindModel("p.r", Docs("R."), (Field("a_b", TEXT, wire="aB"),), remote=Remote("p:m:R"))
    for name in ("aB", "a_b", "c"):
        found = differences(kind, {"a_b": "x"}, {"a_b": "y"}, [name])
        assert [each.replaces for each in found] == [name != "c"]
