"""The directory in which the agent remembers: private, locked by one process, and its journal readable or put aside."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.agent.engine.database import damaged, set_aside
from holdfast.agent.engine.journal import Journal
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.places import demand_safe
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.states.hostfiles import absolute

UNWRITABLE = "journal-unwritable"
"""Code of the health condition that holds while the journal cannot be written."""
TOLD = 3600.0
"""Seconds for which health tells what the agent has mended by itself."""
FIXES = {
    "locked": "end the program that has it open",
    "full": "make room on its file system",
    "space": "make room on its file system",
    "quota": "make room on its file system",
    "readonly": "make its file system writable",
    "Read-only": "make its file system writable",
}
"""Words of an error -> what to do about it."""


class LockedError(HoldfastError):
    """Somebody else holds the lock."""


class Lock:
    """One process at a time: the kernel drops it with the process, however that ends; the file has the holder's pid. Raises `LockedError`, and `OSError` when the file cannot be made."""

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what
        """What is refused, as in `start`."""
        self._descriptor = -1

    def __enter__(self) -> Self:
        """Take it, or say who has it."""
        place = paths.at(absolute(self._path))
        self._descriptor = os.open(place.at, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=place.fd)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise LockedError(f"cannot {self._what}: process {pid} holds {self._path}; use another --state-dir, or end it") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Let it go; the file stays, so that nobody locks one that is being removed."""
        os.close(self._descriptor)


def private_directory(path: Path) -> Path:
    """Make a directory for the agent alone. Raises `HoldfastError` when others may write to it, or exchange it, `OSError` when it cannot be made."""
    text = absolute(path)
    try:
        demand_safe(path, "keep state in", "use another --state-dir")
        paths.make_parents(text)
        if not paths.exists(text):
            paths.at(text).mkdir(mode=0o700)
        found = paths.directory(text)
    except PermissionError:
        raise HoldfastError(f"cannot keep state in {path}: permission denied; run as root, or use another --state-dir") from None
    if found.info.st_uid not in paths.trusted_uids():
        raise HoldfastError(f"cannot keep state in {path}: it belongs to uid {found.info.st_uid}; use another --state-dir")
    if found.info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HoldfastError(f"cannot keep state in {path}: others may write there; chmod go-w {path}")
    if found.holders:
        raise HoldfastError(f"cannot keep state in {path}: {found.reason}; use another --state-dir")
    return path


def open_journal(path: Path, health: Health, *, durable: bool) -> Journal:
    """The engine's memory, whose troubles are told by `health`. One that is damaged is put aside: an agent that does not start repairs nothing.

    Raises `HoldfastError` when it cannot be opened for another reason, as when it is locked; it is left as it is.
    """
    damage = "it is not a file" if path.is_symlink() or (path.exists() and not path.is_file()) else ""
    try:
        journal = None if damage else Journal(path, durable=durable, blocking=Blocking(1))
    except sqlite3.Error as error:
        if not damaged(error):
            raise HoldfastError(f"cannot open the journal {path}: {error}; nothing in it is lost; {_fix(str(error))}") from error
        journal, damage = None, str(error)
    if journal is None:
        aside = set_aside(path)
        health.set("journal-lost", f"cannot read {path}: {damage}; it is kept as {aside}, pending refreshes are lost")
        journal = Journal(path, durable=durable, blocking=Blocking(1))
    journal.listen(partial(_tell, journal, path, health))
    return journal


def _tell(journal: Journal, path: Path, health: Health) -> None:
    """Say what the journal says of its file."""
    if journal.renewed:
        health.set(
            "journal-renewed", f"{journal.renewed} while the agent ran; it was made anew from memory, and nothing is lost", lasts=TOLD
        )
    if journal.trouble:
        text = f"cannot write the journal {path}: {journal.trouble}; until then nothing is changed that another state watches; {_fix(journal.trouble)}"
        health.set(UNWRITABLE, text, "error")
    else:
        health.clear(UNWRITABLE)


def _fix(why: str) -> str:
    """What a person can do about it."""
    return next((fix for words, fix in FIXES.items() if words in why), "see whether its disk works and its file system is writable")
