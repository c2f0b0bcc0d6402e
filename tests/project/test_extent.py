"""The number of cases that the tests try outside CI."""

from __future__ import annotations

import pytest

import extent


def test_outside_ci_each_case_is_tried_in_some_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample is a part of the cases, and all samples together are all cases."""
    monkeypatch.setattr(extent, "CI", False)
    cases = range(100)
    samples = {tuple(extent.sample(cases, 7)) for _ in range(1000)}

    assert {len(sample) for sample in samples} == {14, 15}
    assert {case for sample in samples for case in sample} == {*cases}


def test_on_ci_all_cases_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """On CI, the sample is all cases."""
    monkeypatch.setattr(extent, "CI", True)
    assert extent.sample(range(100), 7) == range(100)
