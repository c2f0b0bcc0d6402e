"""Random life: graphs, drift, failures, broken watches, swaps, pauses, triggers, in virtual time; then everything heals.

Whatever happened, the machine must end as declared, nothing dirty, running or pending, and no task left behind.
A seed reproduces its run exactly.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from engine_bench import Action, Bench, Machine, Setting, compilation, simulate, state
from holdfast import Permanent, Temporary
from holdfast.agent.engine.engine import Engine

NAMES = [f"s{n}" for n in range(10)]


def random_states(chance: random.Random) -> list[tuple]:
    """Some states, with requisites that keep none from running for good."""
    names = [name for name in NAMES if chance.random() < 0.8]
    states = []
    for position, name in enumerate(names):
        requisites: dict[str, list[str]] = {}
        for target in names[:position]:
            kind = chance.choice(("require", "watch", "listen", "require_any", None, None, None, None))
            if kind:
                requisites.setdefault(kind, []).append(target)
        meta: dict[str, Any] = {"parallel": chance.random() < 0.2}
        if chance.random() < 0.2:
            meta["retry"] = chance.choice((2, -1, {"attempts": 3, "interval": 2}))
        if chance.random() < 0.1:
            meta["limit"], meta["burst"] = 0.2, 1
        states.append(state(name, meta=meta, value=chance.choice(("right", "other")), **requisites))
    return states


async def live(chance: random.Random, engine: Engine, machine: Machine) -> list[tuple]:  # noqa: C901 - an arm for each kind of trouble
    """A while of trouble; the states that hold at its end."""
    states = random_states(chance)
    await engine.swap(compilation(*states), "start")
    for _ in range(chance.randrange(5, 40)):
        name = chance.choice(NAMES)
        match chance.randrange(11):
            case 0 | 1 | 2 if name in machine.watchers:
                machine.drift(name, chance.choice(("drifted", "worse")))
            case 3:
                machine.broken[name] = chance.choice((Permanent("no"), Temporary("busy"), Temporary("busy", delay=3)))
            case 4:
                machine.broken[f"refresh {name}"] = Temporary("busy")
            case 5:
                machine.broken.clear()
            case 6 if name in machine.watchers:
                machine.unwatchable.add(name)
                machine.touch(name)
            case 7:
                machine.gates.setdefault(name, asyncio.Event())
            case 8:
                for gate in machine.gates.values():
                    gate.set()
                machine.gates.clear()
            case 9:
                states = random_states(chance)
                await engine.swap(compilation(*states))
            case 10:
                (engine.resume if engine.paused else chance.choice((engine.pause, engine.recheck)))()
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(chance.choice((0, 0, 0.1, 3.0)))
    return states


@pytest.mark.parametrize("block", range(8))
def test_after_any_trouble_the_machine_is_as_declared(block: int) -> None:
    """Fifty lives a block."""
    for seed in range(block * 50, block * 50 + 50):
        machine = Machine()
        Setting.machine = Action.machine = machine
        bench = Bench(machine)

        async def scenario(seed: int = seed, machine: Machine = machine, bench: Bench = bench) -> None:
            trouble: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context))
            engine = bench.engine(workers=2, stop_timeout=5, flap_limit=5, flap_window=20)
            engine.set_options(engine.options.model_copy(update={"recheck": 300.0, "recheck_splay": 0.0}))
            states = await live(random.Random(seed), engine, machine)
            machine.broken.clear()
            machine.unwatchable.clear()
            for gate in machine.gates.values():
                gate.set()
            machine.gates.clear()
            engine.resume()
            await asyncio.sleep(2000)
            rows = engine.status()

            assert {row["id"]: machine.settings.get(row["id"]) for row in rows} == {name: spec["value"] for name, _, _, spec in states}, (
                seed
            )
            assert not [row for row in rows if row["dirty"] or row["running"] or row["failed"] or row["pending_refresh"]], seed
            assert engine.converged, seed
            assert (engine._scheduler.running, engine._scheduler.unsettled) == (0, set()), seed
            await engine.stop()
            assert len(asyncio.all_tasks()) == 1, seed
            assert trouble == [], seed

        simulate(scenario, 1e5)
