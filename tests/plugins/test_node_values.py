"""Values in TypeScript: the same data give the same values and the same violations as in Python."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.test_values import FINITE, GROUP, OTHER, RIGHT, SCHEMA, SIZED, TAGGED, WRONG, on_the_wire, pairs

import typescript
from holdfast.agent.idl.targets.javascript_patterns import javascript
from holdfast.agent.idl.targets.typescript import patterns_of
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, Record, Rule
from holdfast.agent.model.package import Module, Package, to_json
from holdfast.agent.model.types import INTEGER, NONE, NUMBER, TEXT, Type
from holdfast.agent.plugins.decode import Decoder
from holdfast.agent.plugins.encode import Encoder
from holdfast.agent.plugins.payloads import InvalidPayload, loaded
from holdfast.agent.plugins.schema import Schema
from holdfast.resources.expressions import expression


class Node:
    """Decodes values by the runtime of TypeScript."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def decode(self, package: Package, record: str, data: str, form: str = "wire") -> tuple[list[Any], str]:
        """Return the violations, and the values as data of the wire; these are empty if there are violations."""
        patterns = {each: [javascript(each), *expression(each).ways] for each in patterns_of(package)}
        asked = {"text": to_json(package), "patterns": patterns, "record": record, "form": form, "data": data}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        return [(each["code"], each["path"]) for each in said["violations"]], said["again"]


def test_the_environment_of_the_provider_gives_defaults(node_notes):
    """The first variable that is set is used; a wrong value is a violation."""
    made = Package("p", "1.0.0", modules=(Module("m", records=(Record("R", Docs("R."), SIZED),)),))
    command = [typescript.node(), str(node_notes / "values.js")]
    found = []
    for environ in ({"SIZE": "7", "WORD": "5"}, {"SIZE": "many", "ITEMS": "[1]"}, {}):
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        ) as process:
            found.append(Node(process).decode(made, "m:R", "{}"))
            process.stdin.close()

    assert [(violations, json.loads(again or "null")) for violations, again in found] == [
        ([], {"size": "7", "word": {"$secret": "5"}}),
        ([("type", "size")], None),
        ([], {"size": "5"}),
    ]


