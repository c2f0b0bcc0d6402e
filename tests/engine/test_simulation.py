"""Random life: graphs, drift, failures, broken watches, swaps, pauses, triggers, in virtual time; then everything heals.

Whatever happened, the machine must end as declared, nothing dirty, running or pending, and no task left behind; and never are two
things done to one resource at once. A seed reproduces its run exactly. Half of the lives have a recheck, the others must do without.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from engine_bench import Action, Bench, Machine, Setting, compilation, simulate, state
from holdfast import Permanent, Temporary
from holdfast.agent.engine.engine import Engine

NAMES = [f"s{n}" for n in range(8)]
REQUISITES = ("require", "watch", "listen", "require_any", "onchanges", "onfail", "prereq")


def random_states(chance: random.Random) -> list[tuple]:
    """Some states, with requisites as a compiler lets them through."""
    names = [name for name in NAMES if chance.random() < 0.8]
    states = []
    earliest = list(range(len(names)))  # whatever the target of a prereq needs stands before that prereq
    for position, name in enumerate(names):
        requisites: dict[str, list[str]] = {}
        for other, target in enumerate(names):
            kind = chance.choice((*REQUISITES, *[None] * 9))
            backwards = kind == "prereq"
            if kind and other != position and (other > position if backwards else other < earliest[position] or kind == "listen"):
                if backwards:
                    earliest[other] = min(earliest[other], position)
                requisites.setdefault(kind, []).append(target)
        states.append(random_state(chance, name, requisites))
    return states


def random_state(chance: random.Random, name: str, requisites: dict[str, list[str]]) -> tuple:
    """One state with random meta parameters."""
    meta: dict[str, Any] = {"parallel": chance.random() < 0.2}
    if chance.random() < 0.2:
        meta["retry"] = chance.choice((2, -1, {"attempts": 3, "interval": 2}))
    if chance.random() < 0.1:
        meta["limit"], meta["burst"] = 0.2, 1
    if chance.random() < 0.1:
        meta["timeout"] = 5
    if chance.random() < 0.2:
        return state(name, "zaction.run", meta=meta, **{kind: targets for kind, targets in requisites.items() if kind != "listen"})
    if chance.random() < 0.1:
        meta["sema"] = chance.choice(("disk", "disk:2", ["net", "disk"]))
    if chance.random() < 0.2:
        meta["autoedge"] = chance.random() < 0.8
        return state(name, "zplaced.present", meta=meta, within=chance.choice(NAMES), strict=False, value="right", **requisites)
    kind = "zbundled.present" if chance.random() < 0.3 else "zsetting.present"
    return state(name, kind, meta=meta, value=chance.choice(("right", "other")), **requisites)


class Life:
    """One engine's life of trouble."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.machine = Setting.machine = Action.machine = Machine()
        self.bench = Bench(self.machine)
        self.states = random_states(self.chance)
        self.swaps: list[asyncio.Task[None]] = []

    async def live(self, engine: Engine) -> None:
        """A while of trouble."""
        await engine.swap(compilation(*self.states), "start")
        for _ in range(self.chance.randrange(5, 45)):
            self.upset(engine, self.chance.choice(NAMES))
            for _ in range(self.chance.randrange(4)):
                await asyncio.sleep(self.chance.choice((0, 0, 0.1, 3.0)))
        await asyncio.gather(*self.swaps)

    def upset(self, engine: Engine, name: str) -> None:  # noqa: C901, PLR0912 - an arm for each kind of trouble
        """Something happens to a setting, or to the engine."""
        chance, machine = self.chance, self.machine
        vertex = chance.choice([*engine._graph, None])
        match chance.randrange(14):
            case 0 | 1 | 2 if name in machine.watchers:
                machine.drift(name, chance.choice(("drifted", "worse")))
            case 3:
                machine.broken[name] = chance.choice((Permanent("no"), Temporary("busy"), Temporary("busy", delay=3)))
            case 4:
                machine.broken[f"{chance.choice(('refresh', 'look'))} {name}"] = Temporary("busy")
            case 5:
                machine.broken.clear()
            case 6 if name in machine.watchers:
                machine.unwatchable.add(name)
                machine.touch(name)
            case 7:
                machine.hold(chance.choice(("together", name, f"apply {name}", f"refresh {name}")))
            case 8:
                machine.free()
            case 9:
                self.states = random_states(chance)
                self.swap(engine)
            case 10 if self.states:
                chosen = chance.randrange(len(self.states))
                name, _, _, spec = self.states[chosen]
                requisites = {kind: targets for kind, targets in spec.items() if kind in REQUISITES}
                self.states = [*self.states[:chosen], random_state(chance, name, requisites), *self.states[chosen + 1 :]]
                self.swap(engine)
            case 11:
                (engine.resume if engine.paused else chance.choice((engine.pause, engine.recheck)))()
            case 12:
                engine.set_options(engine.options.model_copy(update={"noop": chance.random() < 0.5}))
            case 13 if vertex and chance.random() < 0.5:
                engine.trigger(vertex.identity)
            case 13 if vertex and vertex.task:
                vertex.task.cancel()

    def swap(self, engine: Engine) -> None:
        """The present states are what holds from now on."""
        self.swaps.append(asyncio.create_task(engine.swap(compilation(*self.states))))

    async def heal(self, engine: Engine, *, recheck: bool) -> None:
        """Nothing is broken any more; what failed for good is triggered by somebody, unless a recheck is due."""
        self.machine.broken.clear()
        self.machine.unwatchable.clear()
        self.machine.free()
        engine.resume()
        engine.set_options(engine.options.model_copy(update={"noop": False}))
        await asyncio.sleep(1000)
        for vertex in () if recheck else engine._graph:
            if vertex.failed and vertex.outcome and (vertex.outcome.ran or not vertex.outcome.because):
                engine.trigger(vertex.identity)
        await asyncio.sleep(1000)

    def faults(self, engine: Engine) -> list[str]:
        """What is not as it must be."""
        rows, faults = engine.status(), [f"overlap at {name}" for name in self.machine.overlaps]
        faults += [notice.text for code in ("engine-trouble", "traceback") for notice in self.bench.notices(code)]
        for row, vertex in zip(rows, engine._graph, strict=True):
            bad = [key for key in ("dirty", "running", "failed", "pending_refresh") if row[key]]
            if bad or vertex.outcome is None or not vertex.armed:
                faults.append(f"{row['identity']} is not settled: {bad}")
            elif (
                isinstance(vertex.resource, Setting)
                and vertex.outcome.ran
                and self.machine.settings.get(row["id"]) != vertex.resource.value
            ):
                faults.append(f"{row['identity']} is not as declared")
        if not engine.converged:
            faults.append("not converged")
        if engine._scheduler.running or engine._scheduler.unsettled:
            faults.append("the scheduler is busy")
        return faults


@pytest.mark.parametrize("block", range(10))
def test_after_any_trouble_the_machine_is_as_declared(block: int) -> None:
    """Eighty lives a block."""
    for seed in range(block * 80, block * 80 + 80):
        life, recheck = Life(seed), seed % 2 == 0

        async def scenario(life: Life = life, recheck: bool = recheck, seed: int = seed) -> None:
            trouble: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context))
            random.seed(seed)  # for backoff's jitter
            engine = life.bench.engine(workers=life.chance.choice((1, 2, 4)), stop_timeout=5, flap_limit=5, flap_window=20)
            if recheck:
                engine.set_options(engine.options.model_copy(update={"recheck": 300.0, "recheck_splay": 0.0}))
            await life.live(engine)
            await life.heal(engine, recheck=recheck)
            faults = life.faults(engine)
            await engine.stop()

            assert faults == [], seed
            assert len(asyncio.all_tasks()) == 1, seed
            assert trouble == [], seed

        simulate(scenario, 1e5)
