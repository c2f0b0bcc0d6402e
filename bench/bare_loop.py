"""The baseline for drift repair: a bare asyncio loop with one inotify descriptor and the system calls of a repair.

    python bench/bare_loop.py DIRECTORY...

reads the files in these directories, then restores every file that changes. Before it writes, it checks what a repair
of Holdfast checks: the locks of the package manager, the mount table, the directory and the file. It writes as safely,
and the content that it replaces is kept. strace shows the same system calls, in the same order, between the event and
the rename. There are no states, no requisites, no journal and no log.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import hashlib
import itertools
import os
import select
import stat
import struct
import sys
import tempfile

IN_CLOSE_WRITE, IN_MOVED_TO, IN_DELETE = 0x8, 0x80, 0x200
LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock")
FLOCK = "hhqqi4x"
WISH = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
READ = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def locked() -> bool:
    """Return whether a process holds a lock of the package manager."""
    for path in LOCKS:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        found = struct.unpack(FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, WISH))
        os.close(descriptor)
        if found[0] != fcntl.F_UNLCK:
            return True
    return False


def identity(info: os.stat_result) -> tuple[int, ...]:
    """Return the properties by which a trusted directory is recognised."""
    return info.st_dev, info.st_ino, info.st_mode, info.st_uid, info.st_gid


class Keeper:
    """Restores the files of some directories."""

    def __init__(self, base: str) -> None:
        self._wanted: dict[str, bytes] = {}
        self._trusted: dict[str, tuple[int, ...]] = {}
        self._numbers = itertools.count()
        self._kept = tempfile.mkdtemp(prefix="kept-", dir=os.path.dirname(base))
        self._trusted[self._kept] = identity(os.stat(self._kept))
        self._user = os.geteuid()
        self._mounts, self._table = select.epoll(), os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._mounts.register(self._table, select.EPOLLPRI)

    def take_in(self, folder: str) -> None:
        """Remember the present content of the files in a directory as the wanted content."""
        self._trusted[folder] = identity(os.stat(folder))
        for name in os.listdir(folder):
            with open(f"{folder}/{name}", "rb") as file:
                self._wanted[f"{folder}/{name}"] = file.read()

    def _follow_mounts(self) -> None:
        """Read the mount table if it has changed. Other programs may mount something at any time."""
        if self._mounts.poll(0):
            os.lseek(self._table, 0, os.SEEK_SET)
            while os.read(self._table, 1 << 16):
                pass

    def _look(self, path: str) -> os.stat_result:
        self._follow_mounts()
        info = os.lstat(path)
        self._follow_mounts()
        return info

    def _read(self, folder: str, path: str) -> bytes | None:
        """Return the content of a regular file, after checking that its directory is the same as before."""
        if identity(os.stat(folder)) != self._trusted[folder] or os.geteuid() != self._user:
            raise SystemExit(f"{folder} is no longer trusted")
        seen = self._look(path)
        descriptor = os.open(path, READ)
        info = os.fstat(descriptor)
        data = os.read(descriptor, 65537) if stat.S_ISREG(info.st_mode) and info.st_ino == seen.st_ino else None
        os.close(descriptor)
        return data

    def restore(self, folder: str, name: str) -> None:
        """Write the wanted content of one file, unless the file has it."""
        path = f"{folder}/{name}"
        content = self._wanted.get(path)
        if content is None:
            return
        try:
            self._follow_mounts()
            os.lstat(path)
            locked()  # Holdfast also checks the locks; no package owns these files, so it repairs them in any case
            if self._read(folder, path) == content:
                return
        except FileNotFoundError:
            pass
        temporary = f"{folder}/.{name}.bare-{os.getpid():x}-{next(self._numbers):x}"
        descriptor = os.open(temporary, CREATE, 0o600)
        os.write(descriptor, content)
        self._follow_mounts()
        os.lstat(path)
        os.listxattr(path)
        os.fchmod(descriptor, 0o644)
        os.close(descriptor)
        self._keep(path, temporary)
        os.rename(temporary, path)

    def _keep(self, path: str, temporary: str) -> None:
        """Read the content that is about to be replaced, and write it to the kept files, unless they have it."""
        try:
            seen, made = self._look(path), self._look(temporary)
            descriptor = os.open(path, READ)
        except FileNotFoundError:
            return
        info = os.fstat(descriptor)
        data = os.read(descriptor, 65537)
        public = bool(info.st_mode & made.st_mode & stat.S_IROTH) and seen.st_ino == info.st_ino
        kept = f"{self._kept}/{hashlib.sha256(data).hexdigest()}"
        try:
            if public and self._read(self._kept, kept) != data:
                raise SystemExit(f"{kept} is damaged")
        except FileNotFoundError:
            with open(kept, "xb") as file:
                file.write(data)
        os.close(descriptor)


async def main(directories: list[str]) -> None:
    """Watch and restore until killed."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    folders: dict[int, str] = {}
    keeper = Keeper(directories[0])
    for folder in directories:
        folders[libc.inotify_add_watch(descriptor, folder.encode(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE)] = folder
        keeper.take_in(folder)

    def readable() -> None:
        data, at = os.read(descriptor, 65536), 0
        while at < len(data):
            watch, _, _, length = struct.unpack_from("iIII", data, at)
            name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
            at += 16 + length
            keeper.restore(folders[watch], name)

    asyncio.get_running_loop().add_reader(descriptor, readable)
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(sys.argv[1:]))
