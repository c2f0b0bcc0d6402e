"""Silencing a warning: by a comment at its line, or by its code everywhere."""

from __future__ import annotations

import pytest

IGNORE = "# holdfast: ignore action-unguarded"
RUN = "cmd.run:\n    - name: make\n"


@pytest.mark.parametrize(
    "text",
    [
        f"x:\n  cmd.run: {IGNORE}\n    - name: make\n",
        f"x:\n  {IGNORE}\n  {RUN}",
        f"x: {IGNORE}\n  {RUN}",
        f"{IGNORE}\nx:\n  {RUN}",
        f"{IGNORE}\n# and this is why\n\nx:\n  {RUN}",
        f"# holdfast: ignore order-word, action-unguarded\nx:\n  {RUN}",
        f"# holdfast:ignore order-word action-unguarded\nx:\n  {RUN}",
        f"{{# holdfast: ignore action-unguarded #}}\nx:\n  {RUN}",
        f"{IGNORE}\nx:\n{{% if true %}}\n  {RUN}{{% endif %}}\n",
    ],
)
def test_comment_silences_what_it_stands_at(text, warnings):
    """In its line, or alone above it, and whatever is indented below."""
    assert warnings(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"# holdfast: ignore order-word\nx:\n  {RUN}",
        f"{IGNORE}\ny: test.nop\nx:\n  {RUN}",
        f"y: test.nop {IGNORE}\nx:\n  {RUN}",
        f"x:\n  {RUN}    {IGNORE}\n",
    ],
    ids=["another code", "another state", "another line", "below"],
)
def test_comment_silences_nothing_else(text, warnings):
    """A finding elsewhere stays."""
    assert [warning.code for warning in warnings(text)] == ["action-unguarded"]


def test_list_as_deep_as_its_key_belongs_to_it(warnings):
    """YAML allows such a list."""
    text = (
        "a:\n  test.nop:\n  - watch: # holdfast: ignore watch-never\n    - test: b\n"
        "    - test: c\nb: test.nop\nc: test.nop\n"
    )

    assert warnings(text) == []


def test_code_is_ignored_everywhere(warnings):
    """By name; others are reported."""
    text = f"x:\n  {RUN}y:\n  test.nop: [{{order: z}}]\n"

    assert [warning.code for warning in warnings(text, ignore=("action-unguarded",))] == ["order-word"]


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("# holdfast: ignore actoin-unguarded", "no code 'actoin-unguarded'"),
        ("# holdfast: ignore", "does not say which code"),
    ],
)
def test_comment_that_cannot_mean_anything_is_told(comment, words, warnings):
    """A mistyped code would silence nothing, without notice."""
    (warning,) = warnings(f"x: test.nop\n{comment}\n")

    assert (warning.code, warning.location.line, warning.location.column) == ("ignore-unknown", 2, 1)
    assert words in warning.message


def test_errors_cannot_be_silenced(look):
    """They are not a matter of taste."""
    report = look(
        "x: # holdfast: ignore unknown-argument\n  cmd.run:\n    - nmae: make # holdfast: ignore unknown-argument\n"
    )

    assert [error.code for error in report.errors] == ["unknown-argument"]
