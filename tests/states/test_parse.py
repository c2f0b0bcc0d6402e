"""The YAML parser of state files is strict, records locations, and otherwise gives the values of PyYAML."""

from __future__ import annotations

import sys
import tracemalloc

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from effort import effort
from holdfast.states.errors import CompileError
from holdfast.states.parse.loader import parse_json, parse_yaml
from holdfast.states.parse.marks import At, Document, Map, Seq, descend, packed, plain, position_of
from holdfast.states.source.files import LIMIT


def parse(text: str):
    """Return the data of a text."""
    return parse_yaml(Document("x.sls", text), text)


def problem(text: str):
    """Return the only problem of a text."""
    with pytest.raises(CompileError) as caught:
        parse(text)
    (found,) = caught.value.problems
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0644", 644),
        ("-017", -17),
        ("0x1f", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("1:30", 90),
        ("08", "08"),
        ("0o17", "0o17"),
        ("'0644'", "0644"),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
        ("", None),
        ("1.5", 1.5),
        ("1e3", "1e3"),
        ("1.0e+3", 1000.0),
        (".inf", float("inf")),
        ("2020-01-02", "2020-01-02"),
        ("2020-01-02 03:04:05", "2020-01-02 03:04:05"),
        ("=", "="),
        ("<<", "<<"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("!!bool 'yes'", True),
        ("! 5", "5"),
        ("0x_", "0x_"),
        ("0b_", "0b_"),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_a_scalar_has_the_value_that_salt_reads(text, value):
    """The language is YAML 1.1, but leading zeros are decimal and timestamps stay text."""
    assert parse(f"a: {text}") == {"a": value}


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("a: 1\nb: 2\na: 3", "duplicate-id", 3, 1),
        ("a:\n  b: 1\n  b: 2", "duplicate-key", 3, 3),
        ("a:\n\tb: 1", "yaml-tab", 2, 1),
        ("a: {{ b }}", "yaml-key", 1, 5),
        ("a: {[x]: 1}", "yaml-key", 1, 5),
        ("a: b: c", "yaml-syntax", 1, 5),
        ("a:\n  - b\n c", "yaml-syntax", 3, 2),
        ("a: 'b", "yaml-syntax", 1, 6),
        ("a: [1, 2", "yaml-syntax", 1, 4),
        ("x: [", "yaml-syntax", 1, 4),
        ("a: 1\nx: {\n\n", "yaml-syntax", 2, 4),
        ("a: @b", "yaml-syntax", 1, 4),
        ("a: *b", "yaml-alias", 1, 4),
        ("a: &b [*b]", "yaml-alias", 1, 8),
        ("a: !ruby x", "yaml-tag", 1, 4),
        ("a: !!python/object:x {}", "yaml-tag", 1, 4),
        ("a: !!int x", "yaml-tag", 1, 4),
        ("a: !!binary aGk=", "yaml-tag", 1, 4),
        ("a: 1\n---\nb: 2", "yaml-syntax", 3, 1),
        ("a: b\x07", "yaml-character", 1, 5),
        ("a: \ud800", "yaml-character", 1, 0),
        ("a: 1\nb:\n  <<: 5", "yaml-merge", 3, 3),
        ("[" * 101, "yaml-depth", 1, 101),
    ],
)
def test_invalid_yaml_has_line_and_column(text, code, line, column):
    """Each mistake has its own code and location."""
    found = problem(text)

    assert (found.code, found.location.line) == (code, line)
    assert column in (0, found.location.column)
    assert found.text == text.split("\n")[line - 1][:500]


def test_a_duplicate_key_has_both_lines():
    """One run reports every duplicate."""
    with pytest.raises(CompileError) as caught:
        parse("a: {x: 1, x: 2}\nb: 1\nb: 2")

    assert [(found.code, found.location.line) for found in caught.value.problems] == [
        ("duplicate-key", 1),
        ("duplicate-id", 3),
    ]
    assert "first in line 2" in caught.value.problems[1].message


def test_own_keys_take_precedence_over_merged_ones():
    """Merged keys come first, as in YAML. Of several merged mappings, the earlier one takes precedence."""
    data = parse("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  z: 3\n  <<: [*a, *b]")

    assert list(data["c"].items()) == [("x", 1), ("y", 1), ("z", 3)]


