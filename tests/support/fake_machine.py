"""A machine of named settings, the kinds that manage it, and a host that gives these kinds a context."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

from holdfast import Context, Delta, Permanent, Refreshable, Resource, Watch
from holdfast.resources.assignment import UNASSIGNED, announced
from holdfast.resources.contract import Uid
from holdfast.resources.dependencies import Dependency
from holdfast.resources.report import Report
from holdfast.resources.testing import SilentLog
from holdfast.resources.traits import Declaration, Edgeable, Groupable, Member, Reversible
from holdfast.resources.watches import idle


@dataclass
class Machine:
    """Named settings. A test makes them drift, fail or wait, and reads in the logs what the kinds below did to them."""

    settings: dict[str, str] = field(default_factory=dict)
    """Name -> value."""
    broken: dict[str, Exception] = field(default_factory=dict)
    """Name -> what `apply` raises; `look NAME` -> what `probe` raises; `refresh NAME` -> what `refresh` raises."""
    broken_once: dict[str, Exception] = field(default_factory=dict)
    """Name -> what the next `apply` raises."""
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    """Name -> event that `probe` waits for.

    `apply NAME`, `refresh NAME`: after the change; `watch NAME`: before arming.
    """
    unwatchable: set[str] = field(default_factory=set)
    """Names whose watch fails."""
    watchers: dict[str, asyncio.Queue[None]] = field(default_factory=dict)
    """Name -> events that its watch has not reported yet."""
    armed: Counter[str] = field(default_factory=Counter)
    """Name -> number of armed watches."""
    log: list[str] = field(default_factory=list)
    """Calls of kinds in order: `check NAME`, `apply NAME`, `refresh NAME`, ..."""
    done: list[str] = field(default_factory=list)
    """Effects in order.

    `look NAME` when a probe starts; `change NAME`, `refresh NAME`, `run NAME` when it has happened.
    """
    now: int = 0
    """Number of current probes."""
    most: int = 0
    """The largest number of simultaneous probes so far."""
    long_calls: set[str] = field(default_factory=set)
    """Names whose probe makes a call that is expected to take long."""
    busy: list[str] = field(default_factory=list)
    """Names of the settings that a kind is working on."""
    overlaps: list[str] = field(default_factory=list)
    """Names of the settings that two calls have worked on at once."""

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Note that a kind works on this name."""
        if name in self.busy:
            self.overlaps.append(name)
        self.busy.append(name)
        try:
            yield
        finally:
            self.busy.remove(name)

    async def gate(self, name: str) -> None:
        """Wait if the test holds this name."""
        if name in self.gates:
            await self.gates[name].wait()

    def hold(self, name: str) -> None:
        """Make the kinds wait at this gate, until `free`."""
        self.gates.setdefault(name, asyncio.Event())

    def free(self, *names: str) -> None:
        """Open these gates; without names: all."""
        for name in names or tuple(self.gates):
            self.gates.pop(name).set()

    def drift(self, name: str, value: str = "drifted") -> None:
        """Change a setting from outside; its watch reports it."""
        self.settings[name] = value
        self.touch(name)

    def touch(self, name: str) -> None:
        """Make the watch of a setting report an event."""
        self.watchers[name].put_nowait(None)


