"""The daemon: makes the parts, connects them, starts them, and stops them in order. It has no other logic.

    settings -> lock -> journal -> host -> engine -> control socket -> watch of the configuration -> states

If states do not compile, at the start or later, the daemon reports the errors and waits for a change; the last good
graph keeps running.
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
from holdfast.agent.configuration import Compiled, ConfigurationCompiler
from holdfast.agent.configuration_files import ConfigurationFiles, made_from
from holdfast.agent.connections import Exhaustion
from holdfast.agent.control.journal_session import JournalSession
from holdfast.agent.control.schema import ControlError, ControlRequest
from holdfast.agent.control.server import ControlServer
from holdfast.agent.engine.deliver.tables import Rows
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.status import paused, rows
from holdfast.agent.engine.model.events import Cause, Event, Notice, Outcome, PassEnded, PassStarted, Ran, Started
from holdfast.agent.grain_watch import GrainWatch
from holdfast.agent.health import Condition, Health
from holdfast.agent.host import containment, descriptors
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.forkserver import server as forkserver
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.package_changes import PackageChanges
from holdfast.agent.host.power import Power
from holdfast.agent.host.run import kill_all
from holdfast.agent.insight import process
from holdfast.agent.insight.exporter import Exporter
from holdfast.agent.insight.insight import Insight, find
from holdfast.agent.loggers import LazyLogger
from holdfast.agent.logs import Logs
from holdfast.agent.narrate import Narrator, duration
from holdfast.agent.notify import Notifier
from holdfast.agent.paths import CONFIG
from holdfast.agent.pausing import PAUSED, Pausing
from holdfast.agent.phrases import first_of, number_of
from holdfast.agent.presence import Presence
from holdfast.agent.self_check import SelfCheck
from holdfast.agent.settings import Settings, load
from holdfast.agent.statedir import JOURNAL, LOCK, Lock, absorb, open_journal, private_directory
from holdfast.agent.tasks import Tasks
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.gc_pause import GcPolicy

log = LazyLogger("holdfast")

FIXED = ("state_dir", "control", "providers")
"""Settings that are read only at the start."""
BOOTED = Path("/run/systemd/system")
"""Exists where systemd runs the system and therefore announces a shutdown."""
NEWS: tuple[Cause, ...] = ("start", "states changed", "grains changed")
"""Reasons to compile the states; if there are several, the first of these is reported."""
BROKEN = "states-broken"
"""Code of the health condition for a configuration that cannot be used."""
UNWATCHED = "watch-broken"
"""Code of the health condition for failed watches of resources."""


class Daemon:
    """One running agent. `config` None means /etc/holdfast/agent.yaml; `overrides` come from the command line."""

    def __init__(self, config: Path | None, overrides: Mapping[str, Any]) -> None:
        self._config, self._overrides = config, overrides
        self.settings = load(config, overrides)
        self.health = Health()
        self._tasks = Tasks(self.health)
        self._logs = Logs(self.settings.log)
        self._notifier = Notifier()
        self._compiler = ConfigurationCompiler()
        self._presence = Presence()
        self._blocking = Blocking(1)
        self._collector = GcPolicy()
        self._started = time.time()
        self._reloaded: float | None = None
        """Unix time at which settings and states were last applied."""
        self._stop = asyncio.Event()
        self._stops = 0
        """Number of signals to stop so far."""
        self._wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[list[Problem]]] = []
        """Callers of `reload` that wait for its result."""
        self._pending_events: set[Cause] = set()
        """Reasons to compile the states since that last succeeded."""
        self._taken_over = False
        """Whether the first states were applied."""
        self._outdated: set[str] = set()
        """Resources that have read grains or pillar that changed since, until the engine checks these resources
        again."""
        self._resources = 0
        self._failing: set[str] = set()
        self._warned: frozenset[Problem] = frozenset()
        self._conditions: dict[str, Condition] = {}
        self._insight = Insight(self._state)
        self._exporter = Exporter(lambda: self._insight.text(self._engine.view), self.health, process.text)
        self._journal_session: JournalSession | None = None
        """The session of the last one-shot run beside this agent."""
        self._triggered: dict[str, list[asyncio.Future[Outcome]]] = {}
        """Resource -> callers that wait for the outcome of its run."""

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. The second signal cancels what runs, the third kills.

        Raises `HoldfastError` or `OSError` if the agent cannot start.
        """
        async with AsyncExitStack() as stack:
            stack.callback(self._logs.close)
            stack.enter_context(self._collector.installed())
            await self._start(stack)
            log.info(
                "holdfast %s keeps this host as declared in %s (pid %d)", __version__, self.settings.states, os.getpid()
            )
            self._want("start")
            self._notifier.ready()
            self._say()
            self._notifier.start_watchdog()
            await self._stop.wait()
            log.info("stopping")
            self._notifier.stopping()

    async def _start(self, stack: AsyncExitStack) -> None:
        """Create and start the parts; `stack` stops them in reverse order."""
        settings = self.settings
        asyncio.get_running_loop().set_exception_handler(Exhaustion(self.health).handle)
        descriptors.raise_limit()
        containment.prepare()
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
        package_changes = PackageChanges(self._host.interface, self.health)
        self._engine = Engine(self._host, settings.engine, self._journal, self._emit, obstacle=package_changes.obstacle)
        self._pausing = Pausing(self._engine, self.health)
        stack.push_async_callback(self._stop_engine)
        self._grains = GrainWatch(
            lambda: self._blocking(self._compiler.grains, self.settings), self._grains_changed, self._host.paths.watch
        )
        stack.push_async_callback(self._grains.close)
        self._watch = ConfigWatch(
            self._watched(settings), settings.watch, self._config_changed, self.health, self._host.paths
        )
        works = {
            "watch of the configuration": self._watch.run(),
            "reconciling": self._reconcile(),
            "package changes": package_changes.run(),
        }
        if BOOTED.is_dir():
            works["power"] = Power(self._host.bus(), self._goes_down, self._awake).run()
        for name, work in works.items():
            stack.push_async_callback(_end, self._tasks.start(name, work))
        self._engine.pauses.restore()
        server = ControlServer(settings.socket, self, self._logs)
        await server.start()
        stack.push_async_callback(server.stop)
        self_check = SelfCheck(directory, lock, self._journal, server, self.health)
        stack.push_async_callback(_end, self._tasks.start("check of the agent's own files", self_check.run()))
        stack.push_async_callback(self._exporter.stop)
        await self._exporter.use(settings.metrics)
        self.health.listen = self._health_changed
        self._health_changed()
        self._listen_to_signals()

    # -- requests of clients (control.server.Agent) ------------------------------------------------------------

    def status(self, most: int | None) -> dict[str, Any]:
        """The agent and its health, ready for JSON, with an iterator over the rows of its resources.

        `most` limits the rows and adds the number of resources in each state; None means all rows.
        """
        counts = {} if most is None else {"counts": dict(self._engine.view.census.states())}
        return {**self._state(), **counts, "resources": rows(lambda: self._engine.view, most)}

    def look(self, request: ControlRequest) -> Any:
        """The answer to a read-only verb. Raises `ControlError`."""
        return self._insight.answer(request, self._engine.view)

    def frame(self) -> dict[str, Any]:
        """The present state, for the live view."""
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

    async def pause(self, request: ControlRequest) -> dict[str, Any]:
        """Stop repairing what the request names, until `resume` or for some time. Raises `ControlError`."""
        return await self._pausing.pause(request)

    async def resume(self, request: ControlRequest) -> dict[str, Any]:
        """Resume repairs after a pause. Raises `ControlError`."""
        return await self._pausing.resume(request)

    def _goes_down(self, down: bool) -> None:
        """React to the start of a shutdown, or to its cancellation."""
        (self._engine.pause if down else self._engine.resume)("going-down")
        self._say()

    def _awake(self) -> None:
        """React to the end of a sleep: anything may have changed meanwhile."""
        log.info("the system has slept: checking everything")
        self._engine.recheck("recheck")

    def recheck(self) -> dict[str, Any]:
        """Check every resource now, or after the pause if `paused`."""
        self._engine.recheck()
        return {"paused": self._engine.paused}

    async def trigger(self, identity: str) -> dict[str, Any]:
        """Run one resource now and return its outcome. Raises `ControlError` if there is no such resource."""
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
        """The states that this agent manages, in the form of `Settings.tree`."""
        return self.settings.tree

    def rows(self, tree: str) -> Rows | None:
        """The content of the journal for a one-shot run beside this agent; None if the run is of other states."""
        return self._journal.rows() if tree == self.settings.tree else None

    def journal_session(self, pid: int) -> JournalSession:
        """A session for a one-shot run by this process.

        Raises `ControlError` while there is another run: each could undo what the other does.
        """
        other = self._journal_session
        if other and not other.closed:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(other.since))
            raise ControlError(
                f"another apply (process {other.pid}) has been at work since {since}; "
                "wait until it has ended, or stop it"
            )
        self._journal_session = JournalSession(self._journal, self._engine, pid)
        return self._journal_session

    async def reload(self) -> dict[str, Any]:
        """Read settings and states again, and wait until that is done; `problems` lists what is wrong with them."""
        problems = await self._request_reload()
        return {"problems": [problem.as_dict() for problem in problems], "resources": self._resources}

    def _request_reload(self) -> asyncio.Future[list[Problem]]:
        self._host.sources.touched(None)
        answer: asyncio.Future[list[Problem]] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._want("states changed")
        return answer

    # -- settings and states -----------------------------------------------------------------------------------

    def _watched(self, settings: Settings) -> ConfigurationFiles:
        return ConfigurationFiles.of(settings, (self._config or CONFIG).absolute())

    def _config_changed(self, paths: list[str]) -> None:
        self._host.sources.touched(paths)
        log.info("the configuration has changed: %s", first_of(paths))
        self._want("states changed")

    def _grains_changed(self) -> None:
        self._want("grains changed")

    def _want(self, why: Cause) -> None:
        self._pending_events.add(why)
        self._wanted.set()

    async def _reconcile(self) -> None:
        """Apply the configuration whenever there is a reason to."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            news, self._pending_events = self._pending_events, set()
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
                        Location(str(self.settings.state_dir)), "agent-trouble", f"cannot apply the states: {error}"
                    )
                ]
            except Exception as error:
                log.exception("cannot apply the states")
                text = f"cannot apply the states: {type(error).__name__}: {error}"
                problems = [
                    Problem(
                        Location(str(self.settings.states)), "agent-bug", text, "a kind of yours, or a bug in Holdfast"
                    )
                ]
            if problems:
                self._pending_events |= news
                self._report(problems)
            for answer in waiting:
                if not answer.done():
                    answer.set_result(problems)
            self._say()

    async def _take_over(self, cause: Cause) -> None:
        """Read settings, compile, swap the graph. Raises `CompileError` before anything has changed."""
        settings: Settings = await self._blocking(load, self._config, self._overrides)
        # Before states and pillar are read: later fixes and changes are noticed.
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
        async with self._host.taken_over(compiled.compilation.calls, settings.states) as snapshot:
            options = settings.engine
            swap = self._engine.swap(
                compiled.compilation, cause=cause, options=options, outdated=self._outdated, anew=snapshot.anew
            )
            left = await swap
        self._outdated = set()
        self._collector.replaced(left, self._resources)
        self._watch.follow(made_from(compiled, snapshot))
        self._tell_of_watches()
        self._taken_over = True
        read = compiled.read | (frozenset() if settings.id else {"id"})
        self._grains.use(compiled.grains, lambda: read | self._host.read)
        self._presence.note(self._read_from(settings))

    def _compile(self, settings: Settings) -> Compiled:
        """Compile, unless a directory of the configuration has disappeared. Raises `CompileError`. Blocks."""
        self._presence.demand(self._read_from(settings))
        compiled = self._compiler.compile(settings)
        self._presence.demand(self._read_from(settings))  # it may have disappeared meanwhile
        return compiled

    def _read_from(self, settings: Settings) -> tuple[Path, ...]:
        """Paths that must exist once they have existed: agent.yaml, its directory, states and pillar."""
        config = (self._config or CONFIG).absolute()
        return tuple(filter(None, (config, config.parent, settings.states, settings.pillar)))

    def _apply_settings(self, settings: Settings) -> None:
        """Apply settings that have changed."""
        before, self.settings = self.settings, settings
        if settings == before:
            return
        late = [name for name in FIXED if getattr(settings, name) != getattr(before, name)]
        if late:
            log.warning("the change of %s takes effect when the agent is restarted", ", ".join(late))
        self._logs.configure(settings.log)
        self._host.states, self._host.durable = settings.states, settings.durable

    def _report(self, problems: list[Problem]) -> None:
        """Log all problems, and say what keeps running in spite of them."""
        for problem in problems:
            log.error(str(problem), code=problem.code)
        running = "the last good graph keeps running" if self._taken_over else "nothing runs until it is fixed"
        text = f"the configuration cannot be used ({number_of(len(problems), 'problem')}); {running}"
        log.error(text, code=BROKEN)
        hint = f" ({problems[0].hint})" if problems[0].hint else ""
        self.health.set(BROKEN, f"{problems[0].location}: {problems[0].message}{hint}; {text}", "error")

    def _warn(self, warnings: tuple[Problem, ...]) -> None:
        """Log each warning once."""
        for problem in warnings:
            if problem not in self._warned:
                log.warning(str(problem), code=problem.code)
        self._warned = frozenset(warnings)

    # -- reports -----------------------------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        if not isinstance(event, Started):
            self._logs.emit(event)
        self._insight.tell(event)
        if isinstance(event, (Started, PassStarted)):  # sent before each repair; only the insight uses them
            return
        self._grains.tell(event)
        if isinstance(event, Ran):
            self._ran(event.outcome)
        elif isinstance(event, Notice) and event.code == "left":
            for waiting in self._triggered.pop(event.identity, ()):
                if not waiting.done():
                    waiting.set_exception(ControlError(f"cannot trigger {event.identity}: it is no longer declared"))
        elif isinstance(event, Notice) and event.code in ("watch-failed", "watched-again"):
            self._tell_of_watches()
        elif isinstance(event, Notice) and event.code in ("paused", "resumed"):
            self._pausing.tell()
            self._say()
        elif isinstance(event, PassEnded):
            self._collector.built(event.record.tally.total)
            self._say()

    def _ran(self, outcome: Outcome) -> None:
        (self._failing.add if outcome.result is False else self._failing.discard)(outcome.identity)
        for waiting in self._triggered.pop(outcome.identity, ()):
            if not waiting.done():
                waiting.set_result(outcome)

    def _tell_of_watches(self) -> None:
        """Report which resources are not watched, and why."""
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
        """Log conditions that begin and end; broken states were logged in detail before."""
        now = {condition.code: condition for condition in self.health.conditions}
        for code in now.keys() - self._conditions.keys() - {BROKEN, PAUSED}:
            log.warning(now[code].text, code=code)
        if BROKEN in self._conditions and BROKEN not in now:
            log.info("fixed: states and settings can be used again", code=BROKEN)
        for code in self._conditions.keys() - now.keys() - {BROKEN, PAUSED}:
            log.info(
                "no longer true: %s", self._conditions[code].text.partition("; ")[0], code=code
            )  # without the advice
        self._conditions = now
        self._say()

    def _summary(self) -> str:
        """The state of the agent in one line."""
        if BROKEN in self._conditions:
            return self._conditions[BROKEN].text
        if not self._taken_over:
            return "starting: the states are being read"
        if self._engine.going_down:
            return "the system goes down: nothing is repaired"
        view, total = self._engine.view, number_of(self._resources, "resource")
        counted = {
            "failed or wait for one that did": len(self._failing),
            "drifted (paused)": sum(view.pauses.holds_for(vertex) for vertex in view.differing),
            "would be changed (noop)": sum(not view.pauses.holds_for(vertex) for vertex in view.differing),
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

    def _make_host(self) -> LocalHost:
        settings = self.settings
        return LocalHost(
            states=settings.states,
            var_dir=settings.state_dir,
            providers=settings.providers,
            durable=settings.durable,
            health=self.health,
            tasks=self._tasks,
        )

    async def _stop_engine(self) -> None:
        """Let running resources finish for `stop_timeout` seconds, then cancel them."""
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
        """Stop: the first signal lets resources finish for a while, the second cancels them, the third kills."""
        self._stops += 1
        if self._stops == 1:
            self._stop.set()
        elif self._stops == 2:
            log.warning("stopping at once: running resources are cancelled; a third signal kills them")
            self._engine.hurry()
        else:
            log.error("killed: running resources cannot clean up")
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
    """Cancel a task and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def run(config: Path | None, overrides: Mapping[str, Any]) -> None:
    """Run the agent in the foreground. Raises `HoldfastError` or `OSError` if it cannot start."""
    asyncio.run(_run(config, overrides))


async def _run(config: Path | None, overrides: Mapping[str, Any]) -> None:
    await Daemon(config, overrides).run()
