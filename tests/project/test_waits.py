"""All waits in the tests have the same deadline, because a short one fails on a busy machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
WAITS = {"timeout": 0, "wait": 0, "join": 0, "settimeout": 0, "wait_for": 1, "communicate": None}
"""Function that waits -> position of its timeout."""
PERHAPS = re.compile(r"\.(?:timeout|wait|join|settimeout)\(\s*\d|\btimeout=\s*\d|\.wait_for\(")
"""Each text with such a wait matches this; others are not parsed, which would take seconds."""
VIRTUAL = "virtual_time"


def seconds(node: ast.AST) -> bool:
    """Return whether a node is a number that may be a deadline; below a second, tests show that nothing happens."""
    return isinstance(node, ast.Constant) and type(node.value) in {int, float} and 1 <= node.value <= 120


def short(text: str) -> Iterator[int]:
    """Yield the lines with a wait that has a deadline of its own, except in virtual time."""
    return _short(ast.parse(text), virtual=VIRTUAL in text) if PERHAPS.search(text) else iter(())


def _short(tree: ast.AST, *, virtual: bool) -> Iterator[int]:
    """Yield such lines below a node; `virtual` says whether functions may run in virtual time."""
    for node in ast.iter_child_nodes(tree):
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if virtual and function and VIRTUAL in ast.unparse(node):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WAITS:
            place = WAITS[node.func.attr]
            given = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
            given += node.args[place : place + 1] if place is not None else []
            if any(map(seconds, given)):
                yield node.lineno
        yield from _short(node, virtual=virtual)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("asyncio.timeout(20)", True),
        ("asyncio.wait_for(event.wait(), timeout=5)", True),
        ("process.wait(10)", True),
        ("asyncio.timeout(DEADLINE)", False),
        ("asyncio.wait_for(event.wait(), 0.1)", False),
        ("def test_x(virtual_time): asyncio.timeout(20)", False),
    ],
)
def test_a_deadline_of_its_own_is_found(text: str, found: bool) -> None:
    """The test finds a number of seconds, given by position or by name."""
    assert bool([*short(text)]) is found


def test_all_waits_have_the_common_deadline() -> None:
    """The deadline is `DEADLINE` of tests/support/deadline.py; the tests of the engine run in virtual time."""
    files = {path for path in TESTS.rglob("*.py") if TESTS / "engine" not in path.parents}
    found = [f"{path}:{line}" for path in sorted(files) for line in short(path.read_text())]
    assert not found, "wait with DEADLINE of tests/support/deadline.py"
