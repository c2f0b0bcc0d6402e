"""The registry of codes: it has every code that the compiler can raise, no other, and the documentation lists it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.states.codes import CODES, LINT, demand_warning

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"[a-z]+(-[a-z]+)+")
RAISERS = [
    *ROOT.glob("states/**/*.py"),
    ROOT / "agent/configuration.py",
    ROOT / "agent/settings.py",
    ROOT / "agent/facts.py",
]
RAISERS += [
    ROOT / "agent/needs.py",
    ROOT / "agent/paths.py",
    ROOT / "agent/cli/options.py",
    ROOT / "agent/verbs/check.py",
]
NOT_CODES = {"salt-call", "libsystemd-shared-", "openrc-init", "opensuse-leap", "opensuse-tumbleweed"}
"""Texts with the form of a code that are not codes."""


def codes_in(path: Path) -> Iterator[str]:
    """Every text of a module that is spelled like a code; `f"{word}-shape"` stands for include, exclude and extend."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (CODE.fullmatch(node.value) or node.value in CODES)
        ):
            yield node.value
        if (
            isinstance(node, ast.JoinedStr)
            and isinstance(node.values[-1], ast.Constant)
            and node.values[-1].value == "-shape"
        ):
            yield from ("include-shape", "exclude-shape")


def raised() -> set[str]:
    """Every code in the modules that report problems."""
    return {code for path in RAISERS if path.name != "codes.py" for code in codes_in(path)} - NOT_CODES


def test_every_code_is_registered():
    """Each new code has a meaning."""
    assert raised() - CODES.keys() == set()


def test_every_registered_code_is_raised_somewhere():
    """None is left behind by what it was for."""
    assert CODES.keys() - raised() == set()


def test_every_rule_has_a_test():
    """Each code of the rules is expected by some test of this directory."""
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__))

    assert {code for code in LINT if f'"{code}"' not in texts} == set()


def test_the_page_lists_all_of_them():
    """With their meanings, warnings apart from errors; each meaning is one line that a sentence can be made of."""
    page = (ROOT / "docs/lint.md").read_text()
    warnings, _, errors = page.partition("## Errors")
    rows = {
        level: dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", part, re.MULTILINE))
        for level, part in (("warning", warnings), ("error", errors))
    }

    assert rows == {
        level: {code: known.meaning for code, known in CODES.items() if known.level == level} for level in rows
    }
    assert all(
        not known.meaning.endswith(".") and "\n" not in known.meaning and "|" not in known.meaning
        for known in CODES.values()
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("action-ungarded", "did you mean 'action-unguarded'?"),
        ("zzz", "docs/lint.md"),
        ("yaml-syntax", "an error, which cannot be ignored"),
    ],
)
def test_only_warnings_can_be_ignored(code, words):
    """A mistyped code is reported."""
    with pytest.raises(ValueError, match=re.escape(words)):
        demand_warning(code)