def test_merge_keys_of_merged_mappings_are_merged():
    """A merged mapping may itself have been merged."""
    assert parse("a: &a {x: 1}\nb: &b\n  <<: *a\n  y: 2\nc:\n  <<: *b")["c"] == {"x": 1, "y": 2}


def test_exponential_aliases_are_refused_quickly():
    """Nine levels of ten aliases each expand to a billion values."""
    lines = ["a0: &a0 [1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))]

    assert problem("\n".join(lines)).code == "yaml-alias"
    assert effort(lambda: problem("\n".join(lines)), 2) < 2


def test_aliases_have_the_same_limit_of_depth():
    """Code that reads the data later may call itself for each level."""
    lines = ["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 1200))]

    found = problem("\n".join(lines))
    assert (found.code, found.location.line) == ("yaml-depth", 100)


def test_a_tag_that_does_not_fit_its_value_is_an_error():
    """An empty value does not fit, either."""
    assert {problem(f"a: {text}").code for text in ("!!float ''", "!!int 0x", "!!bool ''", "!!binary x")} == {
        "yaml-tag"
    }


@given(st.integers(0, LIMIT), st.integers(0, LIMIT))
def test_a_position_is_the_same_after_packing(line, column):
    """No text is long enough for a greater line or column; a packed position is never false."""
    mark = packed(At(line, column))
    assert mark
    assert position_of(mark) == At(line, column)


def test_every_key_and_item_has_a_location():
    """Lines and columns count from 0, at any depth."""
    data = parse("a:\n  - b: 1\n    c: [x, {y: 2}]\n")

    def at(*path):
        position = position_of(descend(data, path))
        return (position.line, position.column)

    assert at("a") == (0, 0)
    assert at("a", 0) == (1, 4)
    assert at("a", 0, "c") == (2, 4)
    assert at("a", 0, "c", 1, "y") == (2, 12)


def test_json_refuses_what_yaml_refuses():
    """Duplicate keys, deep nesting and invalid JSON are errors."""
    document = Document("x.sls", "")

    assert parse_json(document, '{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    mistakes = {
        '{"a": 1, "a": 2}': "duplicate-key",
        '{"a":\n1,}': "json-syntax",
        f'{{"a": {"1" * 5000}}}': "json-syntax",
        "[" * 400 + "]" * 400: "yaml-depth",
        "[" * 100_000: "yaml-depth",
    }
    for text, code in mistakes.items():
        with pytest.raises(CompileError) as caught:
            parse_json(document, text)
        assert caught.value.problems[0].code == code


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_output_of_pyyaml_is_read_as_pyyaml_reads_it(value, flow):
    """Random data are written in block and in flow style."""
    text = yaml.safe_dump({"data": value}, default_flow_style=flow, allow_unicode=True)

    assert plain(parse(text)) == yaml.load(text, yaml.CSafeLoader)


@given(st.text(alphabet="ab:-#[]{},&*!|>'\"%@` \n\t\\<=~0123", max_size=60))
def test_any_text_parses_or_fails_with_a_location(text):
    """The only exception is `CompileError`."""
    try:
        data = parse(text)
    except CompileError as error:
        placed = [found.location.line > 0 for found in error.problems]
    else:
        placed = [data is None or isinstance(data, (Map, Seq, str, int, float))]
    assert all(placed)


def test_a_position_takes_no_more_memory_than_a_number_of_its_size():
    """Each state keeps several; CPython reserves room for a carry in a sum."""
    places = [At(line, 2) for line in range(70_000, 71_000)]
    tracemalloc.start()
    try:
        marks = [*map(packed, places)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken - sys.getsizeof(marks) < 33 * len(marks)


def test_parsing_is_faster_than_pyyaml():
    """On a quiet machine, parsing is 4 to 5 times as fast (bench/compile.py); on a busy one it must still be faster."""
    text = "".join(
        f"/srv/{n}:\n  lamp.lit:\n    - color: text {n}\n    - size: 3\n    - require:\n      - lamp: /srv/{n // 2}\n"
        for n in range(1500)
    )

    assert effort(lambda: parse(text), 1, than=lambda: yaml.load(text, yaml.CSafeLoader)) < 1
