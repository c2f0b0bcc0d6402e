"""Computing that may never end, given up after a while: a regular expression can take longer than anybody lives.

No other thread runs while Python matches an expression, so a thread could neither do it for us nor end it. A signal can.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Impatient(Exception):
    """It has taken too long."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise `Impatient` in the body when it has computed for so long; waiting does not count.

    In other threads than the main one no signal comes, and nothing is raised.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    armed = True

    def give_up(_: int, __: FrameType | None) -> None:
        if armed:
            raise Impatient(f"it computes for longer than {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
