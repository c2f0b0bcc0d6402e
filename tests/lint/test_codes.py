"""The registry of codes has every code that the compiler can raise and no other, and `holdfast doc codes` lists it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.states.codes import CODES, LINT, demand_warning
from holdfast_process import in_process

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"[a-z]+(-[a-z]+)+")
RAISERS = [
    *ROOT.glob("states/**/*.py"),
    ROOT / "agent/configuration.py",
    ROOT / "agent/settings.py",
    ROOT / "agent/facts.py",
]
RAISERS += [
    ROOT / "agent/function_check.py",
    ROOT / "agent/paths.py",
    ROOT / "agent/cli/options.py",
    ROOT / "agent/verbs/check.py",
    *ROOT.glob("agent/idl/*.py"),
    ROOT / "agent/cli/packages.py",
]
NOT_CODES = {"salt-call", "libsystemd-shared-", "openrc-init", "opensuse-leap", "opensuse-tumbleweed", "holdfast-idl"}
"""Texts with the form of a code that are not codes."""


def codes_in(path: Path) -> Iterator[str]:
    """Yield every text of a module that is spelled like a code.

    `f"{word}-shape"` stands for include, exclude and extend.
    """
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
    """Return every code in the modules that report problems."""
    return {code for path in RAISERS if path.name != "codes.py" for code in codes_in(path)} - NOT_CODES


def test_every_code_is_registered():
    """Each code has a level and a meaning."""
    assert raised() - CODES.keys() == set()


def test_every_registered_code_is_raised_somewhere():
    """A code without a use is removed."""
    assert CODES.keys() - raised() == set()


def test_every_rule_has_a_test():
    """Some test of this directory expects each code of a rule."""
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__))

    assert {code for code in LINT if f'"{code}"' not in texts} == set()


def test_doc_codes_lists_all_of_them():
    """The text has each code with its meaning, the JSON also its level."""
    text = in_process("doc", "codes", check=0).stdout
    listed = dict(re.findall(r"^  ([a-z-]+) +(.*)$", text, re.MULTILINE))

    assert listed == {code: known.meaning for code, known in CODES.items()}
    assert json.loads(in_process("doc", "codes", "--format", "json", check=0).stdout) == {
        code: known._asdict() for code, known in CODES.items()
    }


def test_each_meaning_is_one_sentence_without_a_full_stop():
    """Other texts contain the meaning."""
    assert all(not known.meaning.endswith(".") and "\n" not in known.meaning for known in CODES.values())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("action-ungarded", "did you mean 'action-unguarded'?"),
        ("zzz", "`holdfast doc codes` lists them"),
        ("yaml-syntax", "an error, which cannot be ignored"),
    ],
)
def test_only_warnings_can_be_ignored(code, words):
    """A mistyped code is reported."""
    with pytest.raises(ValueError, match=re.escape(words)):
        demand_warning(code)
