"""The agent's state directory: private, locked by one process, with a journal. A damaged journal is set aside."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import sqlite3
import stat
import struct
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.paths import demand_safe
from holdfast.agent.sqlite_files import clear, damaged, set_aside
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError, refused_call
from holdfast.states.source.hostfiles import absolute

CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer."""
CLIENTS = 128
"""Most queued connections of processes that look for the holder of a lock, between two checks of the holder."""
JOURNAL, LOCK = "journal.db", "lock"
"""Names of the files in a state directory."""
APART = ("apply.db", "apply.db-wal", "apply.db-shm", "apply.lock")
"""Files of one-shot runs of older versions."""
UNWRITABLE = "journal-unwritable"
"""Code of the health condition for a journal that cannot be written."""
TOLD = 3600.0
"""Seconds for which health reports files that the agent has restored by itself."""
FIXES = {
    "locked": "end the program that has it open",
    "full": "make room on its file system",
    "space": "make room on its file system",
    "quota": "make room on its file system",
    "readonly": "make its file system writable",
    "Read-only": "make its file system writable",
}
"""Words in an error -> advice."""


class LockedError(HoldfastError):
    """Another process holds the lock."""


class Lock:
    """A lock for one process. The kernel releases it when the process ends; the file contains the holder's pid.

    If the file were removed, another process could lock a new one. So the lock also holds an abstract socket name
    (`_claim`). Raises `LockedError`, and `OSError` if the file cannot be made.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self._what = what
        """The operation to refuse, for example `start`."""
        self._descriptor = -1
        self._name: socket.socket | None = None

    def __enter__(self) -> Self:
        """Take the lock, or raise an error that names the holder."""
        self._name = self._claim()
        try:
            self._descriptor = self._take()
        except BaseException:
            self._unclaim()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock. The file stays: removing it could leave another process with a lock on a removed file."""
        os.close(self._descriptor)
        self._unclaim()

    def renew(self) -> bool:
        """Take the lock again if its file was replaced; return whether that was so. Blocks.

        Raises the errors of `with`.
        """
        self._forget_clients()
        held = os.fstat(self._descriptor)
        found = self.path.lstat() if os.path.lexists(self.path) else None
        if found and (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino):
            return False
        if found and not stat.S_ISREG(found.st_mode):
            clear(self.path)
        before, self._descriptor = self._descriptor, self._take()
        os.close(before)
        return True

    def _take(self) -> int:
        """Return the descriptor of the locked file."""
        place, how = paths.at(absolute(self.path)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(place.at, how, 0o600, dir_fd=place.fd)
        except OSError as error:
            raise _advised(f"cannot use {self.path}", error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise self._locked(pid) from None
        with suppress(OSError):  # the disk is full; the pid is not essential
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return descriptor

    def _claim(self) -> socket.socket | None:
        """Return a socket with an abstract name made from the lock's path.

        Any user can take such a name, so a name held by an untrusted user does not keep the agent from starting.
        """
        real = os.path.realpath(self.path.parent)
        name = f"\0holdfast/{hashlib.sha256(os.fsencode(real) + b'/' + os.fsencode(self.path.name)).hexdigest()}"
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(name)
            claim.listen(CLIENTS)
        except OSError:
            claim.close()
            if pid := _holder(name):
                raise self._locked(pid) from None
            return None
        claim.setblocking(False)
        return claim

    def _unclaim(self) -> None:
        if self._name:
            self._name.close()

    def _forget_clients(self) -> None:
        """Close the connections of processes that have looked for the holder, to make room for others.

        Any user may connect as fast as connections are closed, so at most as many are closed as the queue holds.
        """
        if self._name is not None:
            with suppress(OSError):
                for _ in range(CLIENTS + 1):
                    self._name.accept()[0].close()

    def _locked(self, pid: object) -> LockedError:
        since = ""
        with suppress(OSError):  # the holder wrote its pid when it took the lock
            since = time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(self.path.lstat().st_mtime))
        return LockedError(
            f"cannot {self._what}: process {pid} holds {self.path}{since}; use another --state-dir, or end it"
        )


def _holder(name: str) -> int:
    """Return the process that holds a name, if a trusted user runs it; else 0."""
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)  # do not wait for a queue that an attacker has filled
        try:
            client.connect(name)
        except OSError:
            return 0
        pid, uid, _ = CREDENTIALS.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return pid if uid in paths.trusted_uids() else 0


