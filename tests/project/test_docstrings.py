"""The docstring of a function begins with a verb. Ruff refuses articles; these tests refuse other noun phrases."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("agent", "bench", "resources", "src", "states", "tests")
VALUES = {"property", "cached_property", "fixture"}
"""Decorators of functions that are used like values."""
NOUN = re.compile(
    r"(an?|all|any|both|content|data|each|every|how|like|no|one|only|path|result|some|text|that|the|this|what|when"
    r"|where|whether|which|why|\w*[^s\W]s)\b|\W",
    re.IGNORECASE,
)
"""The beginning of a noun phrase or a clause: such a word, a plural, or code."""
PERHAPS = re.compile(
    rf"^(?!\s*class\b).*:(?:\s*#.*)?\n\s*[rR]?\"\"\"\s*(?:{NOUN.pattern})", re.MULTILINE | re.IGNORECASE
)
"""Each text with such a docstring matches this; others are not parsed, which would take seconds."""


def decorators(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the last part of the name of each decorator."""
    calls = (node.func if isinstance(node, ast.Call) else node for node in function.decorator_list)
    return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in calls}


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements below a node. Their expressions, most of a syntax tree, are left out: they take seconds."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        below = getattr(node, field, None)
        for child in below if isinstance(below, list) else ():
            if isinstance(child, ast.stmt):
                yield child
            yield from statements(child)


def offenders(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the docstring of each function that returns a value and is not described by a verb."""
    for node in statements(ast.parse(source)) if PERHAPS.search(source) else ():
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or decorators(node) & VALUES:
            continue
        returns = node.returns is not None and not (isinstance(node.returns, ast.Constant) and not node.returns.value)
        described = (ast.get_docstring(node) or "").partition("\n")[0]
        if returns and NOUN.match(described):
            yield node.lineno, described


def test_functions_are_described_by_a_verb():
    """No function of the project that returns a value is described by a noun phrase."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {described}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, described in offenders(path.read_text())
    ]

    assert not found, "begin the docstring of a function with a verb: `Return the nearest name.`"


@pytest.mark.parametrize(
    ("described", "accepted"),
    [
        ("Return the names.", True),
        ("Pass all requests on.", True),
        ("Whether it is there.", False),
        ("Names of all files.", False),
        ("`a` as `b`.", False),
    ],
)
def test_the_first_word_decides(described, accepted):
    """An article, a question word, a plural and code are no verbs."""
    source = f'def names() -> list[str]:\n    """{described}"""\n'

    assert list(offenders(source)) == ([] if accepted else [(1, described)])


def test_a_property_is_described_by_a_noun_phrase():
    """Properties and functions without a result may begin with any word."""
    assert not list(
        offenders('@property\ndef name() -> str:\n    """The name."""\ndef end() -> None:\n    """The end."""')
    )
