"""`file.serialize`: each format reads what it has written, and refuses data that it cannot write exactly."""

from __future__ import annotations

import configparser
import json
import math
import os
import tomllib
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.file.formats import FORMATS, Format, merged
from holdfast.resources.kinds.file.serialize import Serialize
from holdfast.resources.testing import FakeContext

TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    [
        "'",
        '"',
        "\\",
        "a: b",
        "- x",
        "#x",
        "yes",
        "1",
        "null",
        "[x]",
        "a=b",
        "%(x)s",
        "\n",
        "x\ny",
        " x ",
        "\x7f",
        "\x85",
    ]
)
SCALARS = TEXT | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
DATA = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))
MAPPING = st.dictionaries(TEXT, DATA, max_size=4)


def written(form: Format, data: Any) -> bytes | None:
    """Return data as bytes; None if the format refuses the data."""
    try:
        text = form.text(data)
    except Permanent:
        return None
    return text if isinstance(text, bytes) else text.encode()


def declared(**arguments: Any) -> Serialize:
    """Return a resource."""
    return Serialize.declare("/etc/f", **arguments)


@pytest.mark.parametrize("name", ["json", "toml"])
@given(data=MAPPING)
def test_what_was_written_is_read_back(name, data):
    """JSON and TOML express all of these data."""
    form = FORMATS[name]()
    text = written(form, data)

    assert text is not None
    assert form.data(text) == data


@pytest.mark.parametrize("name", ["yaml", "plist"])
@given(data=MAPPING)
def test_what_was_written_is_read_back_or_refused(name, data):
    """Some characters are impossible in YAML and XML, and some readers replace line breaks."""
    form = FORMATS[name]()
    text = written(form, data)

    assert text is None or form.data(text) == data


@given(data=st.dictionaries(TEXT, TEXT, max_size=3))
def test_a_line_cannot_be_smuggled_into_pairs(data):
    """A format without quotes refuses names and values that would be read differently."""
    form = FORMATS["keyvalue"]()
    text = written(form, data)

    assert text is None or form.data(text if data else b"") == data


@given(data=st.dictionaries(TEXT, st.dictionaries(TEXT, TEXT, max_size=3), max_size=3))
def test_a_line_cannot_be_smuggled_into_sections(data):
    """Sections refuse such names and values, too. Names are written in small letters, as by Salt."""
    text = written(FORMATS["configparser"](), data)

    if text is not None:
        parser = configparser.RawConfigParser()
        parser.read_string(text.decode())
        found = {name: dict(parser.items(name)) for name in parser.sections()}
        assert found == {
            section: {name.lower(): value for name, value in settings.items()} for section, settings in data.items()
        }


@given(text=st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode(errors="surrogatepass")))
def test_foreign_text_is_read_or_refused(text):
    """For any content of a file, the result is data or an error with a message."""
    for cls in FORMATS.values():
        with suppress(Permanent):
            cls().data(text)


def test_toml_writes_tables_in_tables():
    """Values come before tables, arrays of tables have double brackets, and keys are quoted if necessary."""
    data = {"b": {"c": {"d": [1, 2]}, "x y": "é\n"}, "a": math.inf, "t": [{"n": 1}, {"n": {"m": True}}], "e": []}
    text = FORMATS["toml"]().text(data)

    assert tomllib.loads(str(text)) == data
    assert text == (
        'a = inf\ne = []\n\n[b]\n"x y" = "é\\n"\n\n[b.c]\nd = [1, 2]\n\n[[t]]\nn = 1\n\n[[t]]\n\n[t.n]\nm = true\n'
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "it has no data: set dataset or dataset_pillar"),
        ({"dataset": {"a": 1}, "dataset_pillar": "a"}, "exclude each other"),
        ({"dataset": 1, "serializer": "json", "formatter": "json"}, "set only one of them"),
        ({"dataset": 1, "serializer": "jsn"}, "'yaml', 'json'"),
        ({"dataset": {"a": 1}, "serializer": "toml", "serializer_opts": {"indent": 2}}, "toml has no option 'indent'"),
        ({"dataset": {"a": 1}, "serializer_opts": [{"ident": 2}]}, "did you mean 'indent'?"),
        (
            {"dataset": {"a": 1}, "serializer_opts": [{"indent": "x"}]},
            "serializer_opts: the option 'indent' is invalid",
        ),
        ({"dataset": {"a": 1}, "serializer_opts": ["indent"]}, "'indent' is not an option; write `- name: value`"),
        ({"dataset": {"a": None}, "serializer": "toml"}, "dataset cannot be toml: it cannot be written in this format"),
        ({"dataset": [1], "serializer": "configparser"}, "it needs a mapping of sections"),
        ({"dataset": {"a": {"b": "1\n[c]"}, "c]\nx": {}}, "serializer": "configparser"}, "read differently"),
        ({"dataset": {"a": {"b": "50%"}}, "serializer": "configparser"}, "invalid interpolation syntax"),
        ({"dataset": {"a": "x\ny=1"}, "serializer": "keyvalue"}, "has a line break or the separator"),
        ({"dataset": {"a": 1, 2: 3}, "serializer": "json"}, "dataset cannot be json"),
        ({"dataset": {"a": 1}, "serializer": "python", "merge_if_exists": True}, "which Holdfast cannot read"),
        ({"dataset": {"a": 1}, "serializer": "msgpack"}, "'yaml', 'json'"),
    ],
)
def test_mistakes_are_found_when_states_are_compiled(arguments, message):
    """Data that the format cannot express, and options that it does not have, are errors of the state file."""
    with pytest.raises(ValidationError) as caught:
        declared(**arguments)

    assert message in str(caught.value)


