"""A clock for durations: changes of the system time do not affect it."""

from __future__ import annotations

import time


def boottime() -> float:
    """Return the seconds since boot, including the time in which the system was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
