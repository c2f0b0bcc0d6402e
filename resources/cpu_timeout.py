"""A limit of CPU time for computations that may take too long, such as matching a regular expression.

While Python matches an expression, no other thread runs, so no thread can interrupt the match. A signal can.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CpuTimeExceeded(Exception):
    """The computation took more CPU time than allowed."""


@contextmanager
def cpu_timeout(seconds: float) -> Iterator[None]:
    """Raise `CpuTimeExceeded` in the body after `seconds` of CPU time; waiting does not count.

    Signals reach only the main thread: in other threads nothing is raised.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    armed = True

    def give_up(_: int, __: FrameType | None) -> None:
        if armed:
            raise CpuTimeExceeded(f"more than {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
