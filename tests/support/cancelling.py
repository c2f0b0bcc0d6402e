"""Cancels a coroutine at any of the moments at which it waits."""

from __future__ import annotations

import asyncio
import itertools
import types
from collections.abc import Coroutine, Generator
from typing import Any


async def cancelled_at(number: int, work: Coroutine[Any, Any, Any]) -> bool:
    """Run a coroutine in a task of its own that is cancelled when it waits for the n-th time.

    Return whether it waited so often. Errors other than the cancellation are raised.
    """
    reached = False

    @types.coroutine
    def stepping() -> Generator[Any, Any, None]:
        nonlocal reached
        steps, thrown = work.__await__(), None
        for count in itertools.count(1):
            try:
                waited = steps.send(None) if thrown is None else steps.throw(thrown)
            except StopIteration:
                return
            thrown = None
            if count == number:
                reached = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                yield waited
            except BaseException as error:  # noqa: BLE001 - the coroutine gets it
                thrown = error

    async def whole() -> None:
        await stepping()

    try:
        await asyncio.create_task(whole())
    except asyncio.CancelledError:
        if not reached:
            raise
    return reached
