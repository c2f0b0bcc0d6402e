"""A small machine of named settings to manage, a clock that jumps, and an engine on both."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from heapq import heappop
from pathlib import Path
from typing import Any, ClassVar, ParamSpec
from unittest.mock import patch

from holdfast import Context, Delta, Permanent, Refreshable, Resource, Watch
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, Notice, Outcome, PassEnded, PassRecord, Ran
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.resources.context import Report, announced
from holdfast.resources.contract import Uid
from holdfast.resources.dependencies import Dependency
from holdfast.resources.meta import Meta
from holdfast.resources.testing import SilentLog
from holdfast.resources.traits import Declaration, Edgeable, Groupable, Member, Reversible
from holdfast.resources.watches import idle
from holdfast.states.compile.sequences import superseded
from holdfast.states.data import Call, Compilation
from holdfast.states.parse.marks import At, Document, Spot
from holdfast.states.requisite_kinds import RECV, RELATIONS

P = ParamSpec("P")
LATER = "superseded_by"
"""What a state says of those that come later and say something else of its setting."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it, and that takes one step at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self.steps = 0
        """Taken so far."""
        self.after_step: Callable[[], None] | None = None
        """Called after each."""

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now

    def world_clock(self, start: float) -> AbstractContextManager[object]:
        """Meanwhile the clock of the world goes as this one: `time.time()` is `start`, and what has passed here since the loop was made."""
        return patch.object(time, "time", lambda: start + self._now)

    def _run_once(self) -> None:
        self._drop_cancelled()
        if not self._ready:
            if not self._scheduled:
                super()._run_once()  # only somebody from outside can go on
                return
            self._now = max(self._now, self._scheduled[0]._when)
        while self._scheduled and self._scheduled[0]._when <= self._now:
            timer = heappop(self._scheduled)
            timer._scheduled = False
            self._ready.append(timer)
            self._drop_cancelled()
        step = self._ready.popleft()
        if not step._cancelled:
            step._run()
            self.steps += 1
            if self.after_step:
                self.after_step()

    def _drop_cancelled(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:
            heappop(self._scheduled)._scheduled = False
            self._timer_cancelled_count -= 1


@dataclass
class Machine:
    """What there is to manage: settings that drift, fail, hang, and remember who touched them."""

    settings: dict[str, str] = field(default_factory=dict)
    broken: dict[str, Exception] = field(default_factory=dict)
    """Name -> what applying it raises; `look name`, `refresh name`: what that raises."""
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    """Name -> what a look at it waits for; `apply name`, `refresh name`: what that waits for, once it has begun; `watch name`: before it is armed."""
    unwatchable: set[str] = field(default_factory=set)
    watchers: dict[str, asyncio.Queue[None]] = field(default_factory=dict)
    armed: Counter[str] = field(default_factory=Counter)
    """Names that somebody watches, and how often."""
    log: list[str] = field(default_factory=list)
    """`check x`, `apply x`, `refresh x`, in the order in which they happened."""
    done: list[str] = field(default_factory=list)
    """`look x` when one begins, `change x`, `refresh x`, `run x` when it has really happened."""
    most: int = 0
    """The most runs there ever were at once."""
    now: int = 0
    busy: list[str] = field(default_factory=list)
    """Names that something is being done to, now."""
    overlaps: list[str] = field(default_factory=list)
    """Names to which two things were ever done at once."""

    @contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Something is being done to it."""
        if name in self.busy:
            self.overlaps.append(name)
        self.busy.append(name)
        try:
            yield
        finally:
            self.busy.remove(name)

    async def gate(self, name: str) -> None:
        """Wait as long as somebody wants that."""
        if name in self.gates:
            await self.gates[name].wait()

    def hold(self, name: str) -> None:
        """From now on it waits."""
        self.gates.setdefault(name, asyncio.Event())

    def free(self, *names: str) -> None:
        """Whatever waits (of these names, or of all) goes on."""
        for name in names or tuple(self.gates):
            self.gates.pop(name).set()

    def drift(self, name: str, value: str = "drifted") -> None:
        """Somebody changes a setting by hand."""
        self.settings[name] = value
        self.touch(name)

    def touch(self, name: str) -> None:
        """The watch of a setting tells of something."""
        self.watchers[name].put_nowait(None)


class Setting(Refreshable, Resource, kind="zsetting.present"):
    """One setting of the fake machine."""

    machine: ClassVar[Machine]
    value: str = "right"

    def uids(self) -> tuple[Uid, ...]:
        """Any kind that manages this setting."""
        return (("setting", self.name),)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """As any kind with a probe."""
        with self.machine.at(self.name):
            return await super().check_apply(ctx, apply)

    async def probe(self, ctx: Context) -> dict[str, Any] | None:
        """Look at the machine."""
        machine = self.machine
        machine.now += 1
        machine.most = max(machine.most, machine.now)
        try:
            machine.log.append(f"check {self.name}")
            machine.done.append(f"look {self.name}")
            if f"look {self.name}" in machine.broken:
                raise machine.broken[f"look {self.name}"]
            await machine.gate(self.name)
        finally:
            machine.now -= 1
        return {"value": machine.settings[self.name]} if self.name in machine.settings else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Change the machine, unless that is broken."""
        self.machine.log.append(f"apply {self.name}")
        if self.name in self.machine.broken:
            raise self.machine.broken[self.name]
        self.machine.settings[self.name] = self.value
        self.machine.done.append(f"change {self.name}")
        await self.machine.gate(f"apply {self.name}")

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Remember that it was refreshed."""
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
        """Tell of each drift."""
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
    """A setting that can be set together with others."""

    bundle: str = "one"

    def group(self) -> Hashable:
        """By what the state says."""
        return self.bundle or None

    @classmethod
    async def apply_together(cls, members: Sequence[Member]) -> list[None]:
        """Set them all, unless one of them is broken."""
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
        """Without its bundle, which is nothing on the machine."""
        found = await super().probe(ctx)
        return found and {**found, "bundle": self.bundle}


class Placed(Edgeable, Setting, kind="zplaced.present"):
    """A setting that cannot be set while another one is missing."""

    within: str = ""
    strict: bool = True
    """False: it can be set all the same."""
    owner: str = ""
    """Whose it is, by name."""

    def offers(self) -> tuple[tuple[str, str], ...]:
        """Itself, as a place and as an owner."""
        return (*self.uids(), ("user", self.name))

    def dependencies(self) -> tuple[Dependency, ...]:
        """The other ones."""
        return (
            *([Dependency("setting", self.within)] if self.within else ()),
            *([Dependency("user", self.owner)] if self.owner else ()),
        )

    async def probe(self, ctx: Any) -> Any:
        """Without its place, which is nothing on the machine."""
        found = await super().probe(ctx)
        return found and {**found, "within": self.within, "strict": self.strict, "owner": self.owner}

    async def apply(self, ctx: Any, delta: Any) -> None:
        """Fail where there is no place for it."""
        if self.strict and self.within and self.within not in self.machine.settings:
            raise Permanent(f"{self.within} is missing")
        await super().apply(ctx, delta)


class Borrowed(Reversible, Setting, kind="zborrowed.present"):
    """A setting that can be given back."""

    async def inverse(self, ctx: Context) -> Declaration | None:
        """What it is now."""
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
    """No setting of that name."""

    def uids(self) -> tuple[Uid, ...]:
        """The setting."""
        return (("setting", self.name),)

    def desired(self) -> None:
        """Nothing."""

    async def probe(self, ctx: Context) -> dict[str, Any] | None:
        """What is there."""
        if f"look {self.name}" in Setting.machine.broken:
            raise Setting.machine.broken[f"look {self.name}"]
        await Setting.machine.gate(f"look {self.name}")
        return {"value": 1} if self.name in Setting.machine.settings else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Take it away."""
        Setting.machine.log.append(f"remove {self.name}")
        del Setting.machine.settings[self.name]


class Action(Resource, kind="zaction.run"):
    """Something done, not kept."""

    machine: ClassVar[Machine]
    what: str = "it"

    def uids(self) -> tuple[Uid, ...]:
        """It may do something to the setting of that name."""
        return (("setting", self.name),)

    def action(self) -> bool:
        """It cannot tell whether it is needed."""
        return True

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Do it."""
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


KINDS: dict[str, type[Resource]] = {
    "zsetting.present": Setting,
    "zbundled.present": Bundled,
    "zplaced.present": Placed,
    "zborrowed.present": Borrowed,
    "zaction.run": Action,
}
"""Kinds that `compilation` knows; a test may add its own."""


class FakeContext:
    """The least of a context that these kinds need."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.report = Report()
        self.log = SilentLog()

    def redacted(self, value: Any) -> Any:
        """There are no secrets."""
        return value

    def source_version(self) -> str:
        """There are no sources."""
        return ""

    def watch_path(self, *_: str) -> Watch:
        """Nobody tells of files."""
        return idle()

    def send(self, **values: Any) -> None:
        """Publish values."""
        self.report.send(values)


class FakeHost:
    """Hands out contexts."""

    def context(self, identity: str) -> Any:
        """One context for each resource."""
        return FakeContext(identity)


def state(
    name: str, /, kind: str = "zsetting.present", *, meta: Mapping[str, Any] | None = None, **spec: Any
) -> tuple[Any, ...]:
    """One declared state: `state("b", require=["a"], value="x")`."""
    return name, kind, dict(meta or {}), spec


def compilation(*states: tuple[Any, ...]) -> Compilation:
    """Compile states that stand in order of execution; requisites, and senders as `id`, name earlier (or, prereq and listen, any) states."""
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
        resource = KINDS[kind].declare(low["name"], **arguments)
        calls.append(
            Call(
                i,
                f"{kind}[{name}]",
                low,
                Spot(Document("test.sls", ""), At(i, -1)),
                resource,
                Meta.model_validate(meta),
                requisites,
            )
        )
    return Compilation(superseded(tuple(calls), later))


async def at_once(call: Callable[..., object], *args: object) -> object:
    """Instead of a thread: in virtual time nobody waits for one."""
    return call(*args)


class Bench:
    """An engine on a fake machine, and what it told."""

    def __init__(self, machine: Machine, journal: Path | None = None) -> None:
        self.machine = machine
        self.journal_path = journal
        self.events: list[Event] = []
        self._told = asyncio.Event()

    def engine(self, *, watch: bool = True, **options: Any) -> Engine:
        """A new engine; its journal is the file of before, if there is one."""
        self.journal = self.open_journal()
        return Engine(FakeHost(), EngineOptions(**{"recheck": 0, **options}), self.journal, self._emit, watch=watch)

    def open_journal(self) -> Journal:
        """The file of before, if there is one; it need not outlive a loss of power."""
        return Journal(self.journal_path, durable=False, blocking=at_once)

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        self._told.set()

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Wait for an event that has come or will come."""
        seen = 0
        while True:
            for event in self.events[seen:]:
                if wanted(event):
                    return event
            seen = len(self.events)
            self._told.clear()
            await self._told.wait()

    def forget(self) -> None:
        """Forget what was told and done so far."""
        self.events.clear()
        self.machine.log.clear()

    def outcomes(self, name: str) -> list[Outcome]:
        """All outcomes of one state."""
        return [e.outcome for e in self.events if isinstance(e, Ran) and e.outcome.identity.endswith(f"[{name}]")]

    def notices(self, code: str) -> list[Notice]:
        """All notices of one code."""
        return [e for e in self.events if isinstance(e, Notice) and e.code == code]

    def passes(self) -> list[PassRecord]:
        """All passes that have ended."""
        return [e.record for e in self.events if isinstance(e, PassEnded)]


def simulate(scenario: Callable[[], Awaitable[None]], seconds: float = 1e6) -> None:
    """Run a scenario in virtual time; one that takes longer than `seconds` of it hangs."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await scenario()

    loop = VirtualLoop()
    with loop.world_clock(1e9), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(bounded())


def in_virtual_time(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test by `simulate`."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        simulate(lambda: test(*args, **kwargs))

    return run
