"""Runs the commands of a tool that other programs use, too. Waits for the tool's lock, and explains failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import ClassVar

from holdfast.resources.context import Completed
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.package_locks import lock_holder

LOCK_TIMEOUT = 600.0
"""Seconds to wait for other programs."""
LOCK_INTERVAL = 0.2
"""Seconds between two checks of a lock; the kernel does not report its release."""
LINES = 10
"""Greatest number of lines of a tool's output in an error."""


class SharedTool:
    """Base of providers whose tool has a lock. It comes before `Provider` in the list of bases."""

    tool: ClassVar[str]
    host: ProviderHost

    locks: ClassVar[tuple[Path, ...]] = ()
    """Files that a program locks by fcntl(2) while it uses the tool. A tool with other locks overrides `_holder`."""
    busy: ClassVar[tuple[str, ...]] = ()
    """Messages of the tool if another program has its lock."""
    killed: ClassVar[tuple[str, ...]] = ()
    """Messages of the tool if a process that it has started was killed."""
    environment: ClassVar[Mapping[str, str]] = {}
    """Environment of the tool's commands."""

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)  # type: ignore[call-arg] # of `Provider`
        self._idle = asyncio.Event()
        """Set while no command of the agent makes a change by the tool."""
        self._idle.set()
        self._changing = 0
        """Number of commands that make a change."""

    # -- what a tool may override --------------------------------------------------------------------------------

    def _holder(self) -> str:
        """Return the program that uses the tool now: `process 7 (apt-get)`; empty if there is none."""
        return lock_holder(map(self.host.system_path, self.locks))

    def _is_busy(self, done: Completed) -> bool:
        """Return whether a command failed because another program has the lock."""
        return any(words in done.stderr + done.stdout for words in self.busy)

    def _reason(self, done: Completed) -> str:
        """Return why a command of the tool failed, in the tool's own words, on one line."""
        lines = [line.strip() for line in (done.stderr.strip() or done.stdout).splitlines() if line.strip()]
        return "; ".join(dict.fromkeys(lines[-LINES:])) or f"{done.argv[0]} ended with status {done.retcode}"

    async def _hint(self, done: Completed) -> str:
        """Return a hint for the error of a failed command; empty by default."""
        return ""

    # -- running -------------------------------------------------------------------------------------------------

    async def _run(
        self, *argv: str, to: str = "", looks: bool = False, accept: Sequence[int] = (0,), stdin: str | None = None
    ) -> Completed:
        """Run a command of the tool once no other program uses it. A command that only reads does not wait.

        `to` is what the command is for, such as `install tiny`: with it, an exit status that is not in `accept` raises
        `Permanent` with the tool's reason, or `Temporary` if a process was killed. Raises `Temporary` if other programs
        have used the tool for `LOCK_TIMEOUT`.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            if not looks:
                await self._wait(max(0.0, deadline - time.monotonic()))
            with nullcontext() if looks else self._at_work():
                done = await self.host.run(
                    *argv, env=self.environment, check=False, limit=1 << 26, shown=not looks, stdin=stdin
                )
            if not (done.retcode and self._is_busy(done)):
                break
            if time.monotonic() > deadline:
                raise Temporary(f"cannot use {self.tool}: other programs took its lock first for {LOCK_TIMEOUT:.0f} s")
            await asyncio.sleep(LOCK_INTERVAL)
        if to and done.retcode not in accept:
            raise await self._failure(to, done)
        return done

    async def _failure(self, to: str, done: Completed) -> HoldfastError:
        """Return the error of a failed command; `to` is what it was for."""
        text = f"cannot {to}: {self._reason(done)}"
        if done.retcode < 0 or any(words in done.stderr for words in self.killed):
            return Temporary(text)
        return Permanent(text + await self._hint(done))

    async def _wait(self, seconds: float | None = None) -> None:
        """Wait until no other program uses the tool, and log the name of the program.

        Raises `Temporary` after this number of seconds, `LOCK_TIMEOUT` by default.
        """
        told = ""
        try:
            async with asyncio.timeout(LOCK_TIMEOUT if seconds is None else seconds):
                while holder := self._holder():
                    if holder != told:
                        self.host.log.info(f"waiting for {self.tool}'s lock, which is held by {holder}")  # noqa: G004
                        told = holder
                    await asyncio.sleep(LOCK_INTERVAL)
        except TimeoutError:
            raise Temporary(
                f"cannot use {self.tool}: its lock has been held by {told or 'others'} for {LOCK_TIMEOUT:.0f} s"
            ) from None

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Mark that a command of the agent makes a change."""
        self._changing += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._changing -= 1
            if not self._changing:
                self._idle.set()
