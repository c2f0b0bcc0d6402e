"""Files of this host, as templates look at them.

All goes through `holdfast.resources.paths`. What is read is `published`: it ends up in files that others may read. A question whether
something is there never follows a link that an untrusted user made where he must not: such a link counts as a link, and what lies
behind it as missing.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import io
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from holdfast.resources import paths
from holdfast.resources.paths.handle import ENTRIES, LIMIT

TEXT_LIMIT = 32 << 20
"""Bytes of a file that is read as text."""
DEEP = 100
"""Levels of directories that are gone down where an untrusted user can make them."""


class FoundEntry(NamedTuple):
    """One entry below a directory."""

    depth: int
    place: paths.Place
    is_directory: bool
    is_link: bool


def absolute(path: str | os.PathLike[str]) -> str:
    """A path as `paths.at` takes it. Raises `FileNotFoundError` for an empty one."""
    if not path:
        raise FileNotFoundError("the path is empty")
    return os.path.abspath(path)  # noqa: PTH100 - text in, text out


def look(path: str | os.PathLike[str], *, follow: bool = True) -> os.stat_result | None:
    """What is at a path; of an unsafe link the link's own status; None for what is missing, or cannot be reached."""
    for followed in (True, False) if follow else (False,):
        try:
            return paths.at(absolute(path), follow=followed).look()
        except paths.Unsafe:
            continue
        except (OSError, ValueError):
            return None
    return None


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to a regular file."""
    info = look(path)
    return info is not None and stat.S_ISREG(info.st_mode)


def is_directory(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to a directory."""
    info = look(path)
    return info is not None and stat.S_ISDIR(info.st_mode)


def permits(path: str | os.PathLike[str], mode: int) -> bool:
    """Whether the agent may do that with a path, like `os.access`; not with what an unsafe link leads to."""
    try:
        handle, info = paths.at(absolute(path), follow=True).pin()
    except (OSError, ValueError, paths.Unsafe):
        return False
    return not stat.S_ISLNK(info.st_mode) and os.access(f"/proc/self/fd/{handle.fd}", mode)


def real(path: str | os.PathLike[str]) -> str:
    """A path without links; as it is where it leads nowhere, or where a link is unsafe."""
    try:
        return paths.resolve(absolute(path))
    except (OSError, paths.Unsafe):
        return absolute(path)


def read(path: str | os.PathLike[str], limit: int = LIMIT) -> bytes:
    """The content of a file. Raises `OSError`, `Permanent` and `Unsafe`."""
    return paths.read(absolute(path), limit, published=True)


def read_text(path: str | os.PathLike[str], errors: str = "strict") -> str:
    """The text of a file, its lines ended by line feeds. Raises `OSError`, `ValueError`, `Permanent` and `Unsafe`."""
    return io.TextIOWrapper(io.BytesIO(read(path, TEXT_LIMIT)), errors=errors).read()


def beginning(path: str | os.PathLike[str], size: int) -> bytes:
    """The first bytes of a file. Raises `OSError`, `Permanent` and `Unsafe`."""
    place = paths.at(absolute(path), follow=True)
    handle, info = place.open()
    place.demand_readable(info)
    return os.read(handle.fd, min(size, TEXT_LIMIT))


def names(path: str | os.PathLike[str]) -> list[str]:
    """The names in a directory. Raises `OSError` and `Unsafe`."""
    return list(paths.directory(absolute(path)).names())


def below(path: str, deepest: int | None = None) -> Iterator[FoundEntry]:
    """All that is below a directory, in no order; nothing for what is none. Links are not followed, but for one at the path itself.

    What cannot be entered is left out. Raises `Unsafe` for more than is looked through where an untrusted user can put what he likes.
    """
    try:
        top = paths.directory(absolute(path))
    except (OSError, paths.Unsafe):
        return
    todo: list[tuple[int, paths.Directory | paths.Place]] = [(1, replace(top, path=path))]
    loose = 0
    while todo and (deepest is None or todo[-1][0] <= deepest):
        depth, each = todo.pop()
        try:
            directory = each.enter() if isinstance(each, paths.Place) else each
            handle = directory.open()
        except (OSError, paths.Unsafe):
            continue
        with os.scandir(handle.fd) as entries:
            for entry in entries:
                if directory.holders:
                    loose += 1
                    _demand_bounded(path, directory, loose, depth)
                found = FoundEntry(
                    depth, directory.entry(entry.name), entry.is_dir(follow_symlinks=False), entry.is_symlink()
                )
                yield found
                if found.is_directory and (deepest is None or depth < deepest):
                    todo.append((depth + 1, found.place))


def _demand_bounded(path: str, directory: paths.Directory, entries: int, depth: int) -> None:
    if entries > ENTRIES:
        raise paths.Unsafe(f"cannot look through {path}: it has more than {ENTRIES} entries, and {directory.reason}")
    if depth > DEEP:
        raise paths.Unsafe(
            f"cannot look through {path}: it is more than {DEEP} directories deep, and {directory.reason}"
        )


def matching(pattern: str) -> list[str]:
    """The paths that a glob matches, like `glob.glob`. Links that are unsafe match, and are not gone through. Raises `Unsafe`."""
    if not glob.has_magic(pattern):
        return [pattern] if look(pattern, follow=False) is not None else []
    parent, name = os.path.split(pattern)
    aboves = matching(parent) if glob.has_magic(parent) else [parent]
    return [os.path.join(above, each) for above in aboves for each in _inside(above or ".", name)]  # noqa: PTH118 - text in, text out


def _inside(directory: str, name: str) -> list[str]:
    """The names in a directory that a name or a pattern means."""
    try:
        here = paths.directory(absolute(directory))
        if not glob.has_magic(name):
            return [name] if not name or here.entry(name).look() is not None else []
    except (OSError, ValueError, paths.Unsafe):
        return []
    return [
        each
        for each in fnmatch.filter(_readable(here.names()), name)
        if name.startswith(".") or not each.startswith(".")
    ]


def _readable(listed: Iterator[str]) -> Iterator[str]:
    """The names, as far as they can be listed."""
    with contextlib.suppress(OSError):
        yield from listed
