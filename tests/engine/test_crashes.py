"""Agents that die at any moment: whoever waits for a change is told of it all the same; and only once where nobody dies.

`SEEDS` says how many lives there are, as in `test_simulation.py`; here it is a twentieth of that, for each is many.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import pytest

from extent import SEEDS
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Store
from simulated.crash import crashes, deaths, doomed, repeats
from simulated.minimise import as_a_test

LIVES = SEEDS // 20
BLOCKS = 10

pytestmark = pytest.mark.timeout(900)
"""Seconds: many lives take their time on a busy machine."""


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    """One for each CPU."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_is_lost_when_the_agent_dies_in_some_moments_of_many_lives(block: int, processes: Executor) -> None:
    """Killed, or without power; once, and once more while it starts again; with other states, or another machine, after it."""
    seeds = range(block, LIVES, BLOCKS)
    for seed, found in zip(seeds, processes.map(crashes, seeds, chunksize=2), strict=True):
        if found:
            pytest.fail(
                f"seed {seed}: {found[:5]}\nto be kept in test_lives_that_failed.py:\n\n"
                f"{as_a_test(doomed(seed), deaths)}\n"
            )


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_in_any_moment_of_a_life(seed: int) -> None:
    """After every single step that has changed the machine or the journal."""
    assert crashes(seed, None) == []


def test_nobody_is_told_twice_where_nobody_dies(processes: Executor) -> None:
    """Through drift, new states and restarts."""
    seeds = range(LIVES * 2)
    for seed, found in zip(seeds, processes.map(repeats, seeds, chunksize=25), strict=True):
        assert found == [], seed


async def nothing(*_: Any) -> None:
    """Instead of a part of the journal."""


@pytest.mark.parametrize(
    ("part", "name", "instead"),
    [(Journal, "announce", nothing), (Store, "secure", nothing), (Store, "_must_last", lambda _: False)],
)
def test_what_a_journal_forgets_is_noticed(
    part: type, name: str, instead: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the intent is written is what saves a refresh from a kill; that it is flushed, from a loss of power."""
    monkeypatch.setattr(part, name, instead)

    assert any("never told" in fault for seed in range(20) for fault in crashes(seed))
