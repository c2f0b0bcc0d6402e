"""Background tasks of kinds: one task for all resources of a kind that declares one.

The task runs from the time when the first resource of the kind enters a graph until the last one leaves. No watch of
such a kind is armed before its task is ready. A task that fails is restarted with growing delays; meanwhile, the
watches of its kind count as failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.failure import backoff
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.context import Context, Watch
from holdfast.resources.errors import RAISED, HoldfastError, Permanent
from holdfast.resources.traits import Backed

READY = 60.0
"""Seconds within which a task must be ready."""
STEADY = 60.0
"""Seconds after which the next failure of a task counts as its first, and the delays start again."""


class SharedTask:
    """One background task, with the futures for which its watches wait."""

    def __init__(self, kind: type[Backed], name: str, ctx: Context, emit: Callable[[Notice], None]) -> None:
        self._kind, self._name, self._ctx, self._emit = kind, name, ctx, emit
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Any] = loop.create_future()
        """The object that the task shares, once the task is ready."""
        self.lost: asyncio.Future[str] = loop.create_future()
        """The reason, once the task has failed."""
        self.task = asyncio.create_task(self._keep(), name=f"background of {name}")

    async def _keep(self) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            began = loop.time()
            try:
                await self._run()
            except RAISED as error:  # the code of a kind may raise anything; it is restarted
                why = str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
                failures = failures + 1 if loop.time() - began < STEADY else 1
                delay = backoff(None, failures)
                self._emit(
                    Notice(
                        "error",
                        "background-failed",
                        "",
                        f"the background task of {self._name} failed: {why}; again in {delay:.3g} s",
                        None if isinstance(error, HoldfastError) else error,
                    )
                )
                self._lose(why)
                await asyncio.sleep(delay)

    async def _run(self) -> None:
        work = self._kind.background(self._ctx)
        try:
            async with asyncio.timeout(READY):
                shared = await anext(work)
        except TimeoutError:
            raise Permanent(f"it was not ready within {READY:g} s") from None
        except StopAsyncIteration:
            raise Permanent("it ended before it was ready") from None
        self.ready.set_result(shared)
        async for _ in work:
            pass
        raise Permanent("it ended by itself")

    def _lose(self, why: str) -> None:
        """Report the failure to all watches that use the task; new watches wait for the next attempt."""
        lost, loop = self.lost, asyncio.get_running_loop()
        if self.ready.done():
            self.ready = loop.create_future()
        self.lost = loop.create_future()
        lost.set_result(why)


class BackgroundTasks:
    """All background tasks of one engine. `context` returns the context for a task of the given identity."""

    def __init__(self, context: Callable[[str], Context], emit: Callable[[Notice], None]) -> None:
        self._context, self._emit = context, emit
        self._running: dict[Any, SharedTask] = {}
        """Function that makes the task -> the task. Kinds that inherit the function share the task."""

    async def watch(self, vertex: Vertex, inner: Callable[[Vertex], Watch]) -> Watch:
        """Watch a resource that needs a background task.

        The watch is armed when the task is ready and `inner` is armed; it fails when either fails.
        """
        shared = self._shared(vertex.resource)
        # Both futures must belong to one attempt: it may fail at the moment when it becomes ready.
        ready, lost = shared.ready, shared.lost
        await asyncio.wait({ready, lost}, return_when=asyncio.FIRST_COMPLETED)
        if lost.done():
            raise Permanent(f"its background task failed: {lost.result()}")
        vertex.ctx.background = ready.result()
        watch = inner(vertex)
        try:
            while True:
                step: asyncio.Future[Any] = asyncio.ensure_future(anext(watch, _END))
                either: set[asyncio.Future[Any]] = {step, lost}
                try:
                    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not step.done():
                        step.cancel()
                        await asyncio.wait([step])
                    if not step.cancelled():
                        step.exception()  # marks the exception as retrieved, also if this watch is cancelled meanwhile
                if lost.done():
                    raise Permanent(f"its background task failed: {lost.result()}")
                if step.result() is _END:
                    return
                yield step.result()
        finally:
            if isinstance(watch, AsyncGenerator):
                await watch.aclose()  # at once, not when the garbage collector finds the watch

    async def prune(self, vertices: Iterable[Vertex]) -> None:
        """End the tasks that none of these vertices needs."""
        if not self._running:
            return
        needed = {key_of(vertex.resource) for vertex in vertices if isinstance(vertex.resource, Backed)}
        unused = [self._running.pop(key).task for key in self._running.keys() - needed]
        for task in unused:
            task.cancel()
        if unused:
            await asyncio.wait(unused)

    def _shared(self, resource: Any) -> SharedTask:
        key = key_of(resource)
        if key not in self._running:
            self._running[key] = SharedTask(
                type(resource), resource.kind, self._context(f"background[{resource.kind}]"), self._emit
            )
        return self._running[key]


_END: Any = object()


def key_of(resource: Any) -> Any:
    """Return the key of a resource's background task. Kinds with equal keys share a task."""
    background = type(resource).background
    return getattr(background, "__func__", background)
