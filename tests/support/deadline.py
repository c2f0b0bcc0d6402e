"""How long tests wait for an event, and the check that a block does not take too long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

DEADLINE = 60.0
"""Seconds until a wait for an event fails: many times what the event takes on a busy machine."""


@contextmanager
def within(limit: float) -> Iterator[None]:
    """Check that the block takes less than this many seconds. Tests that call it run when no others do."""
    began = time.monotonic()
    yield
    taken = time.monotonic() - began
    assert taken < limit, f"it took {taken:.1f} s, and {limit:g} are allowed"
