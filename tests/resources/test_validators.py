"""For any value of an argument, the kind returns a value or raises a validation error."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress

import pytest
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.meta import Meta

SCALARS = (
    None,
    True,
    False,
    0,
    -1,
    10**30,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "a",
    "~",
    "\0",
    "0",
    "²",
    "9" * 5000,
    "a: [",
    "'",
)
DATES = (dt.date(2024, 2, 3), dt.datetime(2024, 2, 3, 4, 5, 6, tzinfo=dt.UTC))
PLAIN = (*SCALARS, *DATES, b"\xff", [], {})
VALUES = (
    *PLAIN,
    *([value] for value in PLAIN),
    *({"a": value} for value in PLAIN),
    *([{"a": value}] for value in PLAIN),
    *([[value]] for value in PLAIN),
    *({value: "a"} for value in (None, True, 1, 1.5, DATES[0])),
    *([{value: "a"}] for value in (None, 1, DATES[0])),
    {"a": {"b": []}},
    ["a", {"b": ["c"], "d": {}}],
    [{"a": "b", "c": "d"}],
)


OURS = [kind for kind in registry.kinds() if kind.__module__.startswith("holdfast.")]
"""Kinds of Holdfast, without those that other tests declare."""


@pytest.mark.parametrize("model", [*OURS, Meta], ids=lambda model: getattr(model, "kind", "meta"))
def test_no_value_makes_a_validator_fall_over(model):
    """Each argument gets each shape of value; the only exception is `ValidationError`."""
    wrong = []
    for name in model.model_fields:
        for value in VALUES:
            given = {name: value} if model is Meta else {"name": "/a", name: value}
            try:
                with suppress(ValidationError):
                    model.model_validate(given)
            except Exception as error:  # noqa: BLE001 - that there is none is what this shows
                wrong.append(f"{name}: {value!r:.60}: {type(error).__name__}: {error}")
    assert wrong == []


@pytest.mark.parametrize(
    ("kind", "arguments", "told"),
    [
        ("file.directory", {"exclude_pat": ["*.log", "E@["]}, r"E@\[ is not a regular expression"),
        ("file.touch", {"user": "root"}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_work_is_refused_early(kind, arguments, told):
    """It is refused at compile time, not in the middle of a run, and no argument is accepted without effect."""
    with pytest.raises(ValidationError, match=told):
        registry.find(kind).declare("/a", **arguments)
