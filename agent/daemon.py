"""The daemon: makes the parts, connects them, starts them, and stops them in order. It has no other logic.

settings -> lock -> journal -> host -> engine -> control socket -> watch of the configuration -> states
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.agent.agent_calls import AgentCalls
from holdfast.agent.agent_status import AgentStatus
from holdfast.agent.connections import Exhaustion
from holdfast.agent.control.decoding import requests
from holdfast.agent.control.journal_session import JournalSessions
from holdfast.agent.control.server import ControlServer
from holdfast.agent.control.view_server import ViewServer
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, PassEnded, PassStarted, Ran, Started
from holdfast.agent.health import Health
from holdfast.agent.host import containment, descriptors
from holdfast.agent.host.forkserver import server as forkserver
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.package_changes import PackageChanges
from holdfast.agent.host.power import Power
from holdfast.agent.host.run import kill_all
from holdfast.agent.insight import process
from holdfast.agent.insight.exporter import Exporter
from holdfast.agent.insight.insight import Insight
from holdfast.agent.insight.watch_metrics import watch_metrics
from holdfast.agent.loggers import LazyLogger, load_structlog
from holdfast.agent.logs import Logs
from holdfast.agent.notify import Notifier
from holdfast.agent.pausing import PauseCommands
from holdfast.agent.publishing.publishing import Publishing
from holdfast.agent.records.kept import KeptCleaner
from holdfast.agent.records.recorder import Recorder
from holdfast.agent.records.records import Records
from holdfast.agent.records.retention import Retention
from holdfast.agent.reloads import Reloads, SettingsSource
from holdfast.agent.running_agent import RunningAgent
from holdfast.agent.self_check import SelfCheck
from holdfast.agent.settings import Settings
from holdfast.agent.statedir import JOURNAL, LOCK, Lock, absorb, open_journal, private_directory
from holdfast.agent.tasks import Tasks
from holdfast.agent.triggers import Triggers
from holdfast.states.gc_pause import GcPolicy, share_arena

log = LazyLogger("holdfast")

SWITCH = 0.0005
"""Seconds for which a thread may hold the interpreter while others wait; Python's default is ten times as long.