def _advised(what: str, error: OSError) -> OSError | HoldfastError:
    """Return an error with advice for a disk that cannot be written; other errors unchanged."""
    if error.errno not in (errno.EROFS, errno.ENOSPC, errno.EDQUOT):
        return error
    return refused_call(f"{what}: {error.strerror}; {_fix(str(error.strerror))}", error)


def private_directory(path: Path) -> Path:
    """Make a directory for the agent alone.

    Raises `HoldfastError` if others may write to it or replace it, `OSError` if it cannot be made.
    """
    text = absolute(path)
    try:
        demand_safe(path, "keep state in", "use another --state-dir")
        paths.make_parents(text)
        if not paths.exists(text):
            paths.at(text).mkdir(mode=0o700)
        found = paths.directory(text)
    except PermissionError:
        raise HoldfastError(
            f"cannot keep state in {path}: permission denied; run as root, or use another --state-dir"
        ) from None
    except OSError as error:
        raise _advised(f"cannot keep state in {path}", error) from None
    if found.info.st_uid not in paths.trusted_uids():
        raise HoldfastError(
            f"cannot keep state in {path}: it belongs to uid {found.info.st_uid}; use another --state-dir"
        )
    if found.info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HoldfastError(f"cannot keep state in {path}: others may write there; chmod go-w {path}")
    if found.holders:
        raise HoldfastError(f"cannot keep state in {path}: {found.reason}; use another --state-dir")
    return path


def open_journal(path: Path, health: Health, *, durable: bool) -> Journal:
    """Return the journal; `health` reports its problems.

    A damaged journal is set aside, because an agent must start to repair.

    Raises `HoldfastError` if the journal cannot be opened for another reason, for example a lock; the file is left as
    it is.
    """
    damage = "it is not a file" if path.is_symlink() or (path.exists() and not path.is_file()) else ""
    try:
        journal = None if damage else Journal(path, durable=durable, blocking=Blocking(1))
    except sqlite3.Error as error:
        if not damaged(error):
            raise HoldfastError(
                f"cannot open the journal {path}: {error}; nothing in it is lost; {_fix(str(error))}"
            ) from error
        journal, damage = None, str(error)
    if journal is None:
        aside = set_aside(path)
        health.set(
            "journal-lost",
            f"cannot read {path}: {damage}; it is kept as {aside}, pending refreshes and pauses are lost",
        )
        journal = Journal(path, durable=durable, blocking=Blocking(1))
    journal.listen(partial(_tell, journal, path, health))
    return journal


async def absorb(directory: Path, journal: Journal, health: Health) -> None:
    """Import the journals of one-shot runs of older versions, unless such a run is active.

    Can be repeated at any point.
    """
    if not paths.exists(absolute(directory / APART[0])):
        return
    with suppress(LockedError, Unwritable), Lock(directory / APART[-1], "apply"):
        with closing(open_journal(directory / APART[0], health, durable=False)) as old:
            journal.absorb(old)
        await journal.secure()
        for name in APART:
            (directory / name).unlink(missing_ok=True)


def _tell(journal: Journal, path: Path, health: Health) -> None:
    """Report the journal's problems with its file."""
    if journal.renewed:
        health.set(
            "journal-renewed",
            f"{journal.renewed} while the agent ran; it was restored from memory, and nothing is lost",
            lasts=TOLD,
        )
    if journal.trouble:
        text = (
            f"cannot write the journal {path}: {journal.trouble}; "
            f"until then, resources that other states watch are not changed; {_fix(journal.trouble)}"
        )
        health.set(UNWRITABLE, text, "error")
    else:
        health.clear(UNWRITABLE)


def _fix(why: str) -> str:
    """Return advice for an operator."""
    return next(
        (fix for words, fix in FIXES.items() if words in why),
        "check that its disk works and has room, and that its file system is writable",
    )
