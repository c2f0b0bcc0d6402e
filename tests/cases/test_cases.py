"""Every `tests/cases/<kind>/<behaviour>.yaml`; what such a file says is told in `resources/testing.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.resources.testing import CaseFailed, run_case

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.yaml"))


@pytest.mark.parametrize("case", CASES, ids=[f"{path.parent.name}-{path.stem}" for path in CASES])
def test_case(case, tmp_path):
    """The case comes out as it says, changes nothing without apply, and is clean the second time."""
    tmp = tmp_path / "world"
    tmp.mkdir()

    run_case(case, tmp)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("{result: right}", "the result without apply: wanted 'right', got 'changed'"),
        ("{result: changed, changes: {mode: '0600'}}", "the changes of the run"),
        ("{result: changed, calls: [ls]}", "the calls of the run"),
        ("{result: changed, files: {'{tmp}/f': other}}", "/f afterwards"),
    ],
)
def test_a_case_that_does_not_come_out_is_told(tmp_path, wrong, told):
    """The runner itself notices a wrong result, wrong changes, wrong calls, wrong files."""
    case = tmp_path / "file.managed" / "wrong.yaml"
    case.parent.mkdir()
    case.write_text(f"declared: {{name: '{{tmp}}/f', contents: x}}\nwanted: {wrong}\n")
    world = tmp_path / "world"
    world.mkdir()

    with pytest.raises(CaseFailed, match=told):
        run_case(case, world)
