"""Kinds declare the verbs of their effects; the data cases check the kinds that they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.resources import registry
from holdfast.resources.case_files import CaseFailed
from holdfast.resources.contract import Resource
from holdfast.resources.delta import State, compare
from holdfast.resources.effects import FORMS
from holdfast.resources.kind_testing import run_case
from holdfast.resources.kinds._packages import Packages, _effect

ARGUMENTS: dict[str, dict[str, Any]] = {
    "service.running": {"enable": True},
    "service.dead": {"enable": False},
    "user.present": {"uid": 5, "shell": "/bin/sh"},
    "group.present": {"gid": 5},
}
"""Kind -> arguments by which several of its fields differ."""


@pytest.mark.parametrize("family", ["service", "user", "group"])
def test_repairs_report_only_declared_verbs(family: str) -> None:
    """Whatever differs, alone or together with everything else, has an effect with declared verbs."""
    for function in registry.functions(family):
        cls = registry.find(f"{family}.{function}")
        assert cls is not None
        resource = cls.declare("x", **ARGUMENTS.get(cls.kind, {}))
        wanted = resource.desired()
        states: list[State] = [{"name": "x"}] if wanted is None else [{key: object() for key in wanted}]
        states += [{**(wanted or {}), key: object()} for key in wanted or ()]
        states += [] if family == "service" or wanted is None else [None]

        for before in states:
            delta = compare(before, wanted)
            assert delta is not None
            assert {*resource.effect(delta).verbs} <= {*cls.effect_verbs}, (cls.kind, before)


TRANSACTION = {"install": ("", "1"), "change": ("1", "2"), "remove": ("1", "")}
HOLDS = {"hold": ("", "hold"), "release": ("hold", "")}
"""Verb -> the old and new state of a package."""


def test_kinds_of_packages_declare_the_verbs_of_a_transaction() -> None:
    """A transaction also installs and removes packages other than those of the state; a hold changes none."""
    kinds = [registry.find(f"pkg.{function}") for function in registry.functions("pkg")]
    declared = {cls.kind: {*cls.effect_verbs} for cls in kinds if cls is not None and issubclass(cls, Packages)}

    assert declared == {kind: HOLDS.keys() if kind == "pkg.held" else TRANSACTION.keys() for kind in declared}
    assert {"pkg.held", "pkg.installed", "pkg.removed"} <= declared.keys()


@pytest.mark.parametrize(("verb", "states"), [*TRANSACTION.items(), *HOLDS.items()])
def test_a_changed_package_has_the_effect_of_its_states(verb: str, states: tuple[str, str]) -> None:
    """The verb depends on the state before and after."""
    assert _effect("tiny", *states).verbs == (verb,)


def test_all_declared_verbs_are_verbs_of_effects() -> None:
    """A kind cannot declare another verb."""
    assert {verb for cls in registry.kinds() for verb in cls.effect_verbs} <= FORMS.keys()


def test_a_case_fails_if_the_kind_reports_another_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verbs that a case reports must be declared."""
    touch: type[Resource] | None = registry.find("file.touch")
    assert touch is not None
    monkeypatch.setattr(touch, "effect_verbs", ("remove",))
    case = tmp_path / "file.touch/new.yaml"
    case.parent.mkdir()
    case.write_text('why: x\ndeclared: {name: "{tmp}/f"}\nwanted: {result: changed}\n')
    (tmp_path / "host").mkdir()

    with pytest.raises(CaseFailed, match=r"verbs that the kind does not declare: wanted set\(\), got \{'create'\}"):
        run_case(case, tmp_path / "host")
