"""IDs of records, which sort by time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.records.ids import DIGITS, LENGTH, TimeIds, first_id_of

TIMES = st.floats(0, 15e9)


@given(st.lists(TIMES, min_size=2, max_size=20))
def test_ids_of_one_process_always_grow(times: list[float]) -> None:
    """Also if the clock is set back, and at equal times."""
    ids = TimeIds(agent=True)
    found = [ids.new(at) for at in times]

    assert found == sorted(set(found))
    assert all(len(each) == LENGTH and set(each) <= set(DIGITS) for each in found)


@given(TIMES, TIMES)
def test_ids_of_two_processes_sort_by_time(first: float, second: float) -> None:
    """An agent and a one-shot run give different IDs at the same time."""
    one, other = TimeIds(agent=True).new(first), TimeIds(agent=False).new(second)

    assert one != other
    if abs(first - second) > 1e-3:
        assert (one < other) == (first < second)
        assert (first_id_of(first) < other) == (first < second)
    assert first_id_of(first) <= one


@pytest.mark.parametrize("strange", ["", "x", "not-an-id", "iiiiiiiiiiii", "1" * 13])
def test_ids_continue_after_what_is_no_id(strange: str) -> None:
    """A record with another ID does not matter."""
    ids = TimeIds(agent=True)
    ids.begin_after(strange)

    assert ids.new(5.0) == TimeIds(agent=True).new(5.0)


@given(st.lists(TIMES, min_size=1, max_size=5), st.lists(TIMES, max_size=5), TIMES)
def test_ids_that_were_given_early_follow_the_last_one_of_the_database(
    early: list[float], late: list[float], known: float
) -> None:
    """The IDs of a run begin before it has opened the database, whose last ID may come from a false time."""
    ids, last = TimeIds(agent=True, early=True), TimeIds(agent=False).new(known)
    given_early = [ids.new(at) for at in early]
    ids.begin_after("", last)
    found = [*map(ids.final, given_early), *(ids.final(ids.new(at)) for at in late)]

    assert [last, *found] == sorted({last, *found})
    assert all(len(each) == LENGTH for each in found)
