"""A hostile local user: exchanges managed paths for links to root's files, as fast as the system allows.

Root runs `adversary.py HOME UID COUNTER`. The process becomes the user at once, and continues until its standard input
ends. COUNTER is a file with the number of exchanges, by which a test sees that the attack took place.

In the home, the states manage files in the directory `d`, and the file `f`. `d.x` and `f.x` are links to root's
directory of victims and to a victim in it. `inner` and `inner-file` belong to root; they lie in the user's home, so the
user can move them.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import random
import select
import stat
import struct
import sys

EXCHANGE = 2
AT_FDCWD = -100
PAIRS = [
    (b"d", b"d.x"), (b"f", b"f.x"), (b"d", b"inner"), (b"f", b"inner-file"), (b"d/t", b"d/t.x"), (b"d/f", b"d/f.x"), (
        b"d/t/b", b"d/t.x",
    ),
]  # fmt: skip
PAUSES = (0, 0, 0, 10, 100, 1000, 10_000)
"""Iterations of an empty loop between two exchanges: few hit adjacent system calls, many hit distant ones."""
TEXT = b"key=1\n# old=1\n#-- start\n#-- end\nanchor\n"


class Adversary:
    """The user, working in the home directory."""

    def __init__(self, victims: str) -> None:
        self.victims = victims
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.inner = os.lstat("inner").st_ino
        self.trash = itertools.count()
        os.makedirs("trash", exist_ok=True)  # noqa: PTH103 - raw speed

    def exchange(self, one: bytes, other: bytes) -> bool:
        """Exchange two entries in one step."""
        return not self.libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, EXCHANGE)

    def put_away(self, name: str) -> None:
        """Move an entry away."""
        with contextlib.suppress(OSError):
            os.rename(name, f"trash/{next(self.trash)}")  # noqa: PTH104 - the same

    def stock(self) -> None:
        """Put every entry back in its place, whatever the agent has changed."""
        for name in ("d", "d.x"):
            with contextlib.suppress(OSError):
                if os.lstat(name).st_ino == self.inner:
                    self.exchange(name.encode(), b"inner")
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.lstat("d").st_mode) or os.lstat("d").st_uid != os.getuid():
                self.put_away("d")
        with contextlib.suppress(OSError):
            os.mkdir("d")  # noqa: PTH102 - the same
        for name in ("d/t", "d/t.x", "d/f.x", "d/s", "d/m", "d/r", "d/n", "f.x", "d.x"):
            self.put_away(name)
        with contextlib.suppress(OSError):
            os.makedirs("d/t/b")  # noqa: PTH103 - the same
        for name in ("f", "d/f", "d/t/a", "d/t/b/c"):
            self.write(name)
        for name, target in (("d.x", ""), ("f.x", "/f"), ("d/t.x", "/t"), ("d/f.x", "/f")):
            with contextlib.suppress(OSError):
                os.symlink(self.victims + target, name)  # noqa: PTH211 - the same

    @staticmethod
    def write(name: str) -> None:
        """Write a complete file."""
        with contextlib.suppress(OSError):
            descriptor = os.open("new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.write(descriptor, TEXT)
            os.close(descriptor)
            os.rename("new", name)  # noqa: PTH104 - the same

    def take_temporaries(self) -> None:
        """Replace temporary files of the agent by links."""
        for directory in (".", "d"):
            with contextlib.suppress(OSError):
                for name in os.listdir(directory):  # noqa: PTH208 - the same
                    if ".holdfast-" in name:
                        self.exchange(f"{directory}/{name}".encode(), b"f.x")

    def run(self, counter: mmap.mmap) -> None:
        """Continue until standard input ends."""
        done = 0
        for turn in itertools.count():
            if turn % 64 == 0:
                if select.select([0], [], [], 0)[0]:
                    return
                self.stock()
            if turn % 16 == 0:
                self.take_temporaries()
            one, other = random.choice(PAIRS)
            if self.exchange(one, other):
                done += 1
                counter[:8] = struct.pack("<q", done)
            for _ in range(random.choice(PAUSES)):
                pass


def main() -> None:
    """Become the user, and run."""
    home, uid, count, victims = sys.argv[1:]
    descriptor = os.open(count, os.O_RDWR)
    counter = mmap.mmap(descriptor, 8)
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
    os.chdir(home)
    Adversary(victims).run(counter)


if __name__ == "__main__":
    main()
