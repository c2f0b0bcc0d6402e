"""Each case file has states, and the low data and the order that they compile to.

Salt 3007 gives the same, except for the differences that each file lists.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.resources.case_files import parsed
from holdfast.states.compile.order import rank

CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(Path(__file__).parent.glob("cases/*.yaml"))
    for case in parsed(path.read_text())
]


@pytest.mark.parametrize("case", CASES)
def test_states_compile_to_the_expected_low_data_and_order(case, compile_tree):
    """Low data are compared in order of their number, and the order of execution by itself."""
    compilation = compile_tree(case["files"], *case.get("sls", ()), options=case.get("options", {}))

    calls = sorted(compilation.calls, key=lambda call: rank(call.low))
    assert {call.low["__env__"] for call in calls} == {"base"}
    low = [{key: value for key, value in call.low.items() if key != "__env__"} for call in calls]
    assert json.loads(json.dumps(low)) == case["low"]
    assert [call.identity for call in compilation.calls] == case["order"]
    assert [call.position for call in compilation.calls] == list(range(len(calls)))


def test_there_are_enough_cases():
    """There are cases for every part of the language."""
    assert len(CASES) >= 100
