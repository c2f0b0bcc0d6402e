"""Simulated lives of the engine in virtual time: random states and troubles, and rules checked after each step.

A seed determines a life. `SEEDS` is the number of lives: on CI twenty thousand, otherwise a thousand. A life that fails
is minimised and printed; add it to `test_simulated_bugs.py`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import pytest

from engine_bench import state
from extent import CI, SEEDS
from fake_machine import Setting
from holdfast.agent.engine.decide.done import Done
from holdfast.agent.engine.deliver.deliveries import Deliveries
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.tables import Reversal
from holdfast.agent.engine.deliver.transfer import Prepared, Transfers
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.execute.reversals import Reversals
from holdfast.agent.engine.execute.runner import Runner
from holdfast.agent.engine.execute.watch_handler import WatchHandler
from holdfast.agent.engine.inspect.census import Census
from holdfast.agent.engine.model.autoedges import AutoEdges
from holdfast.agent.engine.model.batch import Batch
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule import limits
from holdfast.agent.engine.schedule.blockers import Blockers
from holdfast.agent.engine.schedule.definition_order import DefinitionOrder
from holdfast.agent.engine.schedule.reservations import Reservations
from holdfast.agent.engine.schedule.scheduler import Scheduler
from holdfast.agent.engine.schedule.semaphores import Semaphores
from holdfast.agent.engine.schedule.sequences import Sequences
from holdfast.agent.engine.watch.backgrounds import BackgroundTasks, SharedTask
from holdfast.resources.traits import Declaration, Member
from simulated.life import digest, faults, faults_of
from simulated.minimise import as_a_test, smallest
from simulated.plan import Plan, planned

BLOCKS = 20
COMPARED = 100 if CI else 20
"""Lives that are repeated in another process."""

pytestmark = pytest.mark.timeout(900)
"""Seconds: many lives take their time on a busy machine."""


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    """Yield a pool with a process for each CPU."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_happens_the_rules_hold_and_the_machine_ends_as_declared(block: int, processes: Executor) -> None:
    """Each block is a twentieth of the seeds."""
    seeds = range(block, SEEDS, BLOCKS)
    for seed, found in zip(seeds, processes.map(faults_of, seeds, chunksize=25), strict=True):
        if found:
            pytest.fail(f"seed {seed}: {found[:5]}\nadd to test_simulated_bugs.py:\n\n{as_a_test(planned(seed))}\n")


def test_a_seed_is_the_same_life_each_time() -> None:
    """The same is done and reported in another process, with other hashes, and after other lives: in reverse order."""
    code = f"from simulated.life import digest\nfor seed in reversed(range({COMPARED})): print(digest(seed))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": str(random.randrange(1, 1000))},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == [digest(seed) for seed in range(COMPARED)][::-1]


def never(value: object) -> Callable[..., Any]:
    """Replace a part of the engine: return the same answer to every call."""
    return lambda *_, **__: value


async def nothing(*_: Any) -> None:
    """Replace an awaited part: do nothing."""


async def for_ever(*_: Any) -> None:
    """Replace an awaited part: never return."""
    await asyncio.Event().wait()


async def no_edges(*_: Any) -> Mapping[int, tuple[int, ...]]:
    """Find no automatic edges."""
    return {}


async def alone_and_mixed_up(_: Batch, __: Member, alone: Callable[[], Awaitable[Any]]) -> str:
    """Report the result of a batch member as that of another member."""
    await alone()
    return "another"


def called(*, new: bool) -> Callable[..., Prepared | Outcome]:
    """Report every received value as new, or as old."""

    def prepare(self: Transfers, vertex: Vertex, *, real: bool) -> Prepared | Outcome:
        prepared = PREPARE(self, vertex, real=real)
        if isinstance(prepared, Outcome):
            return prepared
        return prepared._replace(
            values={argument: got._replace(changed=new) for argument, got in prepared.values.items()}
        )

    return prepare


def publishes_in_silence(self: Transfers, vertex: Vertex) -> list[Vertex]:
    """Notify no receiver of a new value."""
    PUBLISH(self, vertex)
    return []


async def remembers_what_is_to_be(self: Reversals, vertex: Vertex, resource: Any) -> None:
    """Record the declared content instead of the previous one."""
    await resource.inverse(vertex.ctx)
    self._journal.remember(
        Reversal(
            vertex.identity, resource.name, Declaration("zsetting.present", {"name": resource.name, "value": "right"})
        )
    )


