"""`event.*` and `environ.setenv`: refused arguments, and the refresh."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from holdfast.resources.kinds.environ import SetEnv
from holdfast.resources.kinds.event import Wait
from holdfast.resources.testing import FakeContext


@pytest.mark.parametrize("apply", [True, False])
async def test_a_change_of_a_watched_state_sends_the_event(tmp_path, apply):
    """The event has the data, and a word that says what was done."""
    ctx = FakeContext(tmp_path)

    assert not await Wait.declare("a/b", data=[1]).refresh(ctx, apply)
    assert ctx.report.changes == {"tag": "a/b", "data": [1]}
    assert ctx.report.comment == ("sent event a/b" if apply else "would send event a/b")


@pytest.mark.parametrize("tag", ["", " ", "a\nb", "a\0b"])
def test_a_tag_is_one_line(tag):
    """A tag appears in the log and in a record."""
    with pytest.raises(ValidationError, match="one line that is not empty"):
        Wait.declare(tag)


@pytest.mark.parametrize(
    ("name", "value"), [("A=B", "x"), ("A\0", "x"), ("A", "x\0"), ("A", {"B=": "x"}), ("A", {"": "x"}), ("A", ["x"])]
)
def test_variables_that_no_process_can_have_are_refused(name, value):
    """An equals sign in the name, or a NUL character, would make another variable, or none."""
    with pytest.raises(ValidationError):
        SetEnv.declare(name, value=value)


def test_false_is_empty_or_none():
    """As in Salt, `false` gives an empty or no variable; a number becomes text."""
    assert SetEnv.declare("A", value=False).variables() == {"A": ""}
    assert SetEnv.declare("A", value=False, false_unsets=True).variables() == {"A": None}
    assert SetEnv.declare("x", value={"A": 1, "B": False}).variables() == {"A": "1", "B": ""}
