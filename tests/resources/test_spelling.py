"""Suggestions for mistyped words: one function for all messages, with two named similarities."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from holdfast.resources.fields import demand_unit
from holdfast.resources.spelling import SURE, nearest
from holdfast.states.codes import demand_warning
from holdfast.states.declare.salt_hints import meant_argument

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("word", "words", "expected"),
    [
        ("instaled", ["installed", "removed"], "installed"),
        ("xyz", ["installed", "removed"], None),
        ("installed", [], None),
    ],
)
def test_the_most_similar_word_is_found(word: str, words: list[str], expected: str | None) -> None:
    """A word that is similar to none has no suggestion."""
    assert nearest(word, words) == expected


def test_a_less_similar_word_is_suggested_but_is_not_sure() -> None:
    """`watch` might mean `path`; a caller that needs certainty gets no suggestion."""
    assert nearest("path", ["watch"]) == "watch"
    assert nearest("path", ["watch"], SURE) is None


def test_an_argument_of_every_state_is_suggested_only_if_it_is_surely_meant() -> None:
    """There are many such arguments, so a less similar one would be suggested by accident."""
    assert meant_argument("requre", "file.managed", ["mode"], ["require", "watch"]) == "require"
    assert meant_argument("path", "test.nop", ["mode"], ["require", "watch"]) is None


def test_messages_suggest_the_nearest_word() -> None:
    """The messages are about a code of `check` and a suffix of a unit."""
    with pytest.raises(ValueError, match="did you mean 'requisite-empty'"):
        demand_warning("requisite-emty")
    with pytest.raises(ValueError, match=r"did you mean backup\.timer"):
        demand_unit("backup.timr")


def test_no_other_module_looks_for_similar_words() -> None:
    """Only `resources/spelling.py` calls `get_close_matches`."""
    found = [
        str(path.relative_to(ROOT))
        for folder in ("agent", "states", "resources")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "get_close_matches" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Attribute, ast.alias)) and "get_close_matches" in ast.dump(node)
    ]
    assert found == ["resources/spelling.py"]
