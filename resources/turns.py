"""One after the other: for kinds of which several resources have a part each in one file, and write it whole."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
"""Those that somebody holds or waits for."""


def turn(thing: str) -> asyncio.Lock:
    """The lock of one thing: to be held while that is read, edited and written."""
    return _turns.setdefault(thing, asyncio.Lock())
