"""Runs each `tests/cases/<kind>/<behaviour>.yaml`; `resources/kind_testing.py` describes these files."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.resources.builtin import KIND_MODULES
from holdfast.resources.case_files import CaseFailed
from holdfast.resources.kind_testing import run_case

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.yaml"))
WITH_INTERFACE = ("group", "pip", "pkg", "pkgrepo", "service", "systemd_unit", "user", "virtualenv")
"""Families of kinds that use an interface."""


@pytest.mark.parametrize("case", CASES, ids=[f"{path.parent.name}-{path.stem}" for path in CASES])
def test_case(case, tmp_path):
    """The result is as expected, nothing changes without `apply`, and the second run finds no difference."""
    tmp = tmp_path / "world"
    tmp.mkdir()

    run_case(case, tmp)


def test_every_kind_has_a_case():
    """Kinds that use an interface need one in memory: tests/interfaces/test_kinds.py, resources/test_pkgrepo.py."""
    kinds = {kind for kind in KIND_MODULES if kind.partition(".")[0] not in WITH_INTERFACE}

    without = kinds - {path.parent.name for path in CASES}
    assert not without, "add tests/cases/<kind>/<behaviour>.yaml; resources/kind_testing.py describes these files"


def declaring_mode(tmp_path, mode, result):
    """Return a case of file.managed with this mode and this result, and an empty directory for its run."""
    case, world = tmp_path / "file.managed" / "mode.yaml", tmp_path / "world"
    case.parent.mkdir()
    world.mkdir()
    case.write_text(f"declared: {{name: '{{tmp}}/f', mode: {mode}}}\nwanted: {{result: {result}}}\n")
    return case, world


def test_a_case_may_expect_that_an_argument_is_refused(tmp_path):
    """The result is the reason, or a part of it, after the name of the argument."""
    run_case(*declaring_mode(tmp_path, "odd", "'mode: '"))


@pytest.mark.parametrize("result", ["changed", "another reason"])
def test_a_refused_argument_that_a_case_does_not_expect_is_reported(tmp_path, result):
    """The message has the reason."""
    with pytest.raises(CaseFailed, match=r"checking the arguments: wanted '.*', got .mode: .*odd"):
        run_case(*declaring_mode(tmp_path, "odd", result))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("{result: right}", "the result without apply: wanted 'right', got 'changed'"),
        ("{result: changed, changes: {mode: '0600'}}", "the changes of the run"),
        ("{result: changed, calls: [ls]}", "the calls of the run"),
        ("{result: changed, files: {'{tmp}/f': other}}", "/f afterwards"),
    ],
)
def test_a_case_that_fails_is_reported(tmp_path, wrong, told):
    """The runner notices a wrong result, wrong changes, wrong calls and wrong files."""
    case = tmp_path / "file.managed" / "wrong.yaml"
    case.parent.mkdir()
    case.write_text(f"declared: {{name: '{{tmp}}/f', contents: x}}\nwanted: {wrong}\n")
    world = tmp_path / "world"
    world.mkdir()

    with pytest.raises(CaseFailed, match=told):
        run_case(case, world)