def test_a_deeply_nested_dataset_is_refused():
    """Nesting beyond the recursion limit is an error, not a crash."""
    data: Any = 1
    for _ in range(100_000):
        data = [data]
    with pytest.raises(Permanent, match="nested too deeply"):
        FORMATS["json"]().text(data)


@given(base=MAPPING, over=MAPPING)
def test_merging_keeps_and_replaces(base, over):
    """All declared values are there, others are kept, and merging again changes nothing."""
    once = merged(base, over)

    assert json.dumps(merged(once, over), sort_keys=True) == json.dumps(once, sort_keys=True)
    assert once.keys() == base.keys() | over.keys()
    assert all(once[key] == value for key, value in over.items() if not isinstance(value, dict))
    assert all(once[key] == value for key, value in base.items() if key not in over)


def test_states_that_merge_different_data_agree():
    """Two states may merge into one file. Two states that write the whole file contradict each other."""
    one, other = (declared(dataset={name: 1}, merge_if_exists=True) for name in "ab")

    assert one.contradicts(other) is None
    assert one.contradicts(declared(dataset={"a": 2})) == "dataset differs"


@pytest.mark.parametrize("value", ["abc%secret", "%(secret)s", "%(x)s secret"])
def test_no_value_of_a_file_is_told(value):
    """An error names only section and option, because the value may be a secret."""
    with pytest.raises(Permanent, match=r"the value of 'x' in \[a\] has an invalid %$"):
        FORMATS["configparser"]().data(f"[a]\nx = {value}\n".encode())


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("yaml", "a: !!int secret", "a value is not a valid !!int, line 1, column 4"),
        ("yaml", "a:\n- !!float secret", "a value is not a valid !!float, line 2, column 3"),
        ("yaml", "a: !!bool secret", "a value is not a valid !!bool, line 1, column 4"),
        ("yaml", "a: !!timestamp secret", "a value is not a valid !!timestamp, line 1, column 4"),
        ("yaml", "a: 2001-99-99", "a value is not a valid !!timestamp, line 1, column 4"),
        ("yaml", "a: !!int ''", "a value is not a valid !!int, line 1, column 4"),
        ("yaml", "a: !!binary secret", "failed to decode base64 data: Incorrect padding, line 1, column 4"),
        ("yaml", "a: !secret", "a tag is unknown, line 1, column 4"),
        ("yaml", "a: !<secret> x", "a tag is unknown, line 1, column 4"),
        ("yaml", "a: *secret", "found undefined alias, line 1, column 4"),
        ("yaml", "a: {secret", "did not find expected ',' or '}', line 2, column 1"),
        ("plist", "<integer>secret</integer>", "the content of an element for a number, a date or data is invalid"),
        ("plist", "<real>secret</real>", "the content of an element for a number, a date or data is invalid"),
        ("plist", "<date>secret</date>", "the content of an element for a number, a date or data is invalid"),
        ("plist", "<secret/>", "missing value for key 'a' at line 1"),
    ],
)
def test_an_error_of_a_file_says_where_and_not_which_value(name, text, told):
    """The error has the line only, because the value may be a secret that was written at the wrong place."""
    if name == "plist":
        text = f"<plist version='1.0'><dict><key>a</key>{text}</dict></plist>"
    with pytest.raises(Permanent) as error:
        FORMATS[name]().data(text.encode())
    assert str(error.value) == f"it is not in this format: {told}"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("json", datetime(2001, 1, 1), "a timestamp, which the format lacks; write it in quotes"),  # noqa: DTZ001
        ("json", date(2001, 1, 1), "a date, which the format lacks; write it in quotes"),
        ("python", b"secret", "binary data, which the format lacks; write it in quotes"),
        ("toml", b"secret", "binary data, which the format lacks; write it in quotes"),
        ("toml", 1 << 63, "a number of more than 64 bits, which the format lacks; write it in quotes"),
        ("toml", None, "null, which the format lacks"),
        ("plist", None, "null, which the format lacks"),
        ("yaml", timedelta(1), "a timedelta, which the format lacks; write it in quotes"),
    ],
)
def test_a_value_that_a_format_does_not_have_is_named_by_its_keys(name, value, told):
    """The value itself may come from the pillar, and be a secret."""
    with pytest.raises(Permanent) as error:
        FORMATS[name]().text({"a": [1, {"b": value}]})
    assert str(error.value) == f"it cannot be written in this format: the value of a:1:b is {told}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(("uid", "mode"), [(12345, 0o600), (0, 0o664)])
async def test_a_large_file_of_a_user_is_not_merged(tmp_path, uid, mode):
    """Its data would take a hundred times as much memory, and minutes; a file of root may be larger."""
    file = tmp_path / "f"
    file.write_text(json.dumps({"b": "x" * (1 << 17)}))
    state = Serialize.declare(str(file), dataset={"a": 1}, serializer="json", merge_if_exists=True)
    assert not await state.check_apply(FakeContext(tmp_path), False)
    os.chown(file, uid, 12345)
    file.chmod(mode)
    with pytest.raises(Permanent, match="it has more than 64 KiB; declare the whole file"):
        await state.check_apply(FakeContext(tmp_path), False)
