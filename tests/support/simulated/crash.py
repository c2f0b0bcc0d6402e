"""Agents that crash during their work, and the agents after them.

After each step that has changed the machine or the journal, a scene is recorded: the state that a crash at this moment
would leave. Another life with another agent starts from the scene, and may crash, too.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine_bench import compilation
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.model.outcome import Cause
from power import Disk, files, put
from simulated.life import Life
from simulated.plan import NAMES, Plan, State, other_state, planned
from simulated.story import Chapter, lost, twice
from simulated.world import World

CALM = {"drift", "swap", "pause", "recheck"}
"""Troubles that make nothing fail; a restart is likely during a pause."""
MEMORY = "/dev/shm"
"""The directory of the journals, in memory: `power.Disk` models a loss of power, and a real disk is slow."""
HARMLESS = {"noop", "unwatch", "full"}
"""Troubles that are removed from plans with crashes, because the rules for crashes do not cover them."""


@dataclass(frozen=True)
class Scene:
    """The state that a crash leaves behind."""

    world: World
    chapters: list[Chapter]
    journal: dict[str, bytes]
    states: Sequence[State]
    """The declared states."""


class Doomed(Life):
    """A life that records `wanted` scenes, chosen at random, or with None all scenes."""

    def __init__(
        self, plan: Plan, directory: Path, chance: random.Random, wanted: int | None, scene: Scene | None = None
    ) -> None:
        super().__init__(plan, _again(scene.world) if scene else World())
        path = Path(tempfile.mkdtemp(dir=directory)) / "journal"
        self._disk = Disk(put(scene.journal, path) if scene else path)
        self._disk.kept = dict(scene.journal) if scene else {}
        self.chapters = list(scene.chapters) if scene else []
        self.scenes: list[Scene] = []
        self._chance, self._wanted, self._seen = chance, wanted, 0
        self._last: object = None
        self._since: list[dict[str, bytes]] = []

    def open_journal(self) -> Journal:
        """Return a journal that waits for the disk."""
        return Journal(self._disk.path, blocking=self._disk)

    async def restart(self) -> None:
        """Stop and start the agent, as an update does."""
        await asyncio.gather(*self._swaps)
        await self._engine.stop()
        self.loop.after_step = None
        self.journal.close()
        await self._begin(self.chapters[-1].states)

    async def _live(self) -> None:
        await super()._live()
        self.found += lost(self.machine.done, self.chapters)
        self.journal.close()

    async def _take_over(self, states: list[State], cause: Cause) -> None:
        chapter = Chapter(len(self.machine.done), states)
        self.chapters.append(chapter)
        await self._engine.swap(compilation(*states), cause)
        chapter.in_force = len(self.machine.done)

    def _step(self) -> None:
        super()._step()
        now = (self._disk.writes, len(self.machine.done), dict(self.machine.settings), len(self.chapters))
        if now != self._last:
            self._last = now
            self._seen += 1
            self._photograph()

    def _photograph(self) -> None:
        """Record the scene with a probability that is the same for all scenes."""
        place = len(self.scenes)
        if self._wanted is not None and place >= self._wanted:
            place = self._chance.randrange(self._seen)
            if place >= self._wanted:
                return
        killed, unpowered = files(self._disk.path), self._disk.kept
        if self._wanted is not None:
            ways = [self._chance.choice((killed, unpowered))]
        else:  # directly after a flush, a kill and a loss of power leave the same state
            ways = [killed] if killed == unpowered else [killed, unpowered]
        self.scenes[place : place + 1] = [self._scene(journal) for journal in ways]

    def _scene(self, journal: dict[str, bytes]) -> Scene:
        chapters = [replace(chapter) for chapter in self.chapters]
        return Scene(_again(self.machine, self.loop.time() + 1), chapters, journal, chapters[-1].states)


def _again(world: World, later: float = 0.0) -> World:
    """Return the machine as another agent finds it, this many seconds later."""
    return World(
        dict(world.settings),
        dict(world.broken),
        done=list(world.done),
        said=dict(world.said),
        lent=dict(world.lent),
        everbroken={*world.everbroken},
        clock=world.clock + later,
    )


def crashes(seed: int, wanted: int | None = 8) -> list[str]:
    """Return the faults in the life of a seed with random crashes."""
    return deaths(doomed(seed), wanted)


def doomed(seed: int) -> Plan:
    """Return the plan of a seed, without the troubles that the rules for crashes do not cover."""
    whole = planned(seed)
    return replace(
        whole, stop=None, recheck=False, troubles=tuple(each for each in whole.troubles if each[1] not in HARMLESS)[:15]
    )


def deaths(plan: Plan, wanted: int | None = 8) -> list[str]:
    """Return the faults in a life, in the lives after its crashes, and in the lives after their crashes."""
    chance = random.Random(plan.seed)
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-", dir=MEMORY) as directory:
        life = Doomed(plan, Path(directory), chance, wanted)
        found = life.run()
        for scene in life.scenes:
            after = Doomed(_aftermath(plan, scene, chance), Path(directory), chance, 1 if wanted else 2, scene)
            found += [f"after a crash: {fault}" for fault in after.run()]
            for second in after.scenes:
                last = Doomed(_aftermath(plan, second, chance), Path(directory), chance, 0, second)
                found += [f"after two crashes: {fault}" for fault in last.run()]
    return found


def repeats(seed: int) -> list[str]:
    """Return errors and repeated effects of a life with drift and restarts but without failures."""
    chance, whole = random.Random(seed), planned(seed)
    troubles = [each if each[1] != "pause" else (each[0], "restart") for each in whole.troubles if each[1] in CALM]
    states = [
        (name, kind, {key: meta[key] for key in meta.keys() & {"recv", "noop"}}, spec)
        for name, kind, meta, spec in whole.states
    ]
    plan = replace(whole, stop=None, recheck=False, states=tuple(states), troubles=tuple(troubles))
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-", dir=MEMORY) as directory:
        life = Doomed(plan, Path(directory), chance, 0)
        return [*life.run(), *twice(life.machine.done, life.chapters)]


def _aftermath(plan: Plan, scene: Scene, chance: random.Random) -> Plan:
    """Return the same or other states, after perhaps changing the machine: both may change while no agent runs."""
    states = list(scene.states)
    if states and chance.random() < 0.2:
        states = other_state(chance, states)
    if chance.random() < 0.2:
        scene.world.settings[chance.choice(NAMES)] = "drifted"
    return replace(plan, states=tuple(states), troubles=(), seed=chance.randrange(1000))
