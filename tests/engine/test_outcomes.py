"""The outcomes of resources that do not run."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest

from holdfast.agent.engine.model.failure import Failure
from holdfast.agent.engine.model.outcome import Outcome, Result, result_of

IMPORTED = time.time()


class Place(NamedTuple):
    """A resource with its place in the order of execution."""

    identity: str = "a.b[c]"
    position: int = 3
    location: tuple[str, int, int] = ("web.sls", 12, 1)


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (Outcome.skipped(Place(), "onlyif", "onlyif condition is false", "start"), "skipped"),
        (Outcome.skipped(Place(), "requisite_failed", "", "start", because=("d.e[f]",)), "skipped"),
        (Outcome.failed(Place(), "cannot watch"), "failed"),
        (Outcome.failed(Place(), "a bug", ran=True, failure=Failure(temporary=True)), "failed"),
    ],
)
def test_an_outcome_without_an_attempt_names_its_resource_and_time(outcome: Outcome, result: Result) -> None:
    """Each constructor fills in what all such outcomes have in common; none of them counts as a change."""
    assert (outcome.identity, outcome.position) == Place()[:2]
    assert result_of(outcome) == result
    assert IMPORTED <= outcome.started <= time.time()
    assert not outcome.changed


def test_a_skipped_resource_fails_only_if_one_that_it_requires_failed() -> None:
    """A failure of a required resource blocks it, and all that require it."""
    blocked = Outcome.skipped(Place(), "requisite_failed", "", "start")
    assert blocked.result is False
    assert blocked.blocked
    assert Outcome.skipped(Place(), "onchanges", "", "start").result is True


def test_an_unknown_outcome_is_neither_a_change_nor_a_success() -> None:
    """In noop, the effect of another resource may not be known yet."""
    unknown = Outcome.unknown(Place(), "unknown until d.e[f] has run", "start")
    assert (unknown.result, unknown.changed, unknown.undecided) == (None, False, True)