@pytest.fixture(scope="module")
def node(node_notes: Path) -> Iterator[Node]:
    """The program that decodes."""
    command = [typescript.node(), str(node_notes / "values.js")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Node(process)
        process.stdin.close()


def decoded(package: Package, record: str, data: str) -> tuple[list[Any], Any, Decoder]:
    """Decode in Python, with the same result type."""
    schema = Schema(package)
    decoder = Decoder(schema, wire=True, defaults=True)
    found = schema.record(record)
    try:
        values = decoder.fields(found.fields, found.rules, loaded(data.encode(errors="surrogatepass")))
    except InvalidPayload as error:
        return [each[:2] for each in error.violations], None, decoder
    return [each[:2] for each in decoder.violations], values, decoder


def agree(node: Node, package: Package, record: str, data: str) -> list[Any]:
    """Check that both sides find the same violations and values; return the violations."""
    told, values, _ = decoded(package, record, data)
    said, again = node.decode(package, record, data)
    assert said == told, data
    if not told:
        assert decoded(package, record, again)[:2] == ([], values), data
    return told


def one(type_: Type, **options: Any) -> Package:
    """Return a package with one record, `m:R`, whose field `a_b` has a type; also those of the other tests."""
    record = Record("R", Docs("R."), (Field("a_b", type_, wire="aB", **options),))
    module = OTHER.package.modules[0]
    return dataclasses.replace(OTHER.package, modules=(dataclasses.replace(module, records=(*module.records, record)),))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=5) | st.sampled_from(["$json", "1", "-5"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from(["$json", "$secret", "type", "$$x", "2", "1"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(pairs())
def test_every_value_goes_to_node_and_back(node, pair):
    """These include exact integers, null, secrets and unknown values."""
    type_, value = pair
    package = one(type_)
    data = json.dumps({"aB": Encoder(Schema(package)).value(type_, value)})

    assert agree(node, package, "m:R", data) == []


@settings(max_examples=120)
@given(pairs(1), JSON)
def test_any_data_have_the_same_violations(node, pair, data):
    """The data have any form."""
    agree(node, one(pair[0]), "m:R", json.dumps({"aB": data}, ensure_ascii=False))


LIMITED = Record(
    "L",
    Docs("L."),
    (
        Field("low_high", Type("integer", minimum=-(2**63) + 1, below=5), wire="lowHigh"),
        Field("part", Type("number", above=0, maximum=0.5)),
        Field("word", Type("text", shortest=1, longest=3, patterns=(r"\w+", r"[^\d]*"))),
        Field("bytes", Type("bytes", longest=2)),
        Field("many", Type("list", items=Type("integer", minimum=0, maximum=9), longest=2)),
        Field("few", Type("set", items=TAGGED, shortest=1)),
        Field("kind", Type("choice", choices=("on", "off"))),
        Field("map", Type("mapping", keys=Type("text", patterns=("[a-z]+",)), items=Type("duration"), longest=1)),
        Field("first", Type("moment")),
        Field("last", Type("union", members=(Type("moment"), NONE))),
        Field("short", Type("duration"), default=90),
        Field("long", Type("duration"), default="1h30m"),
        Field("pass_word", Type("text", longest=4), secret=True, wire="passWord"),
        Field("either", Type("union", members=(INTEGER, TEXT, Type("list", items=NUMBER)))),
        Field("of", Type("reference", target="p:m:T", patterns=("[a-z]+/[a-z]+",))),
        Field("needed", Type("boolean"), required=True),
    ),
    (
        Rule("ordered", ("first", "last")),
        Rule("ordered", ("short", "long")),
        Rule("together", ("kind", "part")),
        Rule("at most one", ("word", "bytes")),
    ),
)
PACKAGE = Package(
    "p",
    "1.0.0",
    modules=(dataclasses.replace(OTHER.package.modules[0], records=(*OTHER.package.modules[0].records, LIMITED)),),
)
TABLE: list[tuple[str, list[tuple[str, str]]]] = [
    ('"needed": true', []),
    ('"needed": null', [("type", "needed")]),
    ("", [("missing", "needed")]),
    ('"needed": true, "lowHigh": "-9223372036854775808"', [("range", "low_high")]),
    ('"needed": true, "lowHigh": "-9223372036854775807"', []),
    ('"needed": true, "lowHigh": -9223372036854775807', []),
    ('"needed": true, "lowHigh": 5', [("range", "low_high")]),
    ('"needed": true, "lowHigh": 1.0', [("type", "low_high")]),
    ('"needed": true, "lowHigh": "9223372036854775808"', [("range", "low_high")]),
    ('"needed": true, "lowHigh": "12345678901234567890"', [("type", "low_high")]),
    ('"needed": true, "low_high": 1', [("unexpected", "low_high")]),
    ('"needed": true, "part": 0.5, "kind": "on"', []),
    ('"needed": true, "part": 0, "kind": "on"', [("range", "part")]),
    ('"needed": true, "part": 1e999, "kind": "on"', [("type", "part")]),
    ('"needed": true, "part": 0.1', [("rule", "")]),
    ('"needed": true, "kind": "of"', [("choice", "kind"), ("rule", "")]),
    ('"needed": true, "word": "ab😀"', [("pattern", "word")]),
    ('"needed": true, "word": "äöü"', []),
    ('"needed": true, "word": "abcd"', [("length", "word")]),
    ('"needed": true, "word": "a1"', [("pattern", "word")]),
    ('"needed": true, "of": "shop/app"', []),
    ('"needed": true, "of": "shop"', [("pattern", "of")]),
    ('"needed": true, "of": {"$unknown": true}', []),
    ('"needed": true, "word": "a", "bytes": "aGk="', [("rule", "")]),
    ('"needed": true, "bytes": "aGk"', [("form", "bytes")]),
    ('"needed": true, "bytes": "aGkh"', [("length", "bytes")]),
    ('"needed": true, "many": ["10", 3, true]', [("range", "many[0]"), ("type", "many[2]")]),
    ('"needed": true, "many": ["1", "2", "3"]', [("length", "many")]),
    ('"needed": true, "few": []', [("length", "few")]),
    ('"needed": true, "few": [{"type": "a", "size": "1"}, {"size": 1, "type": "a"}]', [("duplicate", "few[1]")]),
    (
        '"needed": true, "few": [{"type": "a"}, {"type": "c"}, 5, {}]',
        [("missing", "few[0].size"), ("choice", "few[1].type"), ("type", "few[2]"), ("choice", "few[3].type")],
    ),
    ('"needed": true, "map": {"A": "1s"}', [("pattern", "map.A")]),
    ('"needed": true, "map": {"$$": "1h"}', [("pattern", "map.$")]),
    ('"needed": true, "map": {"b": "1x", "a": "2s"}', [("form", "map.b")]),
    ('"needed": true, "map": {"b": "1us", "a": "0.0000005s"}', [("length", "map")]),
    ('"needed": true, "first": "2026-01-31T12:00:00Z", "last": "2026-01-31T12:00:00.5Z"', []),
    ('"needed": true, "first": "2026-01-31T12:00:00.5Z", "last": "2026-01-31T13:00:00+01:00"', [("rule", "")]),
    ('"needed": true, "first": "2026-02-29T12:00:00Z"', [("form", "first")]),
    ('"needed": true, "first": "2024-02-29T23:59Z", "last": null', []),
    ('"needed": true, "first": "2024-02-29T24:00:00Z"', [("form", "first")]),
    ('"needed": true, "first": "0001-01-01T00:00:00+00:01"', [("form", "first")]),
    ('"needed": true, "first": "0000-01-01T00:00:00Z"', [("form", "first")]),
    ('"needed": true, "first": "2024-01-01T00:00:00+01:99"', [("form", "first")]),
    ('"needed": true, "first": "\\u0662024-01-01T00:00:00Z"', [("form", "first")]),
    ('"needed": true, "short": "2h", "long": "1h"', [("rule", "")]),
    ('"needed": true, "short": {"$unknown": true}, "long": "1h"', []),
    ('"needed": true, "passWord": {"$secret": "12345"}', [("length", "pass_word")]),
    ('"needed": true, "passWord": {"$secret": {"$secret": "1234"}}', []),
    ('"needed": true, "either": [1, 2.5]', []),
    ('"needed": true, "either": ["1"]', [("type", "either")]),
    ('"needed": true, "either": "12"', []),
    ('"needed": {"$unknown": true}', []),
    ('"needed": true, "needed": 5', [("type", "needed")]),
    ('"needed": true, "part": NaN', [("form", "")]),
    ('"needed": true, "word": "\\ud83d\\ude00"', [("pattern", "word")]),
    ('"needed": true, "nedded": 1', [("unexpected", "nedded")]),
    ('"needed": tru', [("form", "")]),
    ('"needed": true,', [("form", "")]),
    ('"needed": 01', [("form", "")]),
]


@pytest.mark.parametrize(("members", "told"), TABLE)
def test_restrictions_rules_and_forms_are_the_same(node, members, told):
    """Both sides find the violations of the table."""
    assert agree(node, PACKAGE, "m:L", f"{{{members}}}") == told


WRITTEN = {
    "duration": [
        "1h30m",
        "0.25s",
        "5400s",
        "1.0000005s",
        "0.0000015s",
        "1.5us",
        "90",
        "-1s",
        "9" * 99 + "d",
        "1d1d",
        "999999999d",
        "1000000000d",
        "86399999999999.9999996s",
    ],
    "path": ["/", "//srv/./www/", "/a//b/", "srv", "/srv/../etc", "", "/a\0b", "/a/...", "/./"],
    "address": [
        "192.0.2.1",
        "01.2.3.4",
        "1.2.3",
        "1.2.3.256",
        "2001:DB8::0001",
        "::",
        "::1",
        "1::",
        "1:2:3:4:5:6:7::",
        "::ffff:1.2.3.4",
        "1:2:3:4:5:6:1.2.3.4",
        "1:0:0:2:0:0:0:3",
        "1::2::3",
        "12345::",
        ":1",
        "fe80::1%eth0",
        "fe80::1%",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7",
        "::1.2.3",
        "1:0:2:3:4:5:6:7",
        "::%a%b",
        "",
    ],
    "bytes": ["", "aGk=", "aGk", "a===", "aG=k", "aGkh", "aGkhCg==", "-_==", "aGk=\n"],
    "moment": [
        "2026-01-31T13:00:00+01:00",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        "1900-02-29T00:00:00Z",
        "9999-12-31T23:59:59.9999999Z",
        "9999-12-31T23:59:59-00:01",
        "2026-01-31T12:00:60Z",
        "0099-01-01T00:00:00Z",
        "2026-01-31T12:00:00.123456789Z",
        "2026-01-31T12:00:00-23:59",
    ],
}


@pytest.mark.parametrize(("word", "text"), [(word, text) for word, texts in WRITTEN.items() for text in texts])
def test_texts_have_the_same_forms(node, word, text):
    """Valid texts give the same value, and invalid ones are violations on both sides."""
    agree(node, one(Type(word)), "m:R", json.dumps({"aB": text}))


@pytest.mark.parametrize(("change", "told"), [each for each in WRONG if each[0] != {"tags": {1: "x"}}])
def test_a_resource_has_the_same_violations(node, change, told):
    """The violations of the example have the same order. Fields that the provider sets are not arguments."""
    data = on_the_wire({**RIGHT, **change})
    decoder = Decoder(SCHEMA, wire=True)
    decoder.inputs(GROUP, data)
    said, _ = node.decode(SCHEMA.package, "aws:ec2/security_group:SecurityGroup", json.dumps(data))

    assert said == [each[:2] for each in decoder.violations]
    assert sorted(said) == sorted(told)


def test_a_pattern_that_takes_too_long_does_not_match(node_notes, tmp_path):
    """The match is ended after five seconds, and the provider continues."""
    program = node_notes / "slow.mjs"
    program.write_text(
        "import { matchesInTime } from './holdfast-runtime/matching.js';\n"
        "console.log(matchesInTime(['^(?:(?:a+)+b)$', 500001, 0], 'a'.repeat(40)));\n"
        "console.log(matchesInTime(['^(?:(?:a+)+b)$', 500001, 0], 'aab'));"
    )

    assert typescript.run(program).split() == ["false", "true"]
