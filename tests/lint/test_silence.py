"""A comment silences warnings at its line; a code in the settings silences them everywhere."""

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
    """A comment applies to its line or, alone on a line, to the next one and all lines indented below that."""
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
    """Warnings about other lines remain."""
    assert [warning.code for warning in warnings(text)] == ["action-unguarded"]


def test_list_as_deep_as_its_key_belongs_to_it(warnings):
    """YAML allows a list with the indentation of its key."""
    text = (
        "a:\n  test.nop:\n  - watch: # holdfast: ignore watch-never\n    - test: b\n"
        "    - test: c\nb: test.nop\nc: test.nop\n"
    )

    assert warnings(text) == []


def test_code_is_ignored_everywhere(warnings):
    """The report omits warnings with an ignored code, and has all others."""
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
    """The rule reports a comment with an unknown code, which would silence nothing."""
    (warning,) = warnings(f"x: test.nop\n{comment}\n")

    assert (warning.code, warning.location.line, warning.location.column) == ("ignore-unknown", 2, 1)
    assert words in warning.message


def test_errors_cannot_be_silenced(look):
    """A comment or a setting has no effect on errors."""
    report = look(
        "x: # holdfast: ignore unknown-argument\n  cmd.run:\n    - nmae: make # holdfast: ignore unknown-argument\n"
    )

    assert [error.code for error in report.errors] == ["unknown-argument"]
