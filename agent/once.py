"""One-shot: converge once, without watches and without a daemon."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.journal import Journal
from holdfast.agent.engine.report import Event, PassRecord
from holdfast.agent.health import Health
from holdfast.agent.host.host import Host
from holdfast.agent.places import STATE_DIR
from holdfast.agent.settings import Settings
from holdfast.agent.statedir import Lock, LockedError, open_journal, private_directory
from holdfast.agent.tree import Compiled


def converge(settings: Settings, compiled: Compiled, emit: Callable[[Event], None], *, timeout: float | None) -> PassRecord | None:
    """Bring the host to what was compiled (with `engine.noop`: only look); None when `timeout` seconds did not suffice.

    Raises `KeyboardInterrupt` on SIGINT and SIGTERM, when all that ran is ended.
    """
    with _memory(settings) as (journal, directory):
        return asyncio.run(_converge(settings, compiled, emit, timeout=timeout, journal=journal, directory=directory))


async def _converge(
    settings: Settings, compiled: Compiled, emit: Callable[[Event], None], *, timeout: float | None, journal: Journal, directory: Path
) -> PassRecord | None:
    host = Host(
        states=settings.states,
        var_dir=directory,
        facts=compiled.grains,
        pillar=compiled.pillar,
        options=compiled.options,
        providers=settings.providers,
        durable=settings.durable,
    )
    async with host:
        host.update(managed=compiled.managed)
        engine = Engine(host, settings.engine, journal, emit, watch=False)
        with _interruptible():
            try:
                async with asyncio.timeout(timeout):
                    await engine.swap(compiled.compilation, cause="start")
                    return await engine.settle()
            except TimeoutError:
                return None
            finally:
                await engine.stop(0)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM cancel what runs, so that it is ended in order, and come out as `KeyboardInterrupt`."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        if task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@contextmanager
def _memory(settings: Settings) -> Iterator[tuple[Journal, Path]]:
    """The journal of one-shot runs, apart from the daemon's, and the directory for what must last.

    Without a state directory of its own (an ordinary user, the default place), a run remembers nothing; nor does one that
    only looks.
    """
    with ExitStack() as stack:
        directory = None if settings.engine.noop else _state_dir(settings.state_dir)
        journal = None
        if directory is not None:
            with contextlib.suppress(LockedError):  # another run is under way: this one goes on without a memory
                stack.enter_context(Lock(directory / "apply.lock", "apply"))
                journal = open_journal(directory / "apply.db", Health(), durable=settings.durable)
        if directory is None:
            directory = private_directory(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-"))))
        journal = journal or Journal(None)
        stack.callback(journal.close)
        yield journal, directory


def _state_dir(path: Path) -> Path | None:
    """The state directory, made if need be; None for the default one when it is not ours to make."""
    if path == STATE_DIR and os.geteuid() != 0:
        return None
    return private_directory(path)