class Setting(Refreshable, Resource, kind="zsetting.present"):
    """One setting of the fake machine."""

    machine: ClassVar[Machine]
    value: str = "right"

    def uids(self) -> tuple[Uid, ...]:
        """Return the setting, whichever kind manages it."""
        return (("setting", self.name),)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Check and apply as every kind with a probe does; note two runs at once."""
        with self.machine.at(self.name):
            return await super().check_apply(ctx, apply)

    async def probe(self, ctx: Context) -> dict[str, Any] | None:
        """Return the value on the machine."""
        machine = self.machine
        machine.now += 1
        machine.most = max(machine.most, machine.now)
        try:
            machine.log.append(f"check {self.name}")
            machine.done.append(f"look {self.name}")
            if f"look {self.name}" in machine.broken:
                raise machine.broken[f"look {self.name}"]
            if self.name in machine.long_calls:
                ctx.assignment.expect_long_call()
            await machine.gate(self.name)
        finally:
            machine.now -= 1
        return {"value": machine.settings[self.name]} if self.name in machine.settings else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set the value, or raise what the test wants."""
        self.machine.log.append(f"apply {self.name}")
        if self.name in self.machine.broken_once:
            raise self.machine.broken_once.pop(self.name)
        if self.name in self.machine.broken:
            raise self.machine.broken[self.name]
        self.machine.settings[self.name] = self.value
        self.machine.done.append(f"change {self.name}")
        await self.machine.gate(f"apply {self.name}")

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Note the refresh, or raise what the test wants."""
        self.machine.log.append(f"refresh {self.name}" if apply else f"would refresh {self.name}")
        if f"refresh {self.name}" in self.machine.broken:
            raise self.machine.broken[f"refresh {self.name}"]
        with self.machine.at(self.name):
            await self.machine.gate(f"refresh {self.name}")
        if apply:
            self.machine.done.append(f"refresh {self.name}")
        ctx.report.changes = {"refreshed": True}
        return False

    async def watch(self, ctx: Context) -> Watch:
        """Report each event that the test sends."""
        if self.name in self.machine.unwatchable:
            raise Permanent("no watch here")
        queue = self.machine.watchers[self.name] = asyncio.Queue()
        await self.machine.gate(f"watch {self.name}")
        self.machine.armed[self.name] += 1
        try:
            yield None
            while True:
                await queue.get()
                if self.name in self.machine.unwatchable:
                    raise Permanent("no watch here any more")
                yield None
        finally:
            self.machine.armed[self.name] -= 1
            if not self.machine.armed[self.name]:
                del self.machine.armed[self.name]


class Bundled(Groupable, Setting, kind="zbundled.present"):
    """A setting that is set together with others of its bundle."""

    bundle: str = "one"

    def group(self) -> Hashable:
        """Return the bundle that the state names."""
        return self.bundle or None

    @classmethod
    async def apply_together(cls, members: Sequence[Member]) -> list[None]:
        """Set all of them, or raise what the test wants for one of them."""
        names = [member.resource.name for member in members]
        cls.machine.log.append(f"together {' '.join(names)}")
        await cls.machine.gate("together")
        for name in names:
            if name in cls.machine.broken:
                raise cls.machine.broken[name]
        if "forgetful" in names:
            return []
        cls.machine.settings.update({member.resource.name: member.resource.value for member in members})
        cls.machine.done += [f"change {name}" for name in names]
        return [None] * len(members)

    async def probe(self, ctx: Any) -> Any:
        """Return the value; the bundle exists only in the state."""
        found = await super().probe(ctx)
        return found and {**found, "bundle": self.bundle}


class Placed(Edgeable, Setting, kind="zplaced.present"):
    """A setting that depends on another one, its place."""

    within: str = ""
    strict: bool = True
    """Whether `apply` fails while the place is missing."""
    owner: str = ""
    """Name of the setting that owns this one."""

    def offers(self) -> tuple[tuple[str, str], ...]:
        """Offer itself, as a place and as an owner."""
        return (*self.uids(), ("user", self.name))

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the place and the owner."""
        return (
            *([Dependency("setting", self.within)] if self.within else ()),
            *([Dependency("user", self.owner)] if self.owner else ()),
        )

    async def probe(self, ctx: Any) -> Any:
        """Return the value; place and owner exist only in the state."""
        found = await super().probe(ctx)
        return found and {**found, "within": self.within, "strict": self.strict, "owner": self.owner}

    async def apply(self, ctx: Any, delta: Any) -> None:
        """Fail if the place is missing."""
        if self.strict and self.within and self.within not in self.machine.settings:
            raise Permanent(f"{self.within} is missing")
        await super().apply(ctx, delta)


class Borrowed(Reversible, Setting, kind="zborrowed.present"):
    """A setting whose previous value can be restored."""

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return the state that declares the present value."""
        self.machine.log.append(f"inverse {self.name}")
        await self.machine.gate(f"inverse {self.name}")
        now = self.machine.settings.get(self.name)
        if now == "odd":
            return None
        return (
            Declaration("zgone.absent", {"name": self.name})
            if now is None
            else Declaration("zsetting.present", {"name": self.name, "value": now})
        )


class Gone(Resource, kind="zgone.absent"):
    """The absence of a setting."""

    def uids(self) -> tuple[Uid, ...]:
        """Return the setting."""
        return (("setting", self.name),)

    def desired(self) -> None:
        """The setting must not exist."""

    async def probe(self, ctx: Context) -> dict[str, Any] | None:
        """Return whether the setting exists."""
        if f"look {self.name}" in Setting.machine.broken:
            raise Setting.machine.broken[f"look {self.name}"]
        await Setting.machine.gate(f"look {self.name}")
        return {"value": 1} if self.name in Setting.machine.settings else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the setting."""
        Setting.machine.log.append(f"remove {self.name}")
        del Setting.machine.settings[self.name]


class Action(Resource, kind="zaction.run"):
    """An action: runs, and maintains nothing."""

    machine: ClassVar[Machine]
    what: str = "it"

    def uids(self) -> tuple[Uid, ...]:
        """Return the setting of that name, which the action may change."""
        return (("setting", self.name),)

    def action(self) -> bool:
        """Return whether this is an action: always."""
        return True

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Run, or raise what the test wants."""
        with self.machine.at(self.name):
            if apply:
                self.machine.log.append(f"run {self.name}")
                self.machine.done.append(f"look {self.name}")
                await self.machine.gate(f"apply {self.name}")
                if self.name in self.machine.broken:
                    raise self.machine.broken[self.name]
                self.machine.done.append(f"run {self.name}")
        ctx.report.changes = {"ran": True}
        return False


class FakeContext:
    """The parts of a context that these kinds need."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.assignment, self.report = UNASSIGNED, Report()
        self.log = SilentLog()

    async def blocking(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call a blocking function without a thread: virtual time does not wait for threads."""
        return call(*arguments)

    def keeping(self, *, private: bool) -> AbstractContextManager[None]:
        """Keep nothing."""
        return nullcontext()

    def redacted(self, value: Any) -> Any:
        """Return the text: there are no secrets."""
        return value

    def source_version(self) -> str:
        """Return no version: there are no sources."""
        return ""

    def watch_path(self, *_: str) -> Watch:
        """Watch without ever reporting."""
        return idle()

    def send(self, **values: Any) -> None:
        """Publish values."""
        self.assignment.demand_sendable(values)
        self.report.sent.update(values)


class FakeHost:
    """A host whose contexts are fake."""

    def context(self, identity: str) -> Any:
        """Return the context of a resource."""
        return FakeContext(identity)
