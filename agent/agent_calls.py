"""Calls of functions through the running agent. The log records each call: caller, time, arguments, result.

A caller that asks to stop (Ctrl-C) ends its call. A caller that disappears (`kill -9`, a lost connection) ends the
call, too, unless the call is making a change: an interrupted upgrade of packages does more harm than one whose result
is not read.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.agent.control.connection import ClientConnection, Peer
from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.schedule.reservations import concerns
from holdfast.agent.insight.search import select
from holdfast.agent.loggers import LazyLogger
from holdfast.agent.records.actors import actor_of
from holdfast.agent.records.recorder import Recorder
from holdfast.resources.accounts import user_name
from holdfast.resources.paths import trusted_uids

if TYPE_CHECKING:
    from holdfast.agent.function_calls import CallHost, CallRecord, CallRequest, FunctionCall, Remainder

log = LazyLogger("holdfast")

REMAINS = "its change continues in a thread, and other changes of the same thing wait until it has ended"
MOST = 16
"""Most calls at once; other requests need places on the control socket, too."""
Answer = dict[str, Any]


class AgentCalls:
    """The calls of one agent."""

    def __init__(self, host: CallHost, engine: Engine, recorder: Recorder) -> None:
        self._host, self._engine, self._recorder = host, engine, recorder
        self._tasks: set[asyncio.Task[Answer]] = set()
        self._remainders: set[asyncio.Task[None]] = set()
        """Tasks that hold the claims of ended calls until their changes have ended."""

    async def serve(self, request: CallRequest, client: ClientConnection) -> Answer:
        """Make a call for a client, and return the answer.

        Raises `ControlError` for a client that is neither root nor the agent's own user, and if there are too many
        calls; `ConnectionResetError` if the client has vanished and the call continues.
        """
        if client.peer.uid not in trusted_uids():
            raise ControlError("cannot call functions: only root may", "not-permitted")
        make, caller = await self._host.blocking(_prepared, client.peer)
        if len(self._tasks) >= MOST:
            raise ControlError(f"cannot make more than {MOST} calls at once; try again", "busy")
        call = make(request, self._host, self._engine.claim, REMAINS)
        task = asyncio.create_task(self._made(call, caller, client.peer), name=f"call of {request.function}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            async with client.gone() as gone:
                await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
                if not task.done():
                    if call.changing and not _asks_to_stop(gone):
                        raise ConnectionResetError
                    task.cancel()
        except asyncio.CancelledError:  # the agent stops, or the connection was closed
            if not call.changing:
                task.cancel()
            raise
        return await asyncio.shield(task)

    async def stop(self, timeout: float) -> None:
        """Let calls, and the remainders of earlier ones, end within `timeout` seconds; then cancel them.

        A change in a thread cannot be cancelled: it ends with the process.
        """
        if present := {*self._tasks, *self._remainders}:
            await asyncio.wait(present, timeout=timeout)
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cancel()  # the remainders of these calls
        await asyncio.gather(*self._remainders, return_exceptions=True)

    def cancel(self) -> None:
        """Cancel all calls, and the remainders of earlier ones."""
        for task in (*self._tasks, *self._remainders):
            task.cancel()

    async def _made(self, call: FunctionCall, caller: str, peer: Peer) -> Answer:
        """Make a call, wait for its end, and record it. A cancelled call has an answer, too."""
        began = time.monotonic()
        try:
            answer, record = await call.run()
        except asyncio.CancelledError:
            answer, record = call.interrupted(time.monotonic() - began)
        if call.remainder is not None:
            remains = asyncio.create_task(self._remains(call.remainder, record), name=f"remainder of {record.function}")
            self._remainders.add(remains)
            remains.add_done_callback(self._remainders.discard)
        managed_by = await self._managed_by(record)
        self._note(record, caller, peer, managed_by)
        return {**answer, "managed_by": managed_by} if managed_by else answer

    @staticmethod
    async def _remains(remainder: Remainder, record: CallRecord) -> None:
        """Hold the claim of a call that has ended until its change has ended."""
        began = time.monotonic()
        try:
            await remainder.end()
        except asyncio.CancelledError:
            log.warning("the change of %s is interrupted: the agent stops", record.call, called=record.function)
            raise
        seconds = time.monotonic() - began
        log.info("the change of %s has ended, %.0f s after its call", record.call, seconds, called=record.function)

    async def _managed_by(self, record: CallRecord) -> list[str]:
        """Return the identities of the resources that manage the things that a call may have changed."""
        if not record.changed:
            return []
        found = await select(self._engine.view.present, lambda vertex: concerns(vertex, record.changed))
        return [vertex.identity for vertex in found]

    def _note(self, record: CallRecord, caller: str, peer: Peer, managed_by: list[str]) -> None:
        """Log a call.

        A call that may have changed something is part of the history, too: of the resources that manage the things that
        it may have changed, or of the host if there are none.
        """
        said = f": {record.text}" if record.text else ""
        level = log.info if record.outcome in ("done", "usage") else log.warning
        level(
            "called %s (%s)%s",
            record.call,
            caller,
            said,
            called=record.function,
            result=record.outcome == "done",
            cause="command",
            uid=peer.uid,
            pid=peer.pid,
            duration=record.duration,
            resource=managed_by[0] if len(managed_by) == 1 else None,
        )
        for identity in managed_by:
            comment = f"{record.call} ({caller}){said}"
            self._recorder.called(identity, comment, record.duration, actor_of(peer))
        if record.changed and not managed_by:
            about = sorted(f"{kind}[{name}]" for kind, name in record.changed)
            self._recorder.note("call", about, f"called {record.call}{said}", actor_of(peer))


def _asks_to_stop(gone: asyncio.Task[bytes]) -> bool:
    """Return whether a client has asked to stop its call; False if it has only disconnected."""
    return gone.done() and not gone.cancelled() and gone.exception() is None and bool(gone.result())


def _prepared(peer: Peer) -> tuple[type[FunctionCall], str]:
    """Return the class of calls, which is imported for the first call, and the description of a caller. Blocks."""
    from holdfast.agent.function_calls import FunctionCall  # noqa: PLC0415 - most agents are never asked to call

    return FunctionCall, _described(peer)


def _described(peer: Peer) -> str:
    """Describe a caller for the log: user and process."""
    try:
        name = Path(f"/proc/{peer.pid}/comm").read_text().strip()
    except OSError:
        name = "which has ended"
    return f"by uid {peer.uid} ({user_name(peer.uid)}), process {peer.pid} ({name})"
