"""Edits of files.

For every text, a second edit changes nothing, and everything that is not declared is kept.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.file.edit import Edit
from holdfast.resources.testing import FakeContext

WORDS = [
    "a",
    "b",
    "# a",
    "a=1",
    "#a=2",
    " a = 3",
    "b=a=1",
    "ab",
    "  a",
    "aa",
    "a ",
    "# >>",
    "# <<",
    "x # <<",
    ">>",
    "#",
    "##a",
    "",
    "\t",
    "é\udcff",
    "\x0b",
    "\x85",
    "a\r",
]
TEXTS = st.one_of(
    st.builds(
        "".join, st.lists(st.builds("{}{}".format, st.sampled_from(WORDS), st.sampled_from(["\n", "\n", "\r\n", ""])))
    ),
    st.text("ab=# \n\r\t<>", max_size=30),
)
LINES = st.one_of(st.sampled_from(WORDS), st.text("ab=# \t.*", max_size=5))
PARTS = st.one_of(LINES, TEXTS)


ARGUMENTS = {
    "file.line": st.fixed_dictionaries(
        {"mode": st.sampled_from(["ensure", "insert", "replace", "delete"]), "content": LINES},
        optional={
            "match": LINES,
            "before": LINES,
            "after": LINES,
            "location": st.sampled_from(["start", "end"]),
            "indent": st.booleans(),
        },
    ),
    "file.keyvalue": st.fixed_dictionaries(
        {"key_values": st.dictionaries(LINES, LINES, min_size=1, max_size=3)},
        optional={
            "separator": st.sampled_from(["=", " = ", " ", "a", "\t"]),
            "append_if_not_found": st.booleans(),
            "prepend_if_not_found": st.booleans(),
            "count": st.integers(-1, 3),
            "uncomment": st.sampled_from(["#", "# ", "a", " "]),
            "key_ignore_case": st.booleans(),
            "value_ignore_case": st.booleans(),
        },
    ),
    "file.blockreplace": st.fixed_dictionaries(
        {
            "content": PARTS,
            "marker_start": st.sampled_from(["# >>", ">", "a", "#"]),
            "marker_end": st.sampled_from(["# <<", "<<", "aa", "a", "#"]),
        },
        optional={
            "append_newline": st.sampled_from([None, True, False]),
            "append_if_not_found": st.booleans(),
            "prepend_if_not_found": st.booleans(),
            "insert_before_match": LINES,
            "insert_after_match": LINES,
        },
    ),
    "file.comment": st.fixed_dictionaries(
        {"regex": LINES},
        optional={"char": st.sampled_from(["#", "# ", "//", "a", " #"]), "ignore_missing": st.booleans()},
    ),
    "file.uncomment": st.fixed_dictionaries(
        {"regex": LINES}, optional={"char": st.sampled_from(["#", "# ", "//", "a", " #"])}
    ),
    "file.append": st.fixed_dictionaries(
        {"text": st.lists(PARTS, min_size=1, max_size=3)}, optional={"ignore_whitespace": st.booleans()}
    ),
    "file.prepend": st.fixed_dictionaries(
        {"text": st.lists(PARTS, min_size=1, max_size=3)}, optional={"header": st.booleans()}
    ),
}


def edit(kind: str, arguments: dict[str, object]) -> Edit | None:
    """Return the resource; None if the arguments do not fit together."""
    try:
        resource = registry.find(kind).declare("/f", **arguments)
    except ValidationError:
        return None
    assert isinstance(resource, Edit)
    return resource


def edited(resource: Edit, text: str) -> str | None:
    """Return the edited text; None if the edit is refused."""
    parts = getattr(resource, "text", None) or (getattr(resource, "content", None) or "",)
    with suppress(Permanent):
        return resource.edited(text, tuple(parts))
    return None


@pytest.mark.parametrize("kind", ARGUMENTS)
@given(data=st.data())
def test_an_edit_is_done_once(kind, data):
    """For every text, a second edit changes nothing: an edit converges in one call, or is refused with the reason."""
    resource = edit(kind, data.draw(ARGUMENTS[kind], label="arguments"))
    if resource is None:
        return
    text = data.draw(TEXTS, label="text")

    once = edited(resource, text)

    assert once is None or edited(resource, once) == once


@pytest.mark.parametrize("kind", ["file.append", "file.prepend"])
def test_an_empty_file_holds_no_blank_line(kind):
    """Such a blank line would disappear with the first line that is added."""
    resource = edit(kind, {"text": ["a", "\t"]})
    assert resource is not None

    once = edited(resource, "")

    assert once is not None
    assert sorted(once.splitlines()) == ["\t", "a"]
    assert edited(resource, once) == once


def test_blank_lines_can_be_held_too():
    """The end of the last line is not a blank line, which would disappear when a line is added."""
    resource = edit("file.append", {"text": ["\n\n ", "a"]})
    assert resource is not None

    once = edited(resource, "\n\n")

    assert once == "\n\n\n\n \na\n"
    assert edited(resource, once) == once


@given(text=TEXTS, key=st.sampled_from(["a", "b", "zz"]), value=LINES)
def test_keyvalue_touches_no_other_line(text, key, value):
    """Lines with other keys are kept, byte for byte, in their order."""
    resource = edit("file.keyvalue", {"key": key, "value": value, "append_if_not_found": True})
    if resource is None:
        return

    text += "\n"

    def others(lines: str) -> list[str]:
        return [
            line for line in re.split("\n", lines.removesuffix("\n")) if line and not re.match(rf"[ \t]*{key}=", line)
        ]

    assert others(edited(resource, text) or "") == others(text)


@given(text=TEXTS, content=TEXTS, start=st.sampled_from(["# >>", ">"]))
def test_what_is_around_a_block_is_kept(text, content, start):
    """The text before the first and after the last marker is as it was."""
    resource = edit(
        "file.blockreplace",
        {"content": content, "marker_start": start, "marker_end": "# <<", "append_if_not_found": True},
    )
    if resource is None:
        return
    after = edited(resource, text)
    if after is None:
        return

    if start in text and "# <<" in text[text.index(start) :]:
        assert after[: after.index(start)] == text[: text.index(start)]
        assert after.endswith(text[text.rindex("# <<") :]) or start in text[text.rindex("# <<") :]
    else:
        assert after.startswith(text)


@pytest.mark.parametrize(
    ("kind", "arguments", "told"),
    [
        ("file.line", {"mode": "insert", "content": "x"}, "mode insert needs before, after or location"),
        ("file.line", {"mode": "ensure", "content": "x"}, "mode ensure needs before or after"),
        ("file.line", {"mode": "replace", "match": "x"}, "mode replace needs content"),
        ("file.line", {"mode": "delete"}, "mode delete needs match, or content"),
        ("file.line", {"mode": "ensure", "content": "x\ny", "after": "a"}, "it must be one line"),
        ("file.keyvalue", {}, "set either key and value, or key_values"),
        ("file.keyvalue", {"key": "a"}, "key needs value, and value needs key"),
        ("file.keyvalue", {"key": "a", "value": 1, "key_values": {"b": 1}}, "set either key and value, or key_values"),
        ("file.keyvalue", {"key": "a", "value": "1\n2"}, "values must not have a line break"),
        ("file.keyvalue", {"key": "a", "value": 1, "count": 0}, "count 0 would remove the key"),
        ("file.keyvalue", {"key_values": {"a": 1, "a=b": 2}}, "a line for 'a=b' could also be a line for 'a'"),
        ("file.comment", {"regex": "("}, "is not a regular expression: "),
        ("file.comment", {"regex": "a", "char": " "}, "cannot be a comment sign"),
        ("file.replace", {"pattern": "a", "repl": "b", "backup": "../x"}, "is not a suffix"),
        ("file.blockreplace", {"content": "x #-- end managed zone --"}, "content contains marker_end"),
        (
            "file.blockreplace",
            {"append_if_not_found": True, "prepend_if_not_found": True},
            "only one of append_if_not_found",
        ),
        ("file.blockreplace", {"source": "http://x/y"}, "source http://x/y needs a hash"),
        (
            "file.blockreplace",
            {"sources": ["salt://a"], "source_hashes": ["1", "2"]},
            "more source_hashes than sources",
        ),
        ("file.blockreplace", {"source": ["salt://a", "salt://b"]}, "source is one URL"),
        ("file.append", {}, "set either text or a source"),
        ("file.append", {"text": "x", "source": "salt://x"}, "set either text or a source"),
    ],
)
def test_declarations_that_cannot_be_meant(kind, arguments, told):
    """Such declarations are refused before anything runs, and the error says what to write."""
    with pytest.raises(ValidationError) as caught:
        registry.find(kind).declare("/f", **arguments)

    assert told in str(caught.value)


def test_a_copy_beside_follows_no_link(tmp_path):
    """A link with the name of the copy is replaced, and its target stays as it is."""
    (tmp_path / "f").write_text("a\n")
    (tmp_path / "other").write_text("mine")
    (tmp_path / "f.bak").symlink_to("other")

    asyncio.run(
        registry.find("file.replace")
        .declare(str(tmp_path / "f"), pattern="a", repl="b", backup=".bak")
        .check_apply(FakeContext(tmp_path), True)
    )

    assert ((tmp_path / "f.bak").read_text(), (tmp_path / "other").read_text()) == ("a\n", "mine")
    assert not (tmp_path / "f.bak").is_symlink()
