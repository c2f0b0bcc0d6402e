"""Keeps the graph up to date: reads settings and states at the start and after each change of the configuration.

If states do not compile, the problems are reported and the last good graph stays in force until the next change.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.agent.agent_status import BROKEN, AgentStatus
from holdfast.agent.config_watch import ConfigWatch
from holdfast.agent.configuration import Compiled, ConfigurationCompiler
from holdfast.agent.configuration_files import ConfigurationFiles, made_from
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.grain_watch import GrainWatch
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.host import LocalHost
from holdfast.agent.insight.exporter import Exporter
from holdfast.agent.loggers import LazyLogger
from holdfast.agent.logs import Logs
from holdfast.agent.narrate import duration
from holdfast.agent.paths import CONFIG
from holdfast.agent.phrases import first_of, number_of
from holdfast.agent.presence import Presence
from holdfast.agent.publishing.publishing import Publishing
from holdfast.agent.records.recorder import Recorder
from holdfast.agent.settings import Settings, load
from holdfast.agent.shared.description import Description
from holdfast.resources.errors import RAISED
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.gc_pause import GcPolicy

log = LazyLogger("holdfast")

FIXED = (
    *("state_dir", "control", "view", "viewers", "providers", "interfaces", "durable"),
    *("watch.backend", "watch.programs"),
)
"""Settings that are read only at the start."""
REASONS: tuple[Cause, ...] = ("start", "states changed", "grains changed")
"""Reasons to compile the states; if there are several, the first of these is reported."""


class SettingsSource(NamedTuple):
    """The source of the settings. `config` None means /etc/holdfast/agent.yaml."""

    config: Path | None
    overrides: Mapping[str, Any]
    """Settings from the command line."""

    @property
    def path(self) -> Path:
        """The settings file."""
        return (self.config or CONFIG).absolute()

    def load(self) -> Settings:
        """Return the settings. Raises `CompileError`. Blocks."""
        return load(self.config, self.overrides)


class Reloads:
    """Applies the configuration of one agent while `run` runs. `settings` are the present settings."""

    def __init__(
        self,
        source: SettingsSource,
        settings: Settings,
        engine: Engine,
        host: LocalHost,
        *,
        status: AgentStatus,
        health: Health,
        logs: Logs,
        exporter: Exporter,
        collector: GcPolicy,
        publishing: Publishing,
        recorder: Recorder,
    ) -> None:
        self.settings = settings
        self._source = source
        self._engine, self._host, self._status = engine, host, status
        self._health, self._logs, self._exporter, self._collector = health, logs, exporter, collector
        self._recorder = recorder
        self._publishing = publishing
        self._compiler = ConfigurationCompiler()
        self._presence = Presence()
        self._blocking = Blocking(1)
        self._wanted = asyncio.Event()
        self._reasons: set[Cause] = set()
        """Reasons to compile the states since that last succeeded."""
        self._waiting: list[asyncio.Future[list[Problem]]] = []
        """Callers of `request` that wait for the result."""
        self._resources = 0
        self._applied = False
        """Whether the first states were applied."""
        self._outdated: set[str] = set()
        """Resources that have read grains or pillar that changed since, until the engine checks them again."""
        self._warned: frozenset[Problem] = frozenset()
        self.watch = ConfigWatch(
            ConfigurationFiles.of(settings, source.path), settings.watch, self._files_changed, health, host.paths
        )
        self.grains = GrainWatch(
            lambda: self._blocking(self._compiler.grains, self.settings),
            lambda: self.want("grains changed"),
            host.paths.watch,
        )

    def expect_states(self) -> None:
        """Record that the states directory had content before the agent was started."""
        self._presence.expect(self.settings.states)

    def want(self, why: Cause) -> None:
        """Compile the states soon."""
        self._reasons.add(why)
        self._wanted.set()

    def request(self) -> asyncio.Future[list[Problem]]:
        """Read settings and states again; the result lists their problems."""
        self._host.sources.touched(None)
        answer: asyncio.Future[list[Problem]] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self.want("states changed")
        return answer

    async def reload(self) -> dict[str, Any]:
        """Read settings and states again, and wait until they are applied; `problems` lists their problems."""
        problems = await self.request()
        return {"problems": [problem.as_dict() for problem in problems], "resources": self._resources}

    async def run(self) -> None:
        """Apply the configuration whenever there is a reason to do so."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            reasons, self._reasons = self._reasons, set()
            problems = await self._try(next(cause for cause in REASONS if cause in reasons))
            await self._publish()
            if problems:
                self._reasons |= reasons
                self._report(problems)
            else:
                self._health.clear(BROKEN)
            for answer in waiting:
                if not answer.done():
                    answer.set_result(problems)
            self._status.publish()

    async def _try(self, cause: Cause) -> list[Problem]:
        """Apply the configuration; return its problems."""
        try:
            await self._apply(cause)
        except CompileError as error:
            return list(error.problems)
        except (OSError, sqlite3.Error) as error:
            place, text = Location(str(self.settings.state_dir)), f"cannot apply the states: {error}"
            return [Problem(place, "agent-trouble", text)]
        except RAISED as error:  # a kind of the user may raise anything: the agent continues with the old states
            log.exception("cannot apply the states")
            place, text = (
                Location(str(self.settings.states)),
                f"cannot apply the states: {type(error).__name__}: {error}",
            )
            return [Problem(place, "agent-bug", text, "a kind of your own, or a bug in Holdfast")]
        return []

    async def _apply(self, cause: Cause) -> None:
        """Read settings, compile, swap the graph. Raises `CompileError` before anything has changed."""
        settings: Settings = await self._blocking(self._source.load)
        # Watch before states and pillar are read, so that later changes are noticed.
        await self.watch.update(ConfigurationFiles.of(settings, self._source.path), settings.watch)
        began = time.monotonic()
        compiled, declared = await self._blocking(self._compile, settings)
        self._use_settings(settings)
        await self._exporter.use(settings.metrics)
        self._warn(compiled.warnings)
        calls = compiled.compilation.calls
        self._resources = len(calls)
        took = duration(time.monotonic() - began)
        log.info("compiled %s in %s", number_of(self._resources, "state"), took, code="states-compiled")
        if not calls:
            log.info("there is nothing to do: no state in %s applies to %s", settings.states, compiled.grains["id"])
        self._outdated |= self._host.update(
            facts=compiled.grains, pillar=compiled.pillar, options=compiled.options, managed=compiled.managed
        )
        self._logs.redactor = self._host.redactor
        await self._host.use_plugins(compiled.plugins, noop=settings.engine.noop)
        await self._share(settings, compiled.grains["id"])
        self._host.forget_all_but(declared)
        async with self._host.taken_over(calls, settings.states) as snapshot:
            left = await self._engine.swap(
                compiled.compilation,
                cause=cause,
                options=settings.engine,
                outdated=self._outdated,
                anew=snapshot.anew,
            )
        if self._host.plugins is not None:
            self._host.plugins.keep(compiled.packages)
        self._applied = True
        self._outdated = set()
        self._collector.replaced(left, self._resources)
        self._status.applied(settings, declared)
        self._recorder.swapped(settings.states, compiled.grains)
        self._host.world_database.changed()
        self.watch.follow(made_from(compiled, snapshot))
        read = compiled.read | (frozenset() if settings.id else {"id"})
        self.grains.use(compiled.grains, lambda: read | self._host.read)
        self._presence.note(self._read_from(settings))

    async def _publish(self) -> None:
        """Use the settings of messages and etcd, even if no states could be applied yet: that failure is published."""
        settings, host = self.settings, self._host.facts.get("id", "")
        if (settings.mqtt.url is not None or settings.etcd.endpoints) and not host:
            try:
                host = (await self._blocking(self._compiler.grains, settings))["id"]
            except (CompileError, OSError):  # reported as a problem of the configuration
                return
        await self._publishing.use(settings.mqtt, str(host))
        await self._share(settings, str(host))

    async def _share(self, settings: Settings, host: str) -> None:
        """Use the settings of the strings that hosts share."""
        await self._host.world_database.use(
            settings.etcd, host, lambda: Description(self._recorder.state.described, self._health.conditions)
        )

    def _compile(self, settings: Settings) -> tuple[Compiled, frozenset[str]]:
        """Return the compiled states, and the identities of all resources.

        Raises `CompileError`, also if a directory of the configuration has disappeared. Blocks.
        """
        self._presence.demand(self._read_from(settings))
        compiled = self._compiler.compile(settings)
        self._presence.demand(self._read_from(settings))  # a directory may have disappeared meanwhile
        return compiled, frozenset(call.identity for call in compiled.compilation.calls)

    def _read_from(self, settings: Settings) -> tuple[Path, ...]:
        """Return paths that must exist once they have existed: agent.yaml, its directory, states and pillar."""
        config = self._source.path
        return tuple(filter(None, (config, config.parent, settings.states, settings.pillar)))

    def _files_changed(self, paths: list[str]) -> None:
        self._host.sources.touched(paths)
        log.info("the configuration has changed: %s", first_of(paths), code="configuration-changed")
        self.want("states changed")

    def _use_settings(self, settings: Settings) -> None:
        """Apply settings that have changed."""
        before, self.settings = self.settings, settings
        if settings == before:
            return
        late = [name for name in FIXED if attrgetter(name)(settings) != attrgetter(name)(before)]
        if late:
            log.warning("the change of %s takes effect when the agent is restarted", ", ".join(late))
        self._logs.configure(settings.log)
        self._host.states = settings.states
        self._host.kept.use(settings.kept_bounds, durable=self._host.durable)

    def _report(self, problems: list[Problem]) -> None:
        """Log all problems, and say which graph stays in force."""
        for problem in problems:
            log.error(str(problem), code=problem.code)
        running = "the last good graph stays in force" if self._applied else "nothing runs until it is fixed"
        text = f"the configuration cannot be used ({number_of(len(problems), 'problem')}); {running}"
        log.error(text, code=BROKEN)
        first = problems[0]
        hint = f" ({first.hint})" if first.hint else ""
        self._health.set(BROKEN, f"{first.location}: {first.message}{hint}; {text}", "error")

    def _warn(self, warnings: tuple[Problem, ...]) -> None:
        """Log each warning once."""
        for problem in warnings:
            if problem not in self._warned:
                log.warning(str(problem), code=problem.code)
        self._warned = frozenset(warnings)
