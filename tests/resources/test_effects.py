"""Effects: their verbs, their sentences, and what a summary counts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from holdfast.resources.effects import FORMS, Effect, further
from holdfast.resources.report import Report

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("effect", "done", "planned"),
    [
        (Effect(("create",), "group alice"), "created group alice", "would create group alice"),
        (Effect(("start", "enable"), "nginx"), "started and enabled nginx", "would start and enable nginx"),
        (Effect(("change",), "/a", "mode and user"), "changed mode and user of /a", "would change mode and user of /a"),
        (Effect(("link",), "/a", detail=" to /b"), "linked /a to /b", "would link /a to /b"),
        (Effect(("run",), "'true'"), "ran 'true'", "would run 'true'"),
    ],
)
def test_one_effect_makes_both_sentences(effect: Effect, done: str, planned: str) -> None:
    """The sentences for a repair and for noop differ only in the verb."""
    assert effect.sentence(applied=True) == done
    assert effect.sentence(applied=False) == planned


def test_another_name_can_stand_for_the_thing() -> None:
    """The log names the resource instead."""
    effect = Effect(("change",), "/etc/motd", "mode")
    assert effect.sentence(applied=False, what="file.managed[motd]") == "would change mode of file.managed[motd]"


def test_a_further_effect_continues_either_sentence() -> None:
    """`created /d, removed 3 entries`, and `would create /d, remove 3 entries`."""
    assert further("remove", "3 entries", applied=True) == ", removed 3 entries"
    assert further("remove", "3 entries", applied=False) == ", remove 3 entries"


def test_removing_a_part_is_a_change() -> None:
    """A summary counts a directory as removed only if the directory itself is gone."""
    assert Effect(("remove",), "/d").counted == "removed"
    assert Effect(("remove",), "/d", "3 entries").counted == "changed"
    assert {forms.counted for forms in FORMS.values()} == {"created", "changed", "replaced", "removed"}


def test_a_report_has_the_effect_and_its_sentence() -> None:
    """A kind reports its effect by one call."""
    report = Report()
    report.did(Effect(("remove",), "user bob"), applied=False)
    assert (report.comment, report.effect) == ("would remove user bob", Effect(("remove",), "user bob"))


def test_each_verb_is_used() -> None:
    """A verb that no kind uses is deleted."""
    used = {
        node.value
        for folder in ("resources/kinds", "resources/contract.py", "resources/composite.py", "agent/narrate.py")
        for path in ([ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
    }
    assert FORMS.keys() <= used
