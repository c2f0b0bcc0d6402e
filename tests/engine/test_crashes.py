"""Agents that die at any moment: pending refreshes are delivered after the restart, and only once if no agent dies.

`SEEDS` is the number of lives as in `test_simulation.py`; here it is divided by twenty, because each life is restarted
many times.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import pytest

from extent import CI, SEEDS
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
    """Yield a pool with a process for each CPU."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_is_lost_when_agents_die_at_random_moments(block: int, processes: Executor) -> None:
    """The agent is killed or loses power.

    It may die again during its start, and continue with other states or another machine.
    """
    seeds = range(block, LIVES, BLOCKS)
    for seed, found in zip(seeds, processes.map(crashes, seeds, chunksize=2), strict=True):
        if found:
            pytest.fail(
                f"seed {seed}: {found[:5]}\nadd to test_simulated_bugs.py:\n\n{as_a_test(doomed(seed), deaths)}\n"
            )


@pytest.mark.parametrize("seed", range(4 if CI else 1))
def test_nothing_is_lost_at_any_moment_of_a_life(seed: int) -> None:
    """The agent dies after each single step that has changed the machine or the journal."""
    assert crashes(seed, None) == []


def test_no_refresh_is_delivered_twice_if_no_agent_dies(processes: Executor) -> None:
    """There are drift, swaps and regular restarts."""
    seeds = range(LIVES * 2)
    for seed, found in zip(seeds, processes.map(repeats, seeds, chunksize=25), strict=True):
        assert found == [], seed


async def nothing(*_: Any) -> None:
    """Replace a part of the journal by nothing."""


@pytest.mark.parametrize(
    ("first", "part", "name", "instead"),
    [(6, Journal, "announce", nothing), (6, Store, "secure", nothing), (2, Store, "_must_last", lambda _: False)],
)
def test_the_simulation_notices_a_journal_that_forgets(
    monkeypatch: pytest.MonkeyPatch, *, first: int, part: type, name: str, instead: object
) -> None:
    """Without the intent, a kill loses a refresh; without its flush, a loss of power does.

    A seed that is known to show it is tried first, as in `test_simulation.py`.
    """
    monkeypatch.setattr(part, name, instead)

    assert any("never told" in fault for seed in (first, *range(20)) for fault in crashes(seed))
