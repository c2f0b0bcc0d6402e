"""Results of functions as text: one line for each name, complete, and safe to print."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast.agent.cli.call_results import lines

AT = time.mktime((2026, 11, 23, 9, 8, 7, 0, 0, -1))
STATUS = {"name": "ssh", "exists": True, "active": False, "state": "dead", "enabled": None, "pid": 7, "since": AT}
NOTHING: dict[str, Any] = {"changes": {}, "comment": "", "reboot_required": False}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"ssh": STATUS}, ["ssh: exists, not active, state dead, pid 7, since 2026-11-23 09:08:07"]),
        ({"bash": [{"name": "bash", "version": "5"}, {"name": "bash", "version": "6"}]},
         ["bash: version 5; version 6"]),
        ({"a": None, "b": "1", "c": ["x", "y"], "d": [], "e": ""}, ["a: none", "b: 1", "c: x, y", "d: none", 'e: ""']),
        ({"bob": {"name": "bob", "extra": {"date": 3, "expire": None}}}, ["bob: date 3"]),
        ({"a": {"name": "a"}}, ["a: {}"]),
        ({}, ["nothing"]),
        ([], ["nothing"]),
        (["a", "b"], ["a", "b"]),
        (-1, ["-1"]),
        (None, ["none"]),
        (True, ["true"]),
        ("", ['""']),
        ("one\ntwo", ["one", "two"]),
        ({"a\x1b[31m": "b\nc"}, ["a\\x1b[31m: b c"]),
    ],
)  # fmt: skip
def test_each_name_is_a_line(result: Any, text: list[str]) -> None:
    """Fields without a value are left out; control characters are escaped."""
    assert list(lines(result)) == text


def test_change_sets_are_changes_with_old_and_new() -> None:
    """With `test`, the text says that nothing was changed."""
    changes = {"nginx": {"old": "", "new": "1.22"}, "apache": {"old": "2", "new": ""}, "other": {"size": 5}}
    whole = {"changes": changes, "comment": "done in one transaction", "reboot_required": True}

    assert list(lines(whole)) == [
        "nginx: none -> 1.22",
        "apache: 2 -> none",
        "other: size 5",
        "done in one transaction",
        "a reboot is required",
    ]
    assert next(iter(lines(whole, test=True))) == "would change nginx: none -> 1.22"
    assert list(lines(NOTHING)) == ["nothing was changed"]
    assert list(lines(NOTHING, test=True)) == ["nothing would be changed"]
