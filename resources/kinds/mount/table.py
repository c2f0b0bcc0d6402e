"""The kernel's tables of mounts and swap spaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from holdfast.resources import paths
from holdfast.resources.kinds.mount.lines import unescaped

MOUNTS, SWAPS = "/proc/self/mountinfo", "/proc/swaps"
LIMIT = 64 << 20
"""Maximum size of a table, in bytes."""
PROC = Path("/proc")
MAPPED = 6
"""Number of fields of a line about the mapped memory of a process, if it maps a file."""
SHOWN = 5
"""Maximum number of processes that a message names."""


class Mount(NamedTuple):
    """One file system at one place."""

    number: int
    """Number of the mount; a remount keeps it."""
    device: str
    """Major and minor number of the device: `8:1`."""
    point: str
    options: tuple[str, ...]
    """Options of the mount."""
    fstype: str
    source: str
    super_options: tuple[str, ...]
    """Options of the file system, which all its mounts share."""
    root: str = "/"
    """The directory of the file system that is mounted: `/` unless it is a bind mount."""


def _lines(path: str) -> list[str]:
    """Return the lines of a table. Blocks. Raises `OSError`."""
    return paths.read(path, LIMIT).decode(errors="surrogateescape").split("\n")


def mounts() -> Sequence[Mount]:
    """Return all mounts; of several mounts at one place, the visible one is last. Blocks. Raises `OSError`."""
    return [_mount(line.split(" ")) for line in _lines(MOUNTS) if line]


def _mount(words: list[str]) -> Mount:
    end = words.index("-")
    fstype, source, options = (unescaped(word) for word in [*words[end + 1 :], "", ""][:3])
    return Mount(
        int(words[0]),
        words[2],
        unescaped(words[4]),
        tuple(words[5].split(",")),
        fstype,
        source,
        tuple(options.split(",")),
        unescaped(words[3]),
    )


class Swap(NamedTuple):
    """One swap space in use, with the columns of the table."""

    device: str
    type: str
    size: str
    used: str
    priority: str


def swaps() -> Sequence[Swap]:
    """Return all swap spaces in use. Blocks. Raises `OSError`."""
    words = [line.split() for line in _lines(SWAPS)[1:]]
    return [Swap(unescaped(each[0]), *each[1:5]) for each in words if len(each) >= len(Swap._fields)]


def users_of(point: str) -> str:
    """Return the processes and mounts that keep a file system busy, for a message; empty if unknown. Blocks."""
    below = [mount.point for mount in mounts() if mount.point.startswith(f"{point.rstrip('/')}/")]
    if below:
        return f"{', '.join(below[:SHOWN])} is mounted below it"
    processes = [path for path in PROC.iterdir() if path.name.isdigit()]
    held = [told for process in processes if (told := _held(process, point))]
    more = f" and {len(held) - SHOWN} more" if len(held) > SHOWN else ""
    return f"it is used by {', '.join(held[:SHOWN])}{more}" if held else ""


def _held(process: Path, point: str) -> str:
    """Return `name (pid)` of a process that uses something below a mount point; empty if it does not."""
    for path in _used(process):
        if path == point or path.startswith(f"{point.rstrip('/')}/"):
            with suppress(OSError):
                name = (process / "comm").read_text(encoding="utf-8", errors="replace")
                return f"{name.strip()} ({process.name})"
    return ""


def _used(process: Path) -> Iterator[str]:
    """Yield the paths that a process uses: its directories, its program, its open and its mapped files."""
    with suppress(OSError):
        for link in (process / "cwd", process / "root", process / "exe", *(process / "fd").iterdir()):
            with suppress(OSError):
                yield str(link.readlink())
        maps = (process / "maps").read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        yield from {words[5] for line in maps if len(words := line.split(maxsplit=5)) == MAPPED}
