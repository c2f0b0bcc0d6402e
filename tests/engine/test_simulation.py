"""Lives of the engine in virtual time: random states and troubles, with what must hold checked after each step of the loop.

A seed is a life, the same each time. `SEEDS` says how many are lived: on CI twenty thousand, else a thousand. One that fails is made
as small as it gets and printed as what is to be added to `test_lives_that_failed.py`.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import pytest

from engine_bench import state
from holdfast.agent.engine import limits
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.scheduler import Scheduler
from holdfast.agent.engine.semaphores import Semaphores
from simulated.life import Life, faults, faults_of
from simulated.minimise import as_a_test, smallest
from simulated.plan import Plan, planned

SEEDS = int(os.environ.get("SEEDS", "20000" if "CI" in os.environ else "1000"))
BLOCKS = 20

pytestmark = pytest.mark.timeout(900)
"""Seconds: many lives take their time on a busy machine."""


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    """One for each CPU."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_happens_the_rules_hold_and_the_machine_ends_as_declared(block: int, processes: Executor) -> None:
    """A twentieth of the seeds."""
    seeds = range(block, SEEDS, BLOCKS)
    for seed, found in zip(seeds, processes.map(faults_of, seeds, chunksize=25), strict=True):
        if found:
            pytest.fail(f"seed {seed}: {found[:5]}\nto be kept in test_lives_that_failed.py:\n\n{as_a_test(planned(seed))}\n")


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_is_the_same_life_each_time(seed: int) -> None:
    """Down to the number of steps; another seed of what the engine does at random is another life."""
    lives = [Life(planned(seed)) for _ in range(2)]
    for life in lives:
        life.run()

    assert lives[0].trace() == lives[1].trace()
    assert len(lives[0].trace()) > 20


def never(value: object) -> Callable[..., Any]:
    """Instead of a part of the engine: the same answer whatever is asked."""
    return lambda *_, **__: value


SABOTAGE = {
    "is settled": (Scheduler, "_blocker", never(None)),
    "jumps the queue": (Scheduler, "_at_barrier", never(True)),
    "without a watch": (Scheduler, "_ready", never(True)),
    "are in the semaphore": (Semaphores, "full", never(None)),
    "noop, and yet": (Engine, "_applies", never(True)),
    "started": (limits, "take", never(0.0)),
    "again and again": (limits, "repaired", never(False)),
    "is not settled": (Engine, "_watch_failed", Engine._wait_resumed),
    "starts though nothing may": (Engine, "pause", never(None)),
}


@pytest.mark.parametrize("symptom", SABOTAGE)
def test_the_rules_find_what_is_broken(symptom: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a few hundred lives of an engine of which a part does not do its work."""
    monkeypatch.setattr(*SABOTAGE[symptom])

    assert any(symptom in fault for seed in range(400) for fault in faults_of(seed))


def test_what_fails_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left can be read at a glance, and still fails when it is read back."""
    monkeypatch.setattr(Semaphores, "full", never(None))
    plan = next(plan for plan in map(planned, range(400)) if any("semaphore" in fault for fault in faults(plan)))
    least = smallest(plan, lambda plan: any("semaphore" in fault for fault in faults(plan)))

    assert len(least.states) + sum(len(trouble) for trouble in least.troubles) <= 10
    assert eval(str(least), {"Plan": Plan, "state": state}) == least
