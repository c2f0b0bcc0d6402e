"""Simulates a plan: an engine on a fake machine, with troubles, in virtual time."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Iterable

from engine_bench import Bench, compilation
from fake_machine import Action, Setting
from holdfast import Permanent, Temporary
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.model.events import Event
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.model.vertex import Vertex
from simulated.calm import reached, unhealed
from simulated.plan import Plan, State, planned
from simulated.rules import Rules
from simulated.world import Full, World
from virtual_time import VirtualLoop

ERRORS: dict[str, Callable[[], Exception]] = {
    "no": lambda: Permanent("no"),
    "busy": lambda: Temporary("busy"),
    "busy for 3 s": lambda: Temporary("busy", delay=3),
}
"""Makes new errors for each life, because an exception keeps its traceback."""
LONG = 1e5
"""Seconds of virtual time after which a life counts as hanging."""
ENDLESS = 20_000
"""More steps than any life takes."""
HEALING = 400.03
"""Seconds within which everything must be repaired once nothing is broken: many times the longest wait of the
engine."""


def faults_of(seed: int) -> list[str]:
    """Return the faults in the life of a seed."""
    return faults(planned(seed))


def faults(plan: Plan) -> list[str]:
    """Return the faults in this life."""
    return Life(plan).run()


def digest(seed: int) -> str:
    """Return a hash, in hex, of everything that is reported and done in the life of a seed."""
    life = Life(planned(seed))
    life.run()
    return hashlib.sha256("\n".join(life.trace()).encode()).hexdigest()


CALL = 1.5
"""Seconds that a call takes."""


class Life(Bench):
    """One life. Its public methods with a short name are the troubles that a plan can have."""

    machine: World

    def __init__(self, plan: Plan, world: World | None = None) -> None:
        super().__init__(world or World())
        self.plan = plan
        self.found: list[str] = []
        """The faults."""
        self._steps = 0
        self._states: list[State] = []
        """The states that hold now."""
        self._swaps: list[asyncio.Task[None]] = []
        self._fights: list[asyncio.Task[None]] = []
        self._calls: list[asyncio.Task[None]] = []

    def run(self) -> list[str]:
        """Simulate the life; return the faults."""
        Setting.machine = Action.machine = self.machine
        random.seed(self.plan.seed)
        self.loop = VirtualLoop(self.machine.clock)
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            try:
                runner.run(self._bounded())
            except Exception as error:  # noqa: BLE001 - the exception is a fault, and the next seed is simulated
                self.found.append(f"{type(error).__name__}: {error}")
                self.loop.after_step = None
        return self.found

    async def _bounded(self) -> None:
        self.loop.set_exception_handler(
            lambda _, context: self.found.append(f"unhandled: {context.get('exception') or context['message']}")
        )
        async with asyncio.timeout(LONG):
            await self._live()

    async def _begin(self, states: Iterable[State]) -> None:
        """Start an agent."""
        plan = self.plan
        recheck = {"recheck": 150.0, "recheck_splay": 0.0} if plan.recheck else {}
        self._engine = self.engine(
            workers=plan.workers, ordering=plan.ordering, stop_timeout=5, flap_limit=5, flap_window=20, **recheck
        )
        self._rules = Rules(self._engine, self.machine, self.found)
        self.loop.after_step = self._step
        self._states = list(states)
        await self._take_over(self._states, "start")

    def _step(self) -> None:
        self._rules.step()
        if self.loop.steps > ENDLESS:
            self.loop.after_step = None
            raise RuntimeError(f"it goes round in circles at {self.loop.time():.2f} s")

    def open_journal(self) -> Journal:
        """Return a journal in memory that behaves as if it were on a disk."""
        journal = Journal()
        journal._store = Full(self.machine, journal._tell)
        return journal

    async def _take_over(self, states: list[State], cause: Cause) -> None:
        await self._engine.swap(compilation(*states), cause)

    async def _use(self, options: EngineOptions) -> None:
        await self._engine.swap(compilation(*self._states), "states changed", options)

    async def _live(self) -> None:
        plan = self.plan
        await self._begin(plan.states)
        for wait, what, *how in plan.troubles:
            await asyncio.sleep(wait)
            if (more := getattr(self, what)(*how)) is not None:
                await more
        if plan.stop is None:
            await asyncio.gather(*self._swaps, *self._fights)
            await self._heal()
            self.found += unhealed(self._engine, self._rules, self.machine)
            await self._be_disturbed_once()
            self.found += (f"after all: {fault}" for fault in unhealed(self._engine, self._rules, self.machine))
        await self._end(plan.stop or ())

    async def _end(self, hurry: tuple[float, ...]) -> None:
        """Stop the engine in any state; check that it ends in time and leaves nothing behind."""
        for task in (*self._fights, *self._calls):
            task.cancel()
        began, timeout = self.loop.time(), self._engine.options.stop_timeout
        stop = asyncio.create_task(self._stop())
        for seconds in hurry:
            await asyncio.sleep(seconds)
            self._engine.cancel_leaving()
        await stop
        await asyncio.gather(*self._swaps, *self._fights, *self._calls, return_exceptions=True)
        self._steps = self.loop.steps
        self.loop.after_step = None
        # A running swap may have just started to wait for removed vertices, which get their own time to end.
        if self.loop.time() > began + 2 * timeout + 0.1:
            self.found.append(f"stopping took {self.loop.time() - began:g} s")
        if left := [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
            self.found.append(f"left behind: {left}")

    async def _stop(self) -> None:
        self._rules.stopped = True
        await self._engine.stop()

    # -- healing -----------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        """End all troubles. Without rechecks, trigger what still fails."""
        self.mend()
        self.free()
        self.resume()
        self.noop(on=False)
        await asyncio.gather(*self._calls)
        await asyncio.sleep(HEALING)
        for vertex in () if self.plan.recheck else self._engine.view.graph:
            if vertex.failed and vertex.last.outcome and (vertex.last.outcome.ran or not vertex.last.outcome.because):
                self._rules.deeds.excused(vertex)
                self._engine.trigger(vertex.identity)
        await asyncio.sleep(HEALING)

    async def _be_disturbed_once(self) -> None:
        """Cause one drift while nothing runs. Check that only reachable vertices run, and that activity ends."""
        watched = sorted(name for name in self.machine.armed if self._vertex(name))
        if not watched:
            return
        name = watched[self.plan.seed % len(watched)]
        vertex, log = self._vertex(name), len(self.machine.log)
        assert vertex is not None
        near = {each.resource.name for each in reached(self._engine, vertex)}
        ticking = [
            each for each in self._engine.view.graph if each.call.meta.poll or isinstance(each.call.meta.rerun, float)
        ]
        polled = {each.resource.name for one in ticking for each in reached(self._engine, one)}
        self.machine.settings[f"says {name}"] = "finally"
        self.machine.drift(name)
        await asyncio.sleep(HEALING if self.plan.recheck is False else 100)
        looks = [line.removeprefix("check ") for line in self.machine.log[log:] if line.startswith("check ")]
        if not self.plan.recheck and (far := {*looks} - near - polled):
            self.found.append(f"a drift of {name} looked at {sorted(far)}")
        if not self.plan.recheck and not polled:
            if len(looks) > 6 * len(near):
                self.found.append(f"a drift of {name} took {len(looks)} looks at {len(near)} resources")
            steps = self.loop.steps
            await asyncio.sleep(HEALING)
            if self.loop.steps > steps + 10:
                self.found.append(f"{self.loop.steps - steps} steps while nothing happened")

    # -- troubles ----------------------------------------------------------------------------------------------

    def _vertex(self, name: str) -> Vertex | None:
        return next(
            (
                each
                for each in self._engine.view.graph
                if each.resource.name == name and not each.queue.removed and not each.links.successors
            ),
            None,
        )

    def drift(self, name: str, value: str) -> None:
        """Change a setting from outside."""
        self.machine.settings[name] = value
        if name in self.machine.watchers:
            self.machine.touch(name)

    def break_(self, what: str, how: str) -> None:
        """Make a setting fail from now on."""
        self.machine.broken[what] = ERRORS[how]()
        self.machine.everbroken.add(what)

    def mend(self) -> None:
        """End all failures."""
        self.machine.broken.clear()
        self.machine.unwatchable.clear()
        self.machine.full = False
        self.machine.refill()

    def unwatch(self, name: str) -> None:
        """Make the watch of a setting fail."""
        self.machine.unwatchable.add(name)
        if name in self.machine.watchers:
            self.machine.touch(name)

    def hold(self, what: str) -> None:
        """Make a setting hang from now on."""
        self.machine.hold(what)

    def free(self) -> None:
        """End all hangs."""
        self.machine.free()

    def swap(self, states: list[State]) -> None:
        """Replace the states."""
        self._states = states
        self._swaps.append(asyncio.create_task(self._take_over(states, "states changed")))

    def pause(self) -> None:
        """Pause the engine, as an operator does."""
        self._rules.paused = True
        self._engine.pause()

    def resume(self) -> None:
        """Resume the engine, as an operator does."""
        self._rules.paused = False
        self._engine.resume()

    def recheck(self) -> None:
        """Start a recheck, as an operator does."""
        self._engine.recheck()

    def noop(self, on: bool) -> None:
        """Turn noop on or off, as an operator does."""
        options = self._engine.options.model_copy(update={"noop": on})
        self._swaps.append(asyncio.create_task(self._use(options)))

    def trigger(self, name: str) -> None:
        """Trigger a resource, as an operator does."""
        if vertex := self._vertex(name):
            self._rules.deeds.excused(vertex)
            self._engine.trigger(vertex.identity)

    def cancel(self, name: str) -> None:
        """Cancel the current run of a resource."""
        if (vertex := self._vertex(name)) and vertex.run.task:
            vertex.run.task.cancel()

    def say(self, name: str, word: str) -> None:
        """Change the value that a setting sends."""
        self.machine.settings[f"says {name}"] = word
        if name in self.machine.watchers:
            self.machine.touch(name)

    def full(self) -> None:
        """Make the disk of the journal full."""
        self.machine.full = True

    def cut(self) -> None:
        """Cut the line."""
        self.machine.cut.set()

    def fight(self, name: str, times: int) -> None:
        """Change a setting from outside again and again."""
        self._fights.append(asyncio.create_task(self._fight(name, times)))

    async def _fight(self, name: str, times: int) -> None:
        for _ in range(times):
            self.drift(name, "fought over")
            await asyncio.sleep(0.5)

    def call(self, name: str) -> None:
        """Call a function that changes a setting, for a while."""
        self._calls.append(asyncio.create_task(self._call(name)))

    async def _call(self, name: str) -> None:
        self._rules.called.waits(name)
        async with self._engine.claim([("setting", name)]):
            self._rules.called.begins(name)
            try:
                await asyncio.sleep(CALL)
                self.drift(name, "called")
            finally:  # a cancelled call ends, too
                self._rules.call_ends(name)

    # -- events ------------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Take an event of the engine, and compare it with the rules."""
        self.events.append(event)
        self._rules.told(event)

    def trace(self) -> list[str]:
        """Return everything that was reported and done."""
        return [*map(str, self.events), *self.machine.log, *self.machine.done, str(self._steps)]
