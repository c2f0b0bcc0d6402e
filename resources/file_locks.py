"""Locks for files that several resources edit: each of them reads, edits and writes the whole file, one at a time."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
"""The locks that are held or waited for, by the name of what they protect."""


def file_lock(file: str) -> asyncio.Lock:
    """Return the lock of a file, to be held while the file is read, edited and written.

    `file` is the path of the file, or another name for it that is always the same.
    """
    return _locks.setdefault(file, asyncio.Lock())