The event loop gives the interpreter up at each system call. Threads that walk through large directories would take it
for the whole time each time.
"""
BOOTED = Path("/run/systemd/system")
"""Exists where systemd runs the system and therefore announces a shutdown."""
DOES = {False: "keeps this host as declared in", True: "changes nothing (noop) and compares this host with"}
"""Whether the agent is in noop -> its activity in the first line of the log."""


class Daemon:
    """One running agent."""

    def __init__(self, source: SettingsSource, settings: Settings) -> None:
        self._source, self._settings = source, settings
        self._health = Health()
        self._tasks = Tasks(self._health)
        self._logs = Logs(settings.log)
        self._notifier = Notifier()
        self._collector = GcPolicy()
        self._stop = asyncio.Event()
        self._stops = 0
        """Number of signals to stop so far."""

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. The second signal cancels all runs, the third kills.

        Raises `HoldfastError` or `OSError` if the agent cannot start.
        """
        async with AsyncExitStack() as stack:
            stack.callback(self._logs.close)
            stack.enter_context(self._collector.installed())
            await self._start(stack)
            log.info(
                "holdfast %s %s %s (pid %d)",
                __version__,
                DOES[self._settings.engine.noop],
                self._settings.states,
                os.getpid(),
                code="agent-started",
            )
            self._agent.reloads.want("start")
            self._notifier.ready()
            self._agent.status.publish()
            self._notifier.start_watchdog()
            await self._stop.wait()
            log.info("stopping", code="agent-stopping")
            self._notifier.stopping()

    async def _start(self, stack: AsyncExitStack) -> None:
        """Create and start the parts; `stack` stops them in reverse order."""
        settings = self._settings
        asyncio.get_running_loop().set_exception_handler(Exhaustion(self._health).handle)
        descriptors.raise_limit()
        containment.prepare()
        stack.callback(forkserver.stop)
        directory = private_directory(settings.state_dir)
        lock = stack.enter_context(Lock(directory / LOCK, "start the agent"))
        stack.callback(self._notifier.close)
        stack.push_async_callback(self._tasks.stop)
        journal = open_journal(directory / JOURNAL, self._health, durable=settings.durable)
        stack.callback(journal.close)
        await absorb(directory, journal, self._health)
        records = Records(directory, self._health, agent=True, durable=settings.durable)
        stack.push_async_callback(records.close)
        host = await stack.enter_async_context(self._make_host(records))
        self._world = host.world_database
        package_changes = PackageChanges(host.package_manager, self._health)
        engine = Engine(host, settings.engine, journal, self._emit, obstacle=package_changes.obstacle)
        self._publishing = Publishing(records, self._health, self._tasks, self._redact)
        stack.push_async_callback(self._publishing.stop)
        agent = self._agent = self._make_agent(engine, host, JournalSessions(journal, engine), records)
        stack.push_async_callback(agent.recorder.queue.settle)
        if journal.known:
            agent.reloads.expect_states()
        stack.push_async_callback(self._stop_engine)
        stack.push_async_callback(agent.reloads.grains.close)
        works = {
            "watch of the configuration": agent.reloads.watch.run(),
            "reconciling": agent.reloads.run(),
            "package changes": package_changes.run(),
            "records": agent.recorder.run(),
            "kept content": KeptCleaner(records, host.kept).run(),
            "retention": Retention(records, lambda: agent.reloads.settings.records).run(),
        }
        if BOOTED.is_dir():
            works["power"] = Power(host.bus(), self._goes_down, self._awake).run()
        for name, work in works.items():
            stack.push_async_callback(_end, self._tasks.start(name, work))
        engine.pauses.restore()
        server = ControlServer(settings.socket, agent)
        await server.start()
        stack.push_async_callback(server.stop)
        view = None
        if settings.view_socket is not None and settings.viewers is not None:
            view = ViewServer(settings.view_socket, settings.viewers, agent, self._health)
            await view.start()
            stack.push_async_callback(view.stop)
        self_check = SelfCheck(directory, lock, journal, server, self._health, view=view)
        stack.push_async_callback(_end, self._tasks.start("check of the agent's own files", self_check.run()))
        stack.push_async_callback(self._exporter.stop)
        await self._exporter.use(settings.metrics)
        self._health.listen = self._health_changed
        self._health_changed()
        self._listen_to_signals()

    def _make_host(self, records: Records) -> LocalHost:
        settings = self._settings
        return LocalHost(
            states=settings.states,
            var_dir=settings.state_dir,
            providers=settings.providers,
            strict=settings.interfaces == "strict",
            watching=settings.watch.backend,
            programs=settings.watch.programs,
            durable=settings.durable,
            kept=settings.kept_bounds,
            health=self._health,
            tasks=self._tasks,
            records=records,
        )

    def _make_agent(self, engine: Engine, host: LocalHost, sessions: JournalSessions, records: Records) -> RunningAgent:
        """Return the parts that answer requests, and the exporter."""
        status = AgentStatus(
            self._settings, engine, host, health=self._health, logs=self._logs, notifier=self._notifier
        )
        recorder = Recorder(
            records,
            self._health,
            host=lambda: status.host_id,
            declared=lambda identity: identity in engine.view.graph.by_identity,
            redact=self._redact,
        )
        insight = Insight(
            status.state,
            deprecated_calls=host.interfaces.deprecated_calls,
            more=lambda: watch_metrics(host.paths.overflows) + _plugin_metrics(host),
            recent=recorder.recent,
            history=recorder.history,
        )
        self._exporter = Exporter(lambda: insight.text(engine.view), self._health, process.text)
        reloads = Reloads(
            self._source,
            self._settings,
            engine,
            host,
            status=status,
            health=self._health,
            logs=self._logs,
            exporter=self._exporter,
            collector=self._collector,
            publishing=self._publishing,
            recorder=recorder,
        )
        return RunningAgent(
            calls=AgentCalls(host, engine, recorder),
            engine=engine,
            insight=insight,
            logs=self._logs,
            pausing=PauseCommands(engine, self._health),
            recorder=recorder,
            records=records,
            reloads=reloads,
            sessions=sessions,
            status=status,
            triggers=Triggers(engine),
        )

    def _redact(self, value: Any) -> Any:
        """Mask secrets; a reload replaces the redactor."""
        return self._logs.redactor(value)

    def _emit(self, event: Event) -> None:
        """Pass an event of the engine to all parts that listen."""
        agent = self._agent
        if not isinstance(event, Started):
            self._logs.emit(event)
        agent.insight.tell(event)
        if isinstance(event, Started):  # sent before each repair; only these parts use the event
            agent.triggers.tell(event)
            return
        agent.recorder.tell(event)
        if isinstance(event, PassStarted):
            return
        if not isinstance(event, Ran):  # there is one event for each run; these parts do not use it
            agent.reloads.grains.tell(event)
            agent.pausing.tell(event)
        agent.triggers.tell(event)
        if isinstance(event, PassEnded):
            agent.engine.view.census.count_noted()
            self._collector.built(event.record.tally.total)
        agent.status.tell(event)

    def _health_changed(self) -> None:
        self._agent.status.health_changed()
        self._agent.recorder.state.conditions(self._health.conditions)
        self._world.changed()

    async def _stop_engine(self) -> None:
        """Let running resources and calls finish for `stop_timeout` seconds, then cancel them."""
        timeout = self._agent.reloads.settings.engine.stop_timeout
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout + 0.7):
                await asyncio.gather(self._agent.calls.stop(timeout), self._agent.engine.stop(timeout))

    def _goes_down(self, down: bool) -> None:
        """Handle the start of a shutdown, or its cancellation."""
        engine = self._agent.engine
        (engine.pause if down else engine.resume)("going-down")
        self._agent.status.publish()

    def _awake(self) -> None:
        """Check everything after the system has slept, since anything may have changed meanwhile."""
        log.info("the system has slept: checking everything", code="recheck")
        self._agent.engine.recheck("recheck")

    # -- signals -----------------------------------------------------------------------------------------------

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
            self._agent.engine.cancel_leaving()
            self._agent.calls.cancel()
        else:
            log.error("killed: running resources cannot clean up")
            self._logs.close()
            kill_all()
            os._exit(128 + signal.SIGKILL)

    def _reload_by_signal(self) -> None:
        log.info("reloading", code="reloading")
        self._notifier.reloading()
        self._agent.reloads.request().add_done_callback(lambda _: self._notifier.ready())

    def _recheck_by_signal(self) -> None:
        log.info("checking everything", code="recheck")
        self._agent.engine.recheck()


def _plugin_metrics(host: LocalHost) -> str:
    """Return the metrics of plugins. Imports nothing if there are no plugins."""
    if host.plugins is None or not host.plugins.names:
        return ""
    from holdfast.agent.insight.plugin_metrics import plugin_metrics  # noqa: PLC0415 - see above

    return plugin_metrics(host.plugins)


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def run(config: Path | None, overrides: Mapping[str, Any]) -> None:
    """Run the agent in the foreground. Raises `HoldfastError` or `OSError` if it cannot start."""
    share_arena()
    source = SettingsSource(config, overrides)
    settings = source.load()
    requests()  # imported now, like structlog: imports would block the event loop
    load_structlog()
    sys.setswitchinterval(SWITCH)
    asyncio.run(_run(source, settings))


async def _run(source: SettingsSource, settings: Settings) -> None:
    await Daemon(source, settings).run()
