"""The daemon: makes the parts, ties them together, starts them, and stops them in order. Nothing else happens here.

    settings -> lock -> journal -> host -> engine -> control socket -> watch of the configuration -> states

States that do not compile, at the start or later, are reported and waited for; the last good graph keeps running.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.agent.config_watch import ConfigWatch
from holdfast.agent.connections import Exhaustion
from holdfast.agent.control.account import Account
from holdfast.agent.control.schema import ControlError, Request
from holdfast.agent.control.server import ControlServer
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.report import Cause, Event, Notice, Outcome, PassEnded, Ran
from holdfast.agent.engine.status import paused, rows
from holdfast.agent.engine.tables import Rows
from holdfast.agent.grain_watch import GrainWatch
from holdfast.agent.guard import Guard
from holdfast.agent.health import Condition, Health
from holdfast.agent.host import descriptors, holds
from holdfast.agent.host.administrator import Administrator
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.forkserver import server as forkserver
from holdfast.agent.host.host import Host
from holdfast.agent.host.power import Power
from holdfast.agent.host.run import kill_all
from holdfast.agent.insight import process
from holdfast.agent.insight.exporter import Exporter
from holdfast.agent.insight.insight import Insight, find
from holdfast.agent.loggers import Late
from holdfast.agent.logs import Logs
from holdfast.agent.narrate import Narrator, duration
from holdfast.agent.notify import Notifier
from holdfast.agent.pausing import PAUSED, Pausing
from holdfast.agent.places import CONFIG
from holdfast.agent.presence import Presence
from holdfast.agent.settings import Settings, load
from holdfast.agent.statedir import JOURNAL, LOCK, Lock, absorb, open_journal, private_directory
from holdfast.agent.tasks import Tasks
from holdfast.agent.tree import Compiled, Trees, made_from
from holdfast.agent.watched import Watched
from holdfast.agent.words import first_of, number_of
from holdfast.states.errors import CompileError, Place, Problem
from holdfast.states.gc_pause import GcPolicy

log = Late("holdfast")

FIXED = ("state_dir", "control", "providers")
"""Settings that are read at the start only."""
BOOTED = Path("/run/systemd/system")
"""It is there where systemd runs the system, which then tells of a shutdown."""
NEWS: tuple[Cause, ...] = ("start", "states changed", "grains changed")
"""Why states are taken over: where there are several reasons, the first of these is told."""
BROKEN = "states-broken"
"""Code of the health condition that says that the configuration cannot be used as it is."""
UNWATCHED = "watch-broken"
"""Code of the health condition that says that watches of resources have failed."""


class Daemon:
    """One running agent. `config` None means /etc/holdfast/agent.yaml; `overrides` come from the command line."""

    def __init__(self, config: Path | None, overrides: Mapping[str, Any]) -> None:
        self._config, self._overrides = config, overrides
        self.settings = load(config, overrides)
        self.health = Health()
        self._tasks = Tasks(self.health)
        self._logs = Logs(self.settings.log)
        self._notifier = Notifier()
        self._trees = Trees()
        self._presence = Presence()
        self._blocking = Blocking(1)
        self._collector = GcPolicy()
        self._started = time.time()
        self._reloaded: float | None = None
        """Unix time at which settings and states were last taken over."""
        self._stop = asyncio.Event()
        self._stops = 0
        """How often it was asked to stop by a signal."""
        self._wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[list[Problem]]] = []
        """Those who asked for a reload and wait for what came of it."""
        self._news: set[Cause] = set()
        """Why states are to be taken over, since that has succeeded last."""
        self._taken_over = False
        """The first states are."""
        self._outdated: set[str] = set()
        """Resources that have read grains or pillar which have changed since, until the engine looks at them again."""
        self._resources = 0
        self._failing: set[str] = set()
        self._warned: frozenset[Problem] = frozenset()
        self._conditions: dict[str, Condition] = {}
        self._insight = Insight(self._state)
        self._exporter = Exporter(lambda: self._insight.text(self._engine.view), self.health, process.text)
        self._account: Account | None = None
        """Of the last one-shot run beside this agent."""
        self._triggered: dict[str, list[asyncio.Future[Outcome]]] = {}
        """Resource -> those who wait for what comes of its run."""

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT (a second one is more urgent, a third kills). Raises `HoldfastError` or `OSError` when it cannot even start."""
        async with AsyncExitStack() as stack:
            stack.callback(self._logs.close)
            stack.enter_context(self._collector.installed())
            await self._start(stack)
            log.info("holdfast %s keeps this host as %s says (pid %d)", __version__, self.settings.states, os.getpid())
            self._want("start")
            self._notifier.ready()
            self._say()
            self._notifier.start_watchdog()
            await self._stop.wait()
            log.info("stopping")
            self._notifier.stopping()

    async def _start(self, stack: AsyncExitStack) -> None:
        """Make and start the parts; `stack` stops them in reverse order."""
        settings = self.settings
        asyncio.get_running_loop().set_exception_handler(Exhaustion(self.health).handle)
        descriptors.raise_limit()
        holds.prepare()
        stack.callback(forkserver.stop)
        directory = private_directory(settings.state_dir)
        lock = stack.enter_context(Lock(directory / LOCK, "start the agent"))
        stack.callback(self._notifier.close)
        stack.push_async_callback(self._tasks.stop)
        self._journal = open_journal(directory / JOURNAL, self.health, durable=settings.durable)
        stack.callback(self._journal.close)
        await absorb(directory, self._journal, self.health)
        if self._journal.known:
            self._presence.expect(settings.states)
        self._host = await stack.enter_async_context(self._make_host())
        administrator = Administrator(self._host.interface, self.health)
        self._engine = Engine(self._host, settings.engine, self._journal, self._emit, obstacle=administrator.obstacle)
        self._pausing = Pausing(self._engine, self.health)
        stack.push_async_callback(self._stop_engine)
        self._grains = GrainWatch(
            lambda: self._blocking(self._trees.grains, self.settings), self._grains_changed, self._host.paths.watch
        )
        stack.push_async_callback(self._grains.close)
        self._watch = ConfigWatch(
            self._watched(settings), settings.watch, self._config_changed, self.health, self._host.paths
        )
        works = {
            "watch of the configuration": self._watch.run(),
            "reconciling": self._reconcile(),
            "administrator": administrator.run(),
        }
        if BOOTED.is_dir():
            works["power"] = Power(self._host.bus(), self._goes_down, self._awake).run()
        for name, work in works.items():
            stack.push_async_callback(_end, self._tasks.start(name, work))
        self._engine.pauses.restore()
        server = ControlServer(settings.socket, self, self._logs)
        await server.start()
        stack.push_async_callback(server.stop)
        guard = Guard(directory, lock, self._journal, server, self.health)
        stack.push_async_callback(_end, self._tasks.start("guard of the state directory", guard.run()))
        stack.push_async_callback(self._exporter.stop)
        await self._exporter.use(settings.metrics)
        self.health.listen = self._health_changed
        self._health_changed()
        self._listen_to_signals()

    # -- what can be asked of it (control.server.Agent) --------------------------------------------------------

    def status(self, most: int | None) -> dict[str, Any]:
        """The agent and its health, ready for JSON, and an iterator over the rows of its resources: all, or `most` and how many there are."""
        counts = {} if most is None else {"counts": dict(self._engine.view.census.states())}
        return {**self._state(), **counts, "resources": rows(lambda: self._engine.view, most)}

    def look(self, request: Request) -> Any:
        """What a verb that only looks asks for. Raises `ControlError`."""
        return self._insight.answer(request, self._engine.view)

    def frame(self) -> dict[str, Any]:
        """What is now, for the live view."""
        return self._insight.frame(self._engine.view)

    def _state(self) -> dict[str, Any]:
        """The agent and its health."""
        agent = {
            "pid": os.getpid(),
            "version": __version__,
            "id": self._host.facts.get("id") or self.settings.id or socket.gethostname(),
            "started": self._started,
            "states": str(self.settings.states),
            "noop": self.settings.engine.noop,
            "paused": self._engine.paused,
            "pauses": self._logs.redactor([paused(each) for each in self._engine.pauses]),
            "reload": {"successful": BROKEN not in self._conditions, "at": self._reloaded},
            "converged": self._engine.converged and self._taken_over and BROKEN not in self._conditions,
            "status": self._summary(),
        }
        agent["stuck"] = not agent["converged"] and (
            BROKEN in self._conditions or (self._taken_over and self._engine.stuck)
        )
        health = [
            {"code": c.code, "severity": c.severity, "text": c.text, "since": c.since} for c in self.health.conditions
        ]
        return {**agent, "health": health}

    async def pause(self, request: Request) -> dict[str, Any]:
        """Repair nothing of what the request names, until `resume` or for a time. Raises `ControlError`."""
        return await self._pausing.pause(request)

    async def resume(self, request: Request) -> dict[str, Any]:
        """Go on after a pause. Raises `ControlError`."""
        return await self._pausing.resume(request)

    def _goes_down(self, down: bool) -> None:
        """The system goes down, or stays up after all."""
        (self._engine.pause if down else self._engine.resume)("going-down")
        self._say()

    def _awake(self) -> None:
        """The system has slept: nobody knows what has changed meanwhile."""
        log.info("the system has slept: checking everything")
        self._engine.recheck("recheck")

    def recheck(self) -> dict[str, Any]:
        """Look at every resource now; when `paused`, after that."""
        self._engine.recheck()
        return {"paused": self._engine.paused}

    async def trigger(self, identity: str) -> dict[str, Any]:
        """Run one resource now, and say what came of it. Raises `ControlError` when there is no such resource."""
        vertex = find(identity, self._engine.view, "trigger")
        identity = vertex.identity
        if by := self._engine.pauses.named(vertex):
            raise ControlError(
                f"cannot trigger {identity}: {by.pattern} is {by.said}; `holdfast resume '{by.pattern}'` first"
            )
        self._engine.trigger(identity)
        if self._engine.going_down:
            return {"text": f"the system goes down: {identity} is not run", "result": None}
        if self._engine.paused:
            return {"text": f"paused: {identity} runs after `holdfast resume`", "result": None}
        ran: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._triggered.setdefault(identity, []).append(ran)
        outcome = await ran
        line = Narrator().tell(Ran(0, outcome))
        return {"text": line.text if line else "", "result": outcome.result}

    def keeps(self) -> str:
        """Which states this agent keeps."""
        return self.settings.tree

    def rows(self, tree: str) -> Rows | None:
        """What the journal knows, for a one-shot run beside this agent; None when that works on other states."""
        return self._journal.rows() if tree == self.settings.tree else None

    def account(self, pid: int) -> Account:
        """For a one-shot run of this process. Raises `ControlError` while there is another one: each could undo what the other does."""
        other = self._account
        if other and not other.closed:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(other.since))
            raise ControlError(
                f"another apply (process {other.pid}) has been at work since {since}; wait until it has ended, or end it"
            )
        self._account = Account(self._journal, self._engine, pid)
        return self._account

    async def reload(self) -> dict[str, Any]:
        """Read settings and states again, and wait until that is done; `problems` says what is wrong with them."""
        problems = await self._request_reload()
        return {"problems": [problem.as_dict() for problem in problems], "resources": self._resources}

    def _request_reload(self) -> asyncio.Future[list[Problem]]:
        self._host.sources.touched(None)
        answer: asyncio.Future[list[Problem]] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._want("states changed")
        return answer

    # -- settings and states -----------------------------------------------------------------------------------

    def _watched(self, settings: Settings) -> Watched:
        return Watched.of(settings, (self._config or CONFIG).absolute())

    def _config_changed(self, paths: list[str]) -> None:
        self._host.sources.touched(paths)
        log.info("the configuration has changed: %s", first_of(paths))
        self._want("states changed")

    def _grains_changed(self) -> None:
        self._want("grains changed")

    def _want(self, why: Cause) -> None:
        self._news.add(why)
        self._wanted.set()

    async def _reconcile(self) -> None:
        """Make the engine's graph what the configuration says, each time somebody wants it."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            news, self._news = self._news, set()
            problems: list[Problem] = []
            try:
                await self._take_over(next(cause for cause in NEWS if cause in news))
                self._reloaded = time.time()
                self.health.clear(BROKEN)
            except CompileError as error:
                problems = list(error.problems)
            except (OSError, sqlite3.Error) as error:
                problems = [
                    Problem(
                        Place(str(self.settings.state_dir)), "agent-trouble", f"cannot take the states over: {error}"
                    )
                ]
            except Exception as error:
                log.exception("cannot take the states over")
                text = f"cannot take the states over: {type(error).__name__}: {error}"
                problems = [
                    Problem(
                        Place(str(self.settings.states)), "agent-bug", text, "a kind of yours, or a bug in Holdfast"
                    )
                ]
            if problems:
                self._news |= news
                self._report(problems)
            for answer in waiting:
                if not answer.done():
                    answer.set_result(problems)
            self._say()

    async def _take_over(self, cause: Cause) -> None:
        """Read settings, compile, swap. Raises `CompileError` before anything has changed."""
        settings: Settings = await self._blocking(load, self._config, self._overrides)
        # Before states and pillar are read: what is mended, or changed meanwhile, is noticed.
        await self._watch.update(self._watched(settings), settings.watch)
        began = time.monotonic()
        compiled: Compiled = await self._blocking(self._compile, settings)
        self._apply_settings(settings)
        await self._exporter.use(settings.metrics)
        self._warn(compiled.warnings)
        self._resources = len(compiled.compilation.calls)
        log.info("compiled %s in %s", number_of(self._resources, "state"), duration(time.monotonic() - began))
        if not self._resources:
            log.info("there is nothing to do: no state in %s applies to %s", settings.states, compiled.grains["id"])
        self._outdated |= self._host.update(
            facts=compiled.grains, pillar=compiled.pillar, options=compiled.options, managed=compiled.managed
        )
        self._logs.redactor = self._host.redactor
        declared = {call.identity for call in compiled.compilation.calls}
        self._failing &= declared
        self._host.forget_all_but(declared)
        async with self._host.taken_over(compiled.compilation.calls, settings.states) as edition:
            options = settings.engine
            swap = self._engine.swap(
                compiled.compilation, cause=cause, options=options, outdated=self._outdated, anew=edition.anew
            )
            left = await swap
        self._outdated = set()
        self._collector.replaced(left, self._resources)
        self._watch.follow(made_from(compiled, edition))
        self._tell_of_watches()
        self._taken_over = True
        read = compiled.read | (frozenset() if settings.id else {"id"})
        self._grains.use(compiled.grains, lambda: read | self._host.read)
        self._presence.note(self._read_from(settings))

    def _compile(self, settings: Settings) -> Compiled:
        """Compile, unless a directory of the configuration is gone. Raises `CompileError`. Blocks."""
        self._presence.demand(self._read_from(settings))
        compiled = self._trees.compile(settings)
        self._presence.demand(self._read_from(settings))  # it may have gone meanwhile
        return compiled

    def _read_from(self, settings: Settings) -> tuple[Path, ...]:
        """What has to be there once it was: agent.yaml, its directory, states and pillar."""
        config = (self._config or CONFIG).absolute()
        return tuple(filter(None, (config, config.parent, settings.states, settings.pillar)))

    def _apply_settings(self, settings: Settings) -> None:
        """Take over settings that have changed."""
        before, self.settings = self.settings, settings
        if settings == before:
            return
        late = [name for name in FIXED if getattr(settings, name) != getattr(before, name)]
        if late:
            log.warning("the change of %s takes effect when the agent is started again", ", ".join(late))
        self._logs.configure(settings.log)
        self._host.states, self._host.durable = settings.states, settings.durable

    def _report(self, problems: list[Problem]) -> None:
        """Say what is wrong, all of it, and what goes on in spite of it."""
        for problem in problems:
            log.error(str(problem), code=problem.code)
        running = "the last good graph keeps running" if self._taken_over else "nothing runs until it is mended"
        text = f"the configuration cannot be used ({number_of(len(problems), 'problem')}); {running}"
        log.error(text, code=BROKEN)
        hint = f" ({problems[0].hint})" if problems[0].hint else ""
        self.health.set(BROKEN, f"{problems[0].place}: {problems[0].message}{hint}; {text}", "error")

    def _warn(self, warnings: tuple[Problem, ...]) -> None:
        """Say each thing that is only strange once."""
        for problem in warnings:
            if problem not in self._warned:
                log.warning(str(problem), code=problem.code)
        self._warned = frozenset(warnings)

    # -- what it says ------------------------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        self._logs.emit(event)
        self._insight.tell(event)
        self._grains.tell(event)
        if isinstance(event, Ran):
            (self._failing.add if event.outcome.result is False else self._failing.discard)(event.outcome.identity)
            for waiting in self._triggered.pop(event.outcome.identity, ()):
                if not waiting.done():
                    waiting.set_result(event.outcome)
        elif isinstance(event, Notice) and event.code == "left":
            for waiting in self._triggered.pop(event.identity, ()):
                if not waiting.done():
                    waiting.set_exception(ControlError(f"cannot trigger {event.identity}: it is declared no more"))
        elif isinstance(event, Notice) and event.code in ("watch-failed", "watched-again"):
            self._tell_of_watches()
        elif isinstance(event, Notice) and event.code in ("paused", "resumed"):
            self._pausing.tell()
            self._say()
        elif isinstance(event, PassEnded):
            self._collector.built(len(event.record.outcomes))
            self._say()

    def _tell_of_watches(self) -> None:
        """Say which resources are not watched, and why."""
        broken = self._engine.view.unwatched
        if not broken:
            self.health.clear(UNWATCHED)
            return
        vertex, why = next(iter(broken.items()))
        others = f" (and {number_of(len(broken) - 1, 'other')})" if len(broken) > 1 else ""
        self.health.set(
            UNWATCHED,
            f"cannot watch {vertex.identity}{others}: {why}; drift there is not noticed until its watch works again",
        )

    def _health_changed(self) -> None:
        """Log conditions that begin and end; of broken states more was said already."""
        now = {condition.code: condition for condition in self.health.conditions}
        for code in now.keys() - self._conditions.keys() - {BROKEN, PAUSED}:
            log.warning(now[code].text, code=code)
        if BROKEN in self._conditions and BROKEN not in now:
            log.info("mended: states and settings can be used again", code=BROKEN)
        for code in self._conditions.keys() - now.keys() - {BROKEN, PAUSED}:
            log.info(
                "no longer: %s", self._conditions[code].text.partition("; ")[0], code=code
            )  # without what to do about it
        self._conditions = now
        self._say()

    def _summary(self) -> str:
        """The state of things in one line."""
        if BROKEN in self._conditions:
            return self._conditions[BROKEN].text
        if not self._taken_over:
            return "starting: the states are being read"
        if self._engine.going_down:
            return "the system goes down: nothing is repaired"
        view, total = self._engine.view, number_of(self._resources, "resource")
        counted = {
            "failed or wait for one that did": len(self._failing),
            "drifted (paused)": sum(vertex.paused for vertex in view.differing),
            "would be changed (noop)": sum(not vertex.paused for vertex in view.differing),
            "not watched": len(view.unwatched),
        }
        wrong = "; ".join(f"{number} of {total} {what}" for what, number in counted.items() if number)
        if self._engine.paused:
            said = next((each.said for each in self._engine.pauses if not each.pattern), "paused")
            return f"{said}: drift is noticed, nothing is repaired{wrong and '; '}{wrong}"
        if wrong:
            return wrong
        looking = " (noop: nothing is changed)" if self._engine.options.noop else ""
        return f"{'converged' if self._engine.converged else 'at work'}: {total}{looking}"

    def _say(self) -> None:
        self._notifier.status(self._logs.redactor(self._summary()))

    # -- start and end -----------------------------------------------------------------------------------------

    def _make_host(self) -> Host:
        settings = self.settings
        return Host(
            states=settings.states,
            var_dir=settings.state_dir,
            providers=settings.providers,
            durable=settings.durable,
            health=self.health,
            tasks=self._tasks,
        )

    async def _stop_engine(self) -> None:
        """Let what runs finish for `stop_timeout`, then cancel it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.engine.stop_timeout + 0.7):
                await self._engine.stop(self.settings.engine.stop_timeout)

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_by_signal)
        loop.add_signal_handler(signal.SIGHUP, self._reload_by_signal)
        loop.add_signal_handler(signal.SIGUSR1, self._recheck_by_signal)

    def _stop_by_signal(self) -> None:
        """The first time what runs may finish, for a while; the second time it is cancelled; the third time all ends, whatever it does."""
        self._stops += 1
        if self._stops == 1:
            self._stop.set()
        elif self._stops == 2:
            log.warning("stopping at once: what runs is cancelled; once more kills it")
            self._engine.hurry()
        else:
            log.error("killed: what runs has no chance to tidy up")
            self._logs.close()
            kill_all()
            os._exit(128 + signal.SIGKILL)

    def _reload_by_signal(self) -> None:
        log.info("reloading")
        self._notifier.reloading()
        self._request_reload().add_done_callback(lambda _: self._notifier.ready())

    def _recheck_by_signal(self) -> None:
        log.info("checking everything")
        self.recheck()


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is over."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def run(config: Path | None, overrides: Mapping[str, Any]) -> None:
    """Run the agent in the foreground. Raises `HoldfastError` or `OSError` when it cannot start."""
    asyncio.run(_run(config, overrides))


async def _run(config: Path | None, overrides: Mapping[str, Any]) -> None:
    await Daemon(config, overrides).run()
