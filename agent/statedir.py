"""The directory in which the agent remembers: private, locked by one process, and its journal readable or put aside."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.agent.engine.journal import Journal
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.places import demand_safe
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.states.hostfiles import absolute

PRIMARY = 0xFF
"""The bits of an SQLite result code that say what is wrong; those above say where."""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""What SQLite says of a file that will never be readable again."""


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
    """The engine's memory; one that is damaged is put aside, for an agent that does not start repairs nothing.

    Raises `HoldfastError` when it cannot be opened for another reason, like a full disk; it is left as it is.
    """
    blocking = Blocking(1)
    try:
        return Journal(path, durable=durable, blocking=blocking)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & PRIMARY not in DAMAGED:
            raise HoldfastError(f"cannot open the journal {path}: {error}; nothing in it is lost") from error
        aside = path.with_suffix(".damaged")
        path.replace(aside)
        for rest in ("-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
        health.set("journal-lost", f"cannot read {path}: {error}; it is kept as {aside}, pending refreshes are lost")
        return Journal(path, durable=durable, blocking=blocking)