def undone_before_it_runs(self: Runner, vertex: Vertex) -> None:
    """Forget a reversal before it has run."""
    if self._reversals.holds(vertex):
        self._scheduler.remove([vertex])
    START(self, vertex)


def keeps_no_list(self: Deliveries, vertex: Vertex, outcome: Outcome, **how: bool) -> list[Vertex]:
    """Notify listeners without writing that down."""
    before = set(self._behind)
    told = TELL(self, vertex, outcome, **how)
    self._behind = before
    return told


TELL = Deliveries.tell
PREPARE, PUBLISH, START, SEND = Transfers.prepare, Transfers.publish, Runner.start, Journal.send

SABOTAGE = [
    (0, "is settled", Blockers, "of", never(None)),
    (1, "jumps the queue", DefinitionOrder, "lets_start", never(True)),
    (0, "without a watch", Scheduler, "_ready", never(True)),
    (86, "are in the semaphore", Semaphores, "full", never(None)),
    (0, "noop, and yet", Policy, "applies", never(True)),
    (0, "noop, and yet", Policy, "applies", lambda self, _: not self.options.noop),
    (0, "started", limits, "take", never(0.0)),
    (42, "again and again", limits, "repaired", never(False)),
    (0, "is not settled", WatchHandler, "interrupt", for_ever),
    (4, "starts though nothing may", Engine, "pause", never(None)),
    (58, "is settled", AutoEdges, "find", no_edges),
    (11, "has not said", Journal, "send", lambda self, who, values: SEND(self, who, self._sent.get(who, values))),
    (95, "has not heard", Transfers, "publish", publishes_in_silence),
    (10, "as new", Transfers, "prepare", called(new=True)),
    (1, "as old", Transfers, "prepare", called(new=False)),
    (15, "starts with the line", SharedTask, "_lose", never(None)),
    (0, "the line is up", BackgroundTasks, "prune", nothing),
    (1, "took what is another's", Batch, "join", alone_and_mixed_up),
    (0, "tells of nothing, and did", Setting, "changes", never({})),
    (13, "which it was not", Reversals, "remember", remembers_what_is_to_be),
    (13, "is not undone", Runner, "start", undone_before_it_runs),
    (1, "is asked again what was before", Reversals, "wanted", lambda _, vertex: vertex.call.meta.reverse),
    (24, "which begins a sequence", Sequences, "blocker", never(None)),
    (19, "starts while a call changes", Reservations, "covers", never(False)),
    (173, "begins to change its setting", Engine, "_runs_end", nothing),
    (99, "is overdue", Done, "until_rerun", never(1e6)),
    (0, "again for no reason", Journal, "done_at", never(None)),
    (0, "and counted as", Census, "note", never(None)),
    (0, "and known only of others", Deliveries, "tell", keeps_no_list),
]
"""What the rules say of an engine in which a part does not do its work: the part, and what it does instead.

The number is the seed of a life that shows it, which is tried first: most of the time of a search is for other lives.
If lives change, put in the seed that is found.
"""


@pytest.mark.parametrize(
    ("seed", "symptom", "owner", "part", "instead"),
    SABOTAGE,
    ids=[f"{what}: {part}" for _, what, _, part, _ in SABOTAGE],
)
def test_the_rules_find_broken_parts(
    monkeypatch: pytest.MonkeyPatch, *, seed: int, symptom: str, owner: object, part: str, instead: object
) -> None:
    """The rules find each broken part within a few hundred lives."""
    monkeypatch.setattr(owner, part, instead)

    assert any(symptom in fault for life in (seed, *range(400)) for fault in faults_of(life))


def test_a_failing_life_is_minimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest fits on a screen, and still fails when it is read again."""
    (first,) = [seed for seed, _, owner, *_ in SABOTAGE if owner is Semaphores]
    monkeypatch.setattr(Semaphores, "full", never(None))
    plans = map(planned, (first, *range(400)))
    plan = next(plan for plan in plans if any("semaphore" in fault for fault in faults(plan)))
    least = smallest(plan, lambda plan: any("semaphore" in fault for fault in faults(plan)))

    assert len(least.states) + sum(len(trouble) for trouble in least.troubles) <= 10
    assert eval(str(least), {"Plan": Plan, "state": state}) == least
