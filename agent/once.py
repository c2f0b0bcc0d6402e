"""One-shot runs: converge once, without watches and without a daemon."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.agent.configuration import Compiled
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, Notice, PassRecord
from holdfast.agent.health import Health
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.package_changes import PackageChanges
from holdfast.agent.interruptions import interruptible
from holdfast.agent.paths import RECORDS, STATE_DIR
from holdfast.agent.settings import Settings
from holdfast.agent.statedir import JOURNAL, LOCK, Lock, LockedError, absorb, open_journal, private_directory
from holdfast.resources.contract import acts
from holdfast.states.requisite_kinds import ON_FAILURE, REFRESHING

if TYPE_CHECKING:
    from holdfast.agent.beside import AgentBeside
    from holdfast.agent.records.of_run import RunRecords


def converge(
    settings: Settings,
    compiled: Compiled,
    emit: Callable[[Event], None],
    *,
    timeout: float | None,
    whole: bool = False,
    only: Collection[str] | None = None,
    on_output: Callable[[str, str, bytes], None] | None = None,
) -> PassRecord | None:
    """Converge the host (with `engine.noop`: only check); None if `timeout` seconds did not suffice.

    `whole`: the compiled states are all that the settings name for this host. `only`: identities to run, None for all.
    `on_output`: see `LocalHost.on_output`. Raises `KeyboardInterrupt` on SIGINT, SIGTERM
    and SIGHUP, after all running resources have ended.
    """
    return asyncio.run(
        _converge(settings, compiled, emit, timeout=timeout, whole=whole, only=only, on_output=on_output)
    )


async def _converge(
    settings: Settings,
    compiled: Compiled,
    emit: Callable[[Event], None],
    *,
    timeout: float | None,
    whole: bool,
    only: Collection[str] | None,
    on_output: Callable[[str, str, bytes], None] | None,
) -> PassRecord | None:
    async with (
        _memory(settings, emit) as (journal, directory, agent),
        _listening(settings, compiled, emit, directory, agent) as (run, tell),
    ):
        host = LocalHost(
            states=settings.states,
            var_dir=directory,
            facts=compiled.grains,
            pillar=compiled.pillar,
            options=compiled.options,
            providers=settings.providers,
            strict=settings.interfaces == "strict",
            durable=settings.durable,
            kept=settings.kept_bounds,
            database=run.database if run else None,
            copied=None if run else settings.state_dir / RECORDS,
        )
        async with host:
            host.update(managed=compiled.managed)
            await host.use_plugins(compiled.plugins)
            listen = _read_ahead(host, settings, compiled, tell, only) if compiled.plugins else tell
            host.on_output = on_output
            if settings.etcd.endpoints:
                await host.world_database.use(settings.etcd, str(compiled.grains["id"]))
            health = Health()
            health.listen = partial(_tell_of_health, health, emit)
            package_changes = PackageChanges(host.package_manager, health)
            engine = Engine(host, settings.engine, journal, listen, watch=False, obstacle=package_changes.obstacle)
            host.blocking.alone = lambda: engine.alone
            if agent:
                agent.tend(engine)
            with interruptible():
                follower = asyncio.create_task(package_changes.run(), name="package changes")
                try:
                    async with asyncio.timeout(timeout):
                        await _swap(host, engine, settings, compiled, whole=whole, only=only)
                        declared = {call.identity for call in compiled.compilation.calls}
                        if settings.engine.noop:
                            _report_pending(journal, declared if only is None else only, emit)
                        record = await engine.settle()
                        await host.flushes.done()
                        if host.flushes.trouble:
                            _tell_of_flushes(host.flushes.trouble, emit)
                            return record._replace(converged=False, broken_off=True)
                        if only is not None and not settings.engine.noop:
                            _report_pending(journal, declared.difference(only), emit)
                        return record._replace(converged=False, broken_off=True) if agent and agent.gone else record
                except TimeoutError:
                    return None
                finally:
                    follower.cancel()
                    await engine.stop(0)


@asynccontextmanager
async def _listening(
    settings: Settings,
    compiled: Compiled,
    emit: Callable[[Event], None],
    directory: Path,
    agent: AgentBeside | None,
) -> AsyncIterator[tuple[RunRecords | None, Callable[[Event], None]]]:
    """Yield the records, if the run has a state directory, and the listener of the engine.

    The listener also passes events to the records.
    """
    async with AsyncExitStack() as stack:
        listeners, run = [emit, agent.tell] if agent else [emit], None
        if directory == settings.state_dir:
            from holdfast.agent.records.of_run import recorded  # noqa: PLC0415 - other runs record nothing

            host = str(compiled.grains["id"])
            records = recorded(directory, host, compiled.redactor, emit, durable=settings.durable)
            run = await stack.enter_async_context(records)
            listeners.append(run.tell)

        def tell(event: Event) -> None:
            for each in listeners:
                each(event)

        yield run, tell


def _read_ahead(
    host: LocalHost,
    settings: Settings,
    compiled: Compiled,
    tell: Callable[[Event], None],
    only: Collection[str] | None,
) -> Callable[[Event], None]:
    """Make the run read remote resources ahead; return the listener of the engine.

    The listener also passes changes to the reader.
    """
    from holdfast.agent.remote.read_ahead import ReadAhead  # noqa: PLC0415 - most runs have no remote resources

    calls = compiled.compilation.calls
    ahead = ReadAhead(calls if only is None else [call for call in calls if call.identity in only])
    host.reading_ahead = ahead.plugin
    if settings.engine.noop:
        return tell

    def told(event: Event) -> None:
        ahead.tell(event)
        tell(event)

    return told


async def _swap(
    host: LocalHost,
    engine: Engine,
    settings: Settings,
    compiled: Compiled,
    *,
    whole: bool,
    only: Collection[str] | None,
) -> None:
    """Give the engine the compiled graph. The journal identifies actions by the content of their sources."""
    compilation = compiled.compilation
    scripts = [call for call in compilation.calls if acts(call.resource)]
    async with host.taken_over(scripts, settings.states) as snapshot:
        snapshot.closed = True
        whole = whole and bool(compilation.calls)  # with an empty configuration, the journal must forget nothing
        await engine.swap(compilation, cause="start", whole=whole, only=only)


def _tell_of_flushes(why: str, emit: Callable[[Event], None]) -> None:
    emit(
        Notice(
            "error",
            "not-flushed",
            "",
            f"cannot flush {why}; a power failure may lose files written there: apply again",
        )
    )


def _tell_of_health(health: Health, emit: Callable[[Event], None]) -> None:
    """Report conditions that make the run wait, and their end."""
    for condition in health.conditions:
        emit(Notice("warning", condition.code, "", condition.text))


def _report_pending(journal: Journal, identities: Collection[str], emit: Callable[[Event], None]) -> None:
    """Report each delivery that is due to one of these states."""
    for upstream, downstream, kind in journal.pending_deliveries():
        if downstream in identities:
            what = "refreshed" if kind in REFRESHING else "run"
            text = f"will be {what}, because {upstream} has {'failed' if kind in ON_FAILURE else 'changed'}"
            emit(Notice("info", "owed", downstream, text))


@asynccontextmanager
async def _memory(
    settings: Settings, emit: Callable[[Event], None]
) -> AsyncIterator[tuple[Journal, Path, AgentBeside | None]]:
    """Yield the journal, the directory for persistent data, and the agent beside which the run works, if there is one.

    If an agent runs, the journal is a copy of the agent's, which keeps writing it. A run that changes nothing has a
    copy, if it may read the journal. Without a state directory (an ordinary user, the default location), no data is
    kept.
    """
    async with AsyncExitStack() as stack:
        directory = None if settings.engine.noop else _state_dir(settings.state_dir)
        agent = None
        if directory is not None:
            journal, agent = await _journal(settings, directory, stack, emit)
        elif settings.engine.noop:
            from holdfast.agent import beside  # noqa: PLC0415 - most runs ask no agent

            journal = await beside.copied(settings, emit)
        else:
            journal = Journal()
        if directory is None:
            directory = private_directory(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-"))))
        yield journal, directory, agent


async def _journal(
    settings: Settings, directory: Path, stack: AsyncExitStack, emit: Callable[[Event], None]
) -> tuple[Journal, AgentBeside | None]:
    """Return the journal of this directory: opened under the lock, or shared with the agent that holds the lock."""
    try:
        stack.enter_context(Lock(directory / LOCK, "apply"))
    except LockedError as locked:
        from holdfast.agent import beside  # noqa: PLC0415 - most runs ask no agent

        journal, agent = await beside.joined(settings, emit, locked)
        if agent:
            stack.push_async_callback(agent.end, directory)
        return journal, agent
    journal = open_journal(directory / JOURNAL, Health(), durable=settings.durable)
    stack.callback(journal.close)
    await absorb(directory, journal, Health())
    return journal, None


def _state_dir(path: Path) -> Path | None:
    """Return the state directory, created if needed; None for the default one if we may not create it."""
    if path == STATE_DIR and os.geteuid() != 0:
        return None
    return private_directory(path)
