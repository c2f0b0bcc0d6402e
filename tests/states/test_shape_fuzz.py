"""Documents of every shape give a result or an error with a location, never another exception."""

from __future__ import annotations

import random

import pytest

from holdfast.states.errors import CompileError
from shape_examiner import Examiner
from shape_fuzz import PARTS, Shapes

DOCUMENTS = 1000
"""The number of documents of each part; tests/fuzz/shapes.py makes any number."""


@pytest.mark.parametrize("part", PARTS)
def test_documents_of_every_shape_are_accepted_or_refused(part, tmp_path):
    """Settings, pillar, top files, state files and requests have strange values, made from their schemas."""
    examiner = Examiner(tmp_path / "x", Shapes(random.Random(part)))
    for _ in range(DOCUMENTS):
        examiner.once(part)


@pytest.mark.parametrize(
    "argument",
    [
        "timeout: .inf",
        "timeout: .nan",
        "delay: .inf",
        "rerun: .nan",
        "rerun: 0",
        "rerun: -1",
        "umask: abc",
        "umask: '99'",
        "umask: 777777777",
        "poll: .inf",
    ],
)
def test_numbers_that_a_timer_or_the_kernel_cannot_take_are_refused(argument, compile_tree):
    """The check of the state refuses them: a timer of NaN seconds would disturb all timers of the loop."""
    with pytest.raises(CompileError) as caught:
        compile_tree({"site.sls": f"a:\n  test.nop:\n    - {argument}\n"})

    (problem,) = caught.value.problems
    assert problem.code in {"argument-value", "argument-type"}
    assert problem.location.line == 3
