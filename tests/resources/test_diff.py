"""Diffs of text: lines end at line feeds, whatever else is in them."""

from __future__ import annotations

import difflib

import pytest

from holdfast.resources.diff import unified


def test_only_line_feeds_end_a_line():
    """A form feed or a carriage return in a line is part of it, and shown so."""
    diff = unified(b"a\x0cb\r\nc\rd\n", b"a\x0cB\r\nc\rd\n", "/f")
    assert diff.split("\n") == ["--- /f", "+++ /f", "@@ -1,2 +1,2 @@", "-a\x0cb\r", "+a\x0cB\r", " c\rd", ""]


def test_a_missing_last_line_feed_is_said():
    """The diff has the same line as that of diff(1)."""
    assert unified(b"", b"x", "/f").endswith("+x\n\\ No newline at end of file\n")


@pytest.mark.parametrize("text", ["a\n", "a\nb\n", "\n", "a\x0cb\r\nc\n", "x\n" * 3000])
def test_the_diff_of_a_new_file_is_that_of_difflib(text: str) -> None:
    """It is made without difflib, which would take as long as writing the file."""
    assert unified(b"", text.encode(), "/f") == "".join(
        difflib.unified_diff([], [f"{line}\n" for line in text.split("\n")[:-1]], "/f", "/f")
    )
