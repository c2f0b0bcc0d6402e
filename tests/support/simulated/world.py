"""The machine of simulated lives: the fake machine, sent values, a line that can be cut, batches, and reversals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fake_machine import Action, Borrowed, Machine, Setting
from holdfast import Backed, Context, Delta, Groupable, Permanent, Recvable, Sendable, Watch
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.resources.assignment import announced
from holdfast.resources.errors import StillDiffers
from holdfast.resources.traits import Declaration, Member, together

FULL = "database or disk is full"
"""The error of SQLite."""


@dataclass
class World(Machine):
    """A fake machine with sent values, a line and reversals."""

    said: dict[str, str] = field(default_factory=dict)
    """Name -> value that was sent last."""
    everbroken: set[str] = field(default_factory=set)
    """Everything that was ever broken."""
    lent: dict[str, str | None] = field(default_factory=dict)
    """Name -> value when it was last recorded for a reversal; None: the setting did not exist."""
    line: int = 0
    """Number of the line that is up; 0: none."""
    lines: int = 0
    """Number of lines so far."""
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the line is to be cut."""
    fallen: dict[str, float] = field(default_factory=dict)
    """Name -> loop time at which its watch over the line ended."""
    lost: float = -1.0
    """Loop time at which the last line went down."""
    full: bool = False
    """Whether the disk of the journal is full."""
    refill: Callable[[], None] = lambda: None
    """Makes the journal check for room."""
    clock: float = 1e9
    """Unix time at the start of the present agent."""

    def say(self, ctx: Context, name: str, what: str) -> None:
        """Send a value."""
        self.said[name] = what
        ctx.send(said=what)

    def hear(self, ctx: Context, name: str) -> None:
        """Note the received values."""
        for argument, got in ctx.assignment.received.items():
            self.log.append(f"hear {name} {argument} {got.value} {'new' if got.changed else 'old'}")

    def word(self, name: str) -> str:
        """Return the value that a setting would send now."""
        return self.settings.get(f"says {name}", "nothing")


class Full:
    """The file of a journal on a disk that may be full."""

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
        """Write at once, if the disk has room."""
        self._look()

    async def secure(self) -> None:
        """Wait as long as a disk takes. Raise `Unwritable` if the disk is full."""
        await asyncio.sleep(0.001)
        self._look()
        if self.trouble:
            raise Unwritable(self.trouble)

    def close(self) -> None:
        """Do nothing, because everything is written."""


class Speaker(Sendable, Setting, kind="zspeaker.present"):
    """A setting that sends a draft before its check, and the value of the machine after it."""

    machine: ClassVar[World]
    sends: ClassVar[Mapping[str, type]] = {"said": str}

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Send the draft, check and repair, send the value."""
        self.machine.say(ctx, self.name, "draft")
        right = await super().check_apply(ctx, apply)
        self.machine.say(ctx, self.name, self.machine.word(self.name))
        return right


class Hearer(Recvable, Sendable, Setting, kind="zhearer.present"):
    """A setting that receives a value, and sends it to others."""

    machine: ClassVar[World]
    sends: ClassVar[Mapping[str, type]] = {"said": str}

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Note the received value, check and repair, send the value."""
        self.machine.hear(ctx, self.name)
        right = await super().check_apply(ctx, apply)
        self.machine.say(ctx, self.name, self.value)
        return right


class Caller(Recvable, Sendable, Action, kind="zcaller.run"):
    """An action that receives a value, and sends the value of the machine."""

    machine: ClassVar[World]
    sends: ClassVar[Mapping[str, type]] = {"said": str}

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Note the received value, run, send the value."""
        self.machine.hear(ctx, self.name)
        right = await super().check_apply(ctx, apply)
        if apply:
            self.machine.say(ctx, self.name, self.machine.word(self.name))
        return right


class Lined(Backed, Setting, kind="zlined.present"):
    """A setting that is watched and checked over a line that all settings of its kind share."""

    machine: ClassVar[World]

    async def watch(self, ctx: Context) -> Watch:
        """Note the end of the watch, which follows the end of the line after a moment."""
        async with aclosing(super().watch(ctx)) as watch:
            try:
                async for each in watch:
                    yield each
            finally:
                self.machine.fallen[self.name] = asyncio.get_running_loop().time()

    @classmethod
    async def background(cls, services: Any) -> AsyncIterator[int]:
        """Open the line, wait until it is cut, then fail."""
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
    """A setting that is set together with others of its bundle, and gets the result."""

    bundle: str = "one"

    def group(self) -> Hashable:
        """Return the bundle that the state names."""
        return self.bundle

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Repair with the others; fail if this setting still differs."""
        with self.machine.at(self.name):
            delta = await self._difference(ctx)
            if delta is not None and apply:
                await ctx.assignment.announce()
                ctx.report.touched = True
                done = await together(self, ctx, delta, lambda: self._alone(ctx, delta))
                self.machine.log.append(f"took {self.name} {done}")
                if await self._difference(ctx):
                    raise StillDiffers("still differs")
            if delta is not None:
                ctx.report.changes = self.changes(delta)
            return delta is None

    async def _alone(self, ctx: Context, delta: Delta) -> str:
        await self.apply(ctx, delta)
        return self.name

    @classmethod
    async def apply_together(cls, members: Sequence[Member]) -> list[str]:
        """Set one after the other, until one of them fails."""
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
        """Return the value; the bundle exists only in the state."""
        found = await super().probe(ctx)
        return found and {**found, "bundle": self.bundle}


class Lent(Borrowed, kind="zlent.present"):
    """A setting that can be restored, on a machine that records its previous value."""

    machine: ClassVar[World]

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Record the previous value, and return the state that restores it; None if no state can declare it."""
        declaration = await super().inverse(ctx)
        self.machine.lent[self.name] = self.machine.settings.get(self.name)
        return declaration
