"""Ini files: everything else stays byte for byte, and other parsers read the written options."""

from __future__ import annotations

import configparser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._ini import BOM, Style, joined, parse, values
from holdfast.resources.kinds.ini import IniFile, OptionsAbsent, OptionsPresent, SectionsAbsent, SectionsPresent

LINES = st.sampled_from(
    [
        "[a]",
        "[b]",
        "  [a]  ",
        "[]",
        "[a",
        "x = 1",
        "x=1",
        "x  =",
        "y : 2",
        "\ty = 2",
        "    deeper",
        "flag",
        "# x = 1",
        ";x=5",
        "#",
        "",
        "   ",
        "= 1",
        "==",
        "z = a = b ; c",
        "é = ü",
        "x = \x85\u2028",
        "\x0c",
        "[x = 1]",
    ]
)
ENDS = st.sampled_from(["\n", "\r\n", "", "\n\n"])
FILES = st.lists(st.tuples(LINES, ENDS), max_size=14).map(lambda parts: "".join(f"{line}{end}" for line, end in parts))
ANY = st.text(st.characters(), max_size=60) | FILES
NAMES = st.sampled_from(["x", "y", "new", "X", "a.b", "é"])
VALUES = st.sampled_from(["1", "", "a = b", "x ; y", "two\nlines", "  [a]", "#", "é", "\\", "'\"$(id)`"])
SECTIONS = st.dictionaries(st.sampled_from(["a", "b", "c d"]), st.dictionaries(NAMES, VALUES, max_size=3), max_size=3)
STYLES = st.sampled_from([Style("="), Style(":"), Style(" "), Style("=", spaced=False)])


def edited(resource: IniFile, text: str) -> str | None:
    """Return the edited text; None if the resource refuses the text."""
    try:
        return resource.edited(text, ())
    except Permanent:
        return None


@given(text=ANY, style=STYLES)
def test_parsing_and_writing_is_the_identity(text, style):
    """The entries of any file, joined again, are the file."""
    assert joined(parse(text, style)) == text


@given(text=ANY, wanted=SECTIONS, strict=st.booleans(), separator=st.sampled_from(["=", ":"]))
def test_options_are_present_afterwards(text, wanted, strict, separator):
    """The declared options have their values, a second edit changes nothing, and other options keep their values."""
    resource = OptionsPresent.declare("/f", sections=wanted, strict=strict, separator=separator)
    new = edited(resource, text)
    if new is None:
        return
    before, after = (values(parse(each, resource.style())) for each in (text, new))

    assert edited(resource, new) == new
    for section, options in wanted.items():
        for name, value in options.items():
            assert [line.strip(" \t") for line in after[section][name].split("\n")] == [
                line.strip(" \t") for line in value.split("\n")
            ]
    assert strict or all(
        after[section][name] == value
        for section, options in before.items()
        for name, value in options.items()
        if name not in wanted.get(section, {})
    )


@given(text=FILES, wanted=SECTIONS)
def test_foreign_lines_are_kept(text, wanted):
    """Comments, blank lines and other options keep their bytes and their order."""
    resource = OptionsPresent.declare("/f", sections=wanted)
    new = edited(resource, text)
    if new is None:
        return
    own = {(section, name) for section, options in wanted.items() for name in options}
    style = resource.style()
    kept = ["".join(each.lines) for each in parse(text, style) if (each.section, each.key) not in own]
    there = iter("".join(each.lines) for each in parse(new, style))

    assert all(any(line.rstrip("\r\n") == other.rstrip("\r\n") for other in there) for line in kept)


@given(
    present=st.dictionaries(
        st.sampled_from("abc"), st.dictionaries(st.sampled_from("xyz"), st.sampled_from("123"), max_size=3), max_size=3
    ),
    wanted=SECTIONS,
)
def test_pythons_parser_reads_what_was_written(present, wanted):
    """An independent parser finds the declared options and all former ones."""
    text = "".join(
        f"[{section}]\n# c\n" + "".join(f"{name}={value}\n\n" for name, value in options.items())
        for section, options in present.items()
    )
    new = edited(OptionsPresent.declare("/f", sections=wanted), text)
    assert new is not None
    parser = configparser.RawConfigParser(delimiters=("=",), default_section="\0")
    parser.optionxform = str  # type: ignore[assignment,method-assign] # as its documentation says
    parser.read_string(new)

    assert {section: dict(parser.items(section)) for section in parser.sections()} == {
        section: {
            name: value.strip() for name, value in {**present.get(section, {}), **wanted.get(section, {})}.items()
        }
        for section in {*present, *wanted}
    }


