"""Long work in the event loop: in slices, so that other callbacks run in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

Value = TypeVar("Value")
Steps = Generator[None, None, Value]
"""Work that yields after each step, and returns a value. A step takes some microseconds."""

SLICE = 0.002
"""Seconds of work after which other callbacks run."""


async def sliced(steps: Steps[Value]) -> Value:
    """Do all steps, with other callbacks in between; return their value. Work of less than `SLICE` is not divided."""
    began = time.monotonic()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: Value = end.value
            return value
        if time.monotonic() - began > SLICE:
            await asyncio.sleep(0)
            began = time.monotonic()
