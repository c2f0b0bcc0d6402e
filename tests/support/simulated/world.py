"""The machine of the lives: the fake machine, sent values, a line that can be cut, batches, and reversals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fake_machine import Action, Borrowed, Machine, Setting
from holdfast import Backed, Context, Delta, Groupable, Permanent, Recvable, Sendable, Watch
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.resources.context import announced
from holdfast.resources.traits import Declaration, Member, together

FULL = "database or disk is full"
"""What SQLite says then."""


@dataclass
class World(Machine):
    """A machine that says things, too."""

    said: dict[str, str] = field(default_factory=dict)
    """Name -> what it has sent last."""
    everbroken: set[str] = field(default_factory=set)
    """Whatever was ever broken."""
    lent: dict[str, str | None] = field(default_factory=dict)
    """Name -> what it was when it was last asked what is to be put back; None: it was not there."""
    line: int = 0
    """The number of the line that is up; 0: none is."""
    lines: int = 0
    """How many there were."""
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the line is to be cut."""
    fallen: dict[str, float] = field(default_factory=dict)
    """Name -> loop time at which its watch over the line ended."""
    lost: float = -1.0
    """Loop time at which the last line went down."""
    full: bool = False
    """Nothing can be written to the journal."""
    refill: Callable[[], None] = lambda: None
    """Has the journal see whether there is room now."""
    clock: float = 1e9
    """Unix time at which its present agent was started."""

    def say(self, ctx: Context, name: str, what: str) -> None:
        """Send it."""
        self.said[name] = what
        ctx.send(said=what)

    def hear(self, ctx: Context, name: str) -> None:
        """What was received."""
        for argument, got in ctx.report.received.items():
            self.log.append(f"hear {name} {argument} {got.value} {'new' if got.changed else 'old'}")

    def word(self, name: str) -> str:
        """What it would send now."""
        return self.settings.get(f"says {name}", "nothing")


class Full:
    """A journal's file on a disk that may be full: then nothing can be written."""

    renewed = ""

    def __init__(self, world: World, told: Callable[[], None]) -> None:
        self._told = told
        self.trouble = ""
        world.refill = self._look
        self._world = world

    def _look(self) -> None:
        trouble = FULL if self._world.full else ""
        if trouble != self.trouble:
            self.trouble = trouble
            self._told()

    def add(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Written at once, if there is room."""
        self._look()

    async def secure(self) -> None:
        """In the time that a disk takes. Raises `Unwritable` when it is full."""
        await asyncio.sleep(0.001)
        self._look()
        if self.trouble:
            raise Unwritable(self.trouble)

    def close(self) -> None:
        """Nothing is left to be written."""


class Speaker(Sendable, Setting, kind="zspeaker.present"):
    """A setting that sends what the machine says of it: before it is right, in case that is all, and when it is."""

    machine: ClassVar[World]
    sends: ClassVar[Mapping[str, type]] = {"said": str}

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Say it."""
        self.machine.say(ctx, self.name, "draft")
        right = await super().check_apply(ctx, apply)
        self.machine.say(ctx, self.name, self.machine.word(self.name))
        return right


class Hearer(Recvable, Sendable, Setting, kind="zhearer.present"):
    """A setting whose value is received, and sent on."""

    machine: ClassVar[World]
    sends: ClassVar[Mapping[str, type]] = {"said": str}

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Hear it, and say it."""
        self.machine.hear(ctx, self.name)
        right = await super().check_apply(ctx, apply)
        self.machine.say(ctx, self.name, self.value)
        return right


class Caller(Recvable, Sendable, Action, kind="zcaller.run"):
    """An action that does what it receives, and sends what the machine says then."""

    machine: ClassVar[World]
    sends: ClassVar[Mapping[str, type]] = {"said": str}

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Hear, do, say."""
        self.machine.hear(ctx, self.name)
        right = await super().check_apply(ctx, apply)
        if apply:
            self.machine.say(ctx, self.name, self.machine.word(self.name))
        return right


class Lined(Backed, Setting, kind="zlined.present"):
    """A setting that is watched, and looked at, over a line which all of them share."""

    machine: ClassVar[World]

    async def watch(self, ctx: Context) -> Watch:
        """That it has ended is known a moment later, for somebody waits for the line, too."""
        async with aclosing(super().watch(ctx)) as watch:
            try:
                async for each in watch:
                    yield each
            finally:
                self.machine.fallen[self.name] = asyncio.get_running_loop().time()

    @classmethod
    async def background(cls, services: Any) -> AsyncIterator[int]:
        """The line."""
        world = cls.machine
        world.log.append("line up")
        try:
            await world.gate("line")
            if "line" in world.broken:
                raise world.broken["line"]
            world.lines += 1
            world.line, world.cut = world.lines, asyncio.Event()
            yield world.line
            await world.cut.wait()
            raise Permanent("it was cut")
        finally:
            world.log.append("line down")
            world.line, world.lost = 0, asyncio.get_running_loop().time()


class Bundle(Groupable, Setting, kind="zbundle.present"):
    """A setting that can be set together with others, and is told what was done about it."""

    bundle: str = "one"

    def group(self) -> Hashable:
        """By what the state says."""
        return self.bundle

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Put it right with the others, and see whether what was done is its own."""
        with self.machine.at(self.name):
            delta = await self._difference(ctx)
            if delta is not None and apply:
                await ctx.report.announce()
                ctx.report.touched = True
                done = await together(self, ctx, delta, lambda: self._alone(ctx, delta))
                self.machine.log.append(f"took {self.name} {done}")
                if await self._difference(ctx):
                    raise Permanent("still differs")
            if delta is not None:
                ctx.report.changes = self.changes(delta)
            return delta is None

    async def _alone(self, ctx: Context, delta: Delta) -> str:
        await self.apply(ctx, delta)
        return self.name

    @classmethod
    async def apply_together(cls, members: Sequence[Member]) -> list[str]:
        """Set one after the other, until one of them is broken."""
        names = [member.resource.name for member in members]
        cls.machine.log.append(f"together {' '.join(names)}")
        await cls.machine.gate("together")
        for member in members:
            name = member.resource.name
            if name in cls.machine.broken:
                raise cls.machine.broken[name]
            cls.machine.settings[name] = member.resource.value
            cls.machine.done.append(f"change {name}")
        return names

    async def probe(self, ctx: Any) -> Any:
        """Without its bundle, which is nothing on the machine."""
        found = await super().probe(ctx)
        return found and {**found, "bundle": self.bundle}


class Lent(Borrowed, kind="zlent.present"):
    """A setting that can be given back, on a machine that knows what it gave."""

    machine: ClassVar[World]

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Likewise; what is odd cannot be put into words."""
        declaration = await super().inverse(ctx)
        self.machine.lent[self.name] = self.machine.settings.get(self.name)
        return declaration
