"""A clock that nobody sets: for spans of time that must not move with the system's clock."""

from __future__ import annotations

import time


def boottime() -> float:
    """Seconds since the system was booted, with those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