@given(text=ANY)
def test_what_is_absent_is_absent_afterwards(text):
    """Options and sections are gone, and a second edit changes nothing."""
    without = edited(OptionsAbsent.declare("/f", sections={"a": ["x"], "y": None}), text) or ""
    found = values(parse(without, Style()))
    gone = edited(SectionsAbsent.declare("/f", sections=["a"]), text) or ""

    assert "x" not in found.get("a", {})
    assert "y" not in found.get("", {})
    assert "a" not in values(parse(gone, Style()))


@given(text=ANY)
def test_sections_are_present_afterwards(text):
    """Both sections are there, and the text before is unchanged."""
    new = edited(SectionsPresent.declare("/f", sections=["a", "new one"]), text)

    assert new is not None
    assert new.startswith(text)
    assert {"a", "new one"} <= values(parse(new, Style())).keys()


def test_line_ends_are_kept():
    """New lines have the line end of the file's first line."""
    resource = OptionsPresent.declare("/f", sections={"a": {"x": 2, "y": "3\n4"}, "b": {"z": ""}})

    assert resource.edited("[a]\r\nx =\t1\r\n", ()) == ("[a]\r\nx =\t2\r\ny = 3\r\n    4\r\n\r\n[b]\r\nz =\r\n")


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"a": {"x\ny": 1}}, "is not the name of an option: a name is one line"),
        ({"a": {"#x": 1}}, "does not begin like a comment"),
        ({"a": {"[x]": 1}}, "is not the name of an option"),
        ({"a": {"x=y": 1}}, "contains the separator"),
        ({"a": {"x": "1\0"}}, "NUL"),
        ({"a": {"x": "1\r[b]"}}, "carriage return"),
        ({"a": {"x": "1\n\n2"}}, "lines of a value after the first cannot be empty"),
        ({"a": {"x": "1\n# 2"}}, "begin like a comment"),
        ({"a": {"x": None}}, "is not a value of an option"),
        ({"a": {"x": [1]}}, "is not a value of an option"),
        ({"a]\n[b": {"x": 1}}, "is not the name of a section"),
        ({" a": {"x": 1}}, "without surrounding blanks"),
    ],
)
def test_names_and_values_that_ini_files_cannot_have_are_refused(sections, message):
    """No name or value can add another line."""
    with pytest.raises(ValidationError) as caught:
        OptionsPresent.declare("/f", sections=sections)

    assert message in str(caught.value)


@pytest.mark.parametrize("separator", ["", "\n", "#", "[", "\0"])
def test_separators_that_cannot_be_told_from_other_signs_are_refused(separator):
    """A comment sign or a bracket would change the meaning of other lines."""
    with pytest.raises(ValidationError, match="is not a separator"):
        OptionsAbsent.declare("/f", separator=separator)


def test_a_new_option_does_not_swallow_an_indented_line():
    """The option is not placed below the comment that shows it, if the next line would continue its value."""
    resource = OptionsPresent.declare("/f", sections={"a": {"x": "2"}})

    assert resource.edited("[a]\n# x = 1\n    deeper\ny = 1\n", ()) == "[a]\n# x = 1\n    deeper\ny = 1\nx = 2\n"


def test_a_file_that_would_be_read_differently_is_not_written(monkeypatch):
    """The edited text is parsed once more before it is written."""
    monkeypatch.setattr("holdfast.resources.kinds._ini.IniText.put", lambda *_: None)
    with pytest.raises(Permanent, match="'x' would be read differently in an ini file"):
        OptionsPresent.declare("/f", sections={"a": {"x": "2"}}).edited("[a]\n", ())


@pytest.mark.parametrize("mark", ["", BOM])
def test_a_repeated_option_is_changed_once(mark):
    """Both lines may be equal, and a byte order mark at the beginning stays."""
    resource = OptionsPresent.declare("/f", sections={"a": {"x": "2"}})

    assert resource.edited(f"{mark}[a]\nx=1\nx=1\ny=1\n", ()) == f"{mark}[a]\nx=2\ny=1\n"
