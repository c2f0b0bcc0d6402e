"""`fmt`: the canonical layout, what keeps its layout, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.states.errors import CompileError
from holdfast.states.format.formatter import format_text
from holdfast.states.parse.line_masking import mask_line

EXAMPLES = Path(__file__).parents[2] / "config/examples"

FORMS = {
    "indentation": (
        (
            "a:\n    file.managed:\n        - mode: 1\n        - require:\n"
            "            - file: b\n        - context:\n              k: v\n"
        ),
        "a:\n  file.managed:\n    - mode: 1\n    - require:\n      - file: b\n    - context:\n        k: v\n",
    ),
    "lists below their key": ("include:\n- a\n-   b\n", "include:\n  - a\n  - b\n"),
    "one space after colons and dashes": ("a:\n  f.g:\n    -   k:   v  # c\n", "a:\n  f.g:\n    - k: v  # c\n"),
    "one blank line between declarations": ("a: b.c\nd: e.f\n\n\n\n# g\nh: i.j\n", "a: b.c\n\nd: e.f\n\n# g\nh: i.j\n"),
    "one blank line within a declaration": ("a:\n  b.c:\n\n\n    - d\n", "a:\n  b.c:\n\n    - d\n"),
    "no blanks at the ends": ("\n\na: b.c   \n\n\n", "a: b.c\n"),
    "a final newline": ("a: b.c", "a: b.c\n"),
    "newlines": ("a:\r\n  b.c: []\r\n", "a:\n  b.c: []\n"),
    "delimiters": ("{%if x%}\na: {{x}}\n{%-endif-%}\n", "{% if x %}\na: {{ x }}\n{%- endif -%}\n"),
    "spaces inside a tag are kept": ("{%   set x = 1   %}\n", "{%   set x = 1 %}\n"),
    "comments and tags move with their lines": (
        "a:\n    b.c:\n        # d\n        {% if x %}\n        - e: 1\n        {% endif %}\n# f\n",
        "a:\n  b.c:\n    # d\n    {% if x %}\n    - e: 1\n    {% endif %}\n# f\n",
    ),
    "block scalars keep their indentation": (
        "a:\n  b.c:\n    - d: |\n            one\n              two\n\n            three\n",
        "a:\n  b.c:\n    - d: |\n        one\n          two\n\n        three\n",
    ),
    "block scalars with an indentation indicator": (
        "a:\n    b.c:\n        - d: |2\n              one\n",
        "a:\n  b.c:\n    - d: |2\n          one\n",
    ),
    "a value of several lines": (
        "a:\n    b.c:\n        - d: one\n            two\n",
        "a:\n  b.c:\n    - d: one\n        two\n",
    ),
    "brackets": ("a:\n    b.c:   {d: 1,\n          e:  2}\n", "a:\n  b.c: {d: 1,\n        e:  2}\n"),
    "several keys in one item": ("a:\n - b:  1\n   c:\n     - d\n", "a:\n  - b: 1\n    c:\n      - d\n"),
    "a blank line goes before a tag that begins": ("a: b.c\n{% for i in x %}\nd: e.f\n", None),
    "blank lines and tags": (
        "{% if x %}\na: b.c\n{% else %}\nd: e.f\n{% endif %}\ng: h.i\n{% if y %}\nj: k.l\n{% endif %}\n",
        "{% if x %}\na: b.c\n{% else %}\nd: e.f\n{% endif %}\n\ng: h.i\n\n{% if y %}\nj: k.l\n{% endif %}\n",
    ),
    "no template": ("#!yaml\na:\n    b.c:   {d: {e: f}}\n", "#!yaml\na:\n  b.c: {d: {e: f}}\n"),
}


@pytest.mark.parametrize(("old", "new"), [pytest.param(old, new, id=name) for name, (old, new) in FORMS.items() if new])
def test_a_text_gets_the_canonical_layout(old, new):
    """Formatting the result changes nothing."""
    assert format_text(old, "x.sls").text == new
    assert format_text(new, "x.sls").text == new


KEPT = {
    "a macro's text may have several lines": (
        "{% from 'm' import m %}\na:\n    b.c:\n        {{ m() }}\n        - d\n",
        "several lines",
    ),
    "a value laid out by a macro": ("a:\n    b.c:\n        - d: {{ m(1) }}\n", "several lines"),
    "a value with its own newlines": ("a:\n    b.c:\n        - {{ x | join('\\n        - ') }}\n", "several lines"),
    "an indented text": ("a:\n    b.c:\n        - d: |\n            {{ x | indent(12) }}\n", "several lines"),
    "a text with data in it": ("a:\n    b.c:\n        - d: |\n            one {{ x }}\n", "several lines"),
    "a text that was set": ("{% set x = '\\n  b.c' %}\na:\n    b.c: {{ x }}\n", "several lines"),
    "a text block that was set": ("{% set x %}a\nb{% endset %}\na:\n    b.c: {{ x }}\n", "several lines"),
    "an include": ("a:\n    {% include 'x' %}\n    b.c: []\n", "several lines"),
    "a head within a block": (
        "a:\n{% if x %}\n    b.c:\n{% else %}\n    b.d:\n{% endif %}\n        - e\n",
        "belong to its content",
    ),
    "a block across declarations": ("{% if x %}\na:\n{% endif %}\n    b.c: []\n", "reaches from one declaration"),
    "a tag that joins lines": ("a:\n{% if x -%}\n    b.c: []\n{% endif %}\n", "joins lines"),
    "branches that are no siblings": (
        "a:\n    b.c:\n        - d\n{% if x %}\n        - f\n{% else %}\n    b.e: []\n{% endif %}\n",
        "contains more than siblings",
    ),
    "a no-break space is text": ("a:\n    b.c:\n    \xa0\n        - {{ d }}\n", "not YAML"),
    "a document's beginning": ("---\n{% set x = 1 %}\n", "not a declaration"),
}


@pytest.mark.parametrize(("text", "why"), KEPT.values(), ids=KEPT)
def test_a_layout_that_may_mean_something_is_kept(text, why):
    """The lines are unchanged, and the reason is reported with its line."""
    formatted = format_text(text, "x.sls")

    assert formatted.text == text
    assert formatted.kept
    assert all(why in note and re.match(r"x.sls:[1-9]", note) for note in formatted.kept)


def test_only_the_declaration_with_the_reason_is_kept():
    """Other declarations are formatted."""
    text = "a:\n    {{ m() }}\n\nb:\n    c.d: []\n"

    assert format_text(text, "x.sls").text == "a:\n    {{ m() }}\n\nb:\n  c.d: []\n"


def test_macros_and_raw_text_are_not_touched():
    """Each space in the output of a macro may matter."""
    text = "{% macro m() %}\n   a:   \n\n\n     b\n{% endmacro %}\n{% raw %}{{x}}\n\n\n   y{% endraw %}\n"

    assert format_text(text, "x.sls").text == text


def test_a_block_scalar_with_plus_keeps_its_blank_lines():
    """With `+`, the blank lines at the end are part of the text."""
    text = "a:\n  b.c:\n    - d: |+\n        one\n\n\n\ne: f.g\n"

    assert format_text(text, "x.sls").text == text


def test_a_block_scalar_without_a_final_newline_does_not_get_one():
    """The text is at the end of a file."""
    assert format_text("a: |\n  b", "x.sls").text == "a: |\n  b"


def test_json_is_not_formatted():
    """There is no canonical layout of JSON."""
    text = '#!json\n{"a":   {}}'

    assert format_text(text, "x.sls").text == text


REFUSED = {
    "no YAML": ("a:\n  b: [\n", "yaml-syntax", 2),
    "a tab": ("a:\n\tb: c\n", "yaml-tab", 2),
    "no template": ("a:\n{% if %}\n", "template-syntax", 2),
    "a tag without an end": ("{% if x %}\na: b.c\n", "template-syntax", 1),
    "a number without an end": ("a: {{ " + "9" * 5000 + " }}\n", "template-error", 0),
    "another line break": ("a: b\n# \x85\n", "format-break", 2),
    "a program": ("#!py\n", "renderer-unknown", 1),
}


@pytest.mark.parametrize(("text", "code", "line"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_file_is_refused(text, code, line):
    """The problem has a location, but no value of its line, which may be that of a pillar."""
    with pytest.raises(CompileError) as caught:
        format_text(text, "x.sls")

    (problem,) = caught.value.problems
    assert (problem.code, problem.location.file) == (code, "x.sls")
    assert problem.location.line >= line
    line = text.split("\n")[problem.location.line - 1]
    assert problem.text in ("", mask_line(line)) or code == "renderer-unknown"


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.sls")), ids=lambda path: path.name)
def test_the_examples_have_the_canonical_layout(path):
    """Users copy the examples."""
    text = path.read_text()

    assert format_text(text, str(path)).text == text


GOOD = "\n".join(old for old, _ in FORMS.values())
PARTS = [
    "{%",
    "%}",
    "{{",
    "}}",
    "-%}",
    "{%-",
    "{#",
    "#}",
    "if x",
    "endif",
    "else",
    "for i in x",
    "endfor",
    "raw",
    "macro m()",
    "- ",
    ": ",
    ":",
]
WILD = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([*PARTS, "\n", "  ", "a", "|", ">", "'", '"', "[", "&a ", "\t"])).map("".join),
)


def never_raises(text):
    """Check that formatting returns a stable text or raises `CompileError`."""
    try:
        result = format_text(text, "x.sls").text
    except CompileError:
        return
    assert format_text(result, "x.sls").text == result
    assert re.sub("[ \t\r\n]", "", result) == re.sub("[ \t\r\n]", "", text)


@given(WILD)
def test_random_text_never_raises(text):
    """Any text is formatted or refused."""
    never_raises(text)


@given(st.data())
def test_random_edits_of_valid_files_never_raise(data):
    """Each edit removes and inserts some characters."""
    text = data.draw(st.sampled_from([GOOD, *(old for old, _ in FORMS.values()), *(old for old, _ in KEPT.values())]))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        text = text[:start] + data.draw(WILD) + text[start + data.draw(st.integers(0, 8)) :]
    never_raises(text)
