"""Run an engine in a test: give it states, cause an event, check what it has done.

    async def test_drift_is_repaired(bench: Bench, machine: Machine) -> None:
        async with bench.running(state("a"), state("b", watch=["a"])):
            bench.forget()
            machine.drift("a")
            await bench.elapse()

            assert machine.log == ["check a", "apply a", "check a", "check b", "refresh b"]

- `state` declares a state of one of the kinds in `fake_machine.py`, or of any kind that the test module defines.
- `bench.running(*states)` gives an engine that has ended its first pass, `bench.starting(*states)` one that is about
  to run it. Both stop the engine at the end of the block.
- `machine` is what the engine manages. A test changes it (`drift`, `broken`, `hold` and `free`) and asserts what
  was done to it (`settings`, `log`).
- `bench.outcomes`, `bench.notices` and `bench.passes` are what the engine has reported.
- The fixture `machine`, and so `bench`, makes the test run in virtual time (`virtual_time.py`), so no test really
  waits. `bench.elapse()` lets the engine do everything that it can do now, `bench.elapse(3600)` lets an hour pass.
  `bench.until(wanted)` waits for an event, `bench.turns(condition)` for a moment in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fake_machine import Action, FakeHost, Machine, Setting
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.obstacles import Ask, nothing
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.execute.reversals import ONCE
from holdfast.agent.engine.model.events import Event, Notice, PassEnded, PassRecord, Ran
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.outcome import Cause, Outcome
from holdfast.resources import registry
from holdfast.resources.meta import Meta
from holdfast.states.compile.sequences import superseded
from holdfast.states.data import Call, Compilation
from holdfast.states.parse.marks import At, Document, Spot
from holdfast.states.requisite_kinds import RECV, RELATIONS
from virtual_time import VirtualLoop

LATER = "superseded_by"
"""Argument of `state`: names of later states that declare the same setting differently."""
TURNS = 1000
"""Callbacks after which `turns` gives up."""

State = tuple[str, str, dict[str, Any], dict[str, Any]]
"""Name, kind, arguments of every state, and requisites and arguments of the kind."""


def state(name: str, /, kind: str = "zsetting.present", *, meta: Mapping[str, Any] | None = None, **spec: Any) -> State:
    """Declare a state: `state("b", require=["a"], value="x")`."""
    return name, kind, dict(meta or {}), spec


def compilation(*states: State) -> Compilation:
    """Compile states, which are given in definition order.

    Requisites, and the `id` of a sender, name earlier states; `prereq` and `listen` may name later ones, too.
    """
    position = {name: i for i, (name, *_) in enumerate(states)}
    calls: list[Call] = []
    later: dict[str, list[str]] = {}
    for i, (name, kind, meta, spec) in enumerate(states):
        senders = {RECV: [source["id"] for source in meta["recv"].values() if "id" in source]} if "recv" in meta else {}
        requisites = {
            k: tuple(position[t] for t in named) for k, named in {**senders, **spec}.items() if k in RELATIONS and named
        }
        arguments = {k: v for k, v in spec.items() if k not in {*RELATIONS, LATER}}
        if LATER in spec:
            later[f"{kind}[{name}]"] = [f"{states[position[other]][1]}[{other}]" for other in spec[LATER]]
        family, _, function = kind.partition(".")
        low = {
            "state": family,
            "fun": function,
            "name": arguments.pop("name", name),
            "__id__": name,
            "__sls__": "test",
            "__env__": "base",
            "order": 10000 + i,
            **arguments,
            **{k: [*spec[k]] for k in requisites if k in spec},
        }
        found = registry.find(kind)
        assert found, kind
        calls.append(
            Call(
                i,
                f"{kind}[{name}]",
                low,
                Spot(Document("test.sls", ""), At(i, -1)),
                found.declare(low["name"], **arguments),
                Meta.model_validate(meta),
                requisites,
            )
        )
    return Compilation(superseded(tuple(calls), later))


async def use(engine: Engine, **options: object) -> None:
    """Swap in the same states with these options, as the agent does when its settings change."""
    calls = tuple(vertex.call for vertex in engine.view.graph if vertex.call.meta is not ONCE)
    await engine.swap(Compilation(calls), options=engine.options.model_copy(update=options))


async def at_once(call: Callable[..., object], *args: object) -> object:
    """Call a blocking function without a thread: virtual time does not wait for threads."""
    return call(*args)


def ended(cause: Cause) -> Callable[[Event], bool]:
    """Return a condition for `Bench.until`: the end of a pass with this cause."""
    return lambda event: isinstance(event, PassEnded) and event.record.cause == cause


def pending(engine: Engine) -> list[str]:
    """Return the names of the states with a pending refresh."""
    return [row["id"] for row in engine.status() if row["pending_refresh"]]


class Bench:
    """Engines on a fake machine, and the events that they have reported.

    The journal is in memory. With a path it is a file, which the next engine reads; in this way a test restarts the
    agent.
    """

    def __init__(self, machine: Machine, journal: Path | None = None) -> None:
        self.machine = machine
        self.journal_path = journal
        self.events: list[Event] = []
        self._reported = asyncio.Event()

    @asynccontextmanager
    async def running(self, *states: State, **options: Any) -> AsyncIterator[Engine]:
        """Yield an engine that has ended its first pass on these states; stop it at the end.

        The options are those of `engine`.
        """
        async with self.starting(*states, **options) as engine:
            await engine.settle()
            yield engine

    @asynccontextmanager
    async def starting(
        self, *states: State, compiled: Compilation | None = None, **options: Any
    ) -> AsyncIterator[Engine]:
        """Yield an engine that is about to run its first pass on these states; stop it at the end.

        The options are those of `engine`. `compiled` replaces the states.
        """
        engine = self.engine(**options)
        journal = self.journal
        try:
            await engine.swap(compiled or compilation(*states), "start")
            yield engine
        finally:
            await engine.stop()
            journal.close()

    def engine(self, *, watch: bool = True, obstacle: Ask = nothing, **options: Any) -> Engine:
        """Return a new engine, which has no states and which the test has to stop.

        `watch` is False for a one-shot run; `obstacle` is asked before each run. `options` are `EngineOptions`; by
        default there are no regular rechecks.
        """
        Setting.machine = Action.machine = self.machine
        self.journal = self.open_journal()
        return Engine(
            FakeHost(),
            EngineOptions(**{"recheck": 0, **options}),
            self.journal,
            self.emit,
            watch=watch,
            obstacle=obstacle,
        )

    def open_journal(self) -> Journal:
        """Return the journal of the next engine."""
        return Journal(self.journal_path, durable=False, blocking=at_once)

    def emit(self, event: Event) -> None:
        """Take an event of the engine."""
        self.events.append(event)
        self._reported.set()

    # -- time ------------------------------------------------------------------------------------------------------

    async def elapse(self, seconds: float = 0) -> None:
        """Let virtual time pass, with everything that can happen until then; 0: the clock stands still."""
        await asyncio.sleep(seconds)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        while loop.ready:
            await asyncio.sleep(0)

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the first event that is wanted, reported since `forget` or later."""
        seen = 0
        while True:
            for event in self.events[seen:]:
                if wanted(event):
                    return event
            seen = len(self.events)
            self._reported.clear()
            await self._reported.wait()

    async def turns(self, condition: Callable[[], object]) -> None:
        """Let other tasks run until the condition holds, while virtual time stands still."""
        for _ in range(TURNS):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError(f"the condition did not hold within {TURNS} turns of the loop")

    # -- what has happened -----------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Forget all events, and the machine's log."""
        self.events.clear()
        self.machine.log.clear()

    def outcomes(self, name: str) -> list[Outcome]:
        """Return the outcomes of a state, oldest first."""
        return [e.outcome for e in self.events if isinstance(e, Ran) and e.outcome.identity.endswith(f"[{name}]")]

    def notices(self, code: str) -> list[Notice]:
        """Return the notices of a code, oldest first."""
        return [e for e in self.events if isinstance(e, Notice) and e.code == code]

    def passes(self) -> list[PassRecord]:
        """Return the records of all passes that have ended, oldest first."""
        return [e.record for e in self.events if isinstance(e, PassEnded)]
