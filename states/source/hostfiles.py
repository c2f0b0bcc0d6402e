"""Access to files of this host for templates.

All access uses `holdfast.resources.paths`. Files are read as `published`, because their content ends up in files that
others may read. A test for existence never follows an unsafe link of an untrusted user: the link itself exists, and its
target counts as missing.
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
"""Maximum size in bytes of a file that is read as text."""
DEEP = 100
"""Maximum levels of directories that are searched where an untrusted user can create them."""


class FoundEntry(NamedTuple):
    """One entry below a directory."""

    depth: int
    place: paths.Place
    is_directory: bool
    is_link: bool


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a path in the form for `paths.at`. Raises `FileNotFoundError` for an empty one."""
    if not path:
        raise FileNotFoundError("the path is empty")
    return os.path.abspath(path)  # noqa: PTH100 - text in, text out


def look(path: str | os.PathLike[str], *, follow: bool = True) -> os.stat_result | None:
    """Return the status of a path; for an unsafe link that of the link.

    None if the path is missing or cannot be reached.
    """
    for followed in (True, False) if follow else (False,):
        try:
            return paths.at(absolute(path), follow=followed).look()
        except paths.Unsafe:
            continue
        except (OSError, ValueError):
            return None
    return None


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a path leads to a regular file."""
    info = look(path)
    return info is not None and stat.S_ISREG(info.st_mode)


def is_directory(path: str | os.PathLike[str]) -> bool:
    """Return whether a path leads to a directory."""
    info = look(path)
    return info is not None and stat.S_ISDIR(info.st_mode)


def permits(path: str | os.PathLike[str], mode: int) -> bool:
    """Return whether the agent has access to a path, like `os.access`; False for the target of an unsafe link."""
    try:
        handle, info = paths.at(absolute(path), follow=True).pin()
    except (OSError, ValueError, paths.Unsafe):
        return False
    return not stat.S_ISLNK(info.st_mode) and os.access(f"/proc/self/fd/{handle.fd}", mode)


def real(path: str | os.PathLike[str]) -> str:
    """Return a path with its links resolved; unchanged if it does not exist or a link is unsafe."""
    try:
        return paths.resolve(absolute(path))
    except (OSError, paths.Unsafe):
        return absolute(path)


def read(path: str | os.PathLike[str], limit: int = LIMIT) -> bytes:
    """Return the content of a file. Raises `OSError`, `Permanent` and `Unsafe`."""
    return paths.read(absolute(path), limit, published=True)


def read_text(path: str | os.PathLike[str], errors: str = "strict") -> str:
    """Return the text of a file, its lines ended by line feeds.

    Raises `OSError`, `ValueError`, `Permanent` and `Unsafe`.
    """
    return io.TextIOWrapper(io.BytesIO(read(path, TEXT_LIMIT)), errors=errors).read()


def beginning(path: str | os.PathLike[str], size: int) -> bytes:
    """Return the first bytes of a file. Raises `OSError`, `Permanent` and `Unsafe`."""
    place = paths.at(absolute(path), follow=True)
    handle, info = place.open()
    place.demand_readable(info)
    return os.read(handle.fd, min(size, TEXT_LIMIT))


def names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names in a directory. Raises `OSError` and `Unsafe`."""
    return list(paths.directory(absolute(path)).names())


def below(path: str, deepest: int | None = None) -> Iterator[FoundEntry]:
    """Yield all entries below a directory, in no order; empty if it is not a directory.

    Links are not followed, except at the path itself. Directories that cannot be entered are skipped. Raises `Unsafe`
    if there are more entries than are searched where an untrusted user can create them.
    """
    try:
        top = paths.directory(absolute(path))
    except (OSError, paths.Unsafe):
        return
    todo: list[tuple[int, paths.SafeDirectory | paths.Place]] = [(1, replace(top, path=path))]
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


def _demand_bounded(path: str, directory: paths.SafeDirectory, entries: int, depth: int) -> None:
    if entries > ENTRIES:
        raise paths.Unsafe(f"cannot look through {path}: it has more than {ENTRIES} entries, and {directory.reason}")
    if depth > DEEP:
        raise paths.Unsafe(
            f"cannot look through {path}: it is more than {DEEP} directories deep, and {directory.reason}"
        )


def matching(pattern: str) -> list[str]:
    """Return the paths that a glob matches, like `glob.glob`. Unsafe links match, but are not followed.

    Raises `Unsafe`.
    """
    if not glob.has_magic(pattern):
        return [pattern] if look(pattern, follow=False) is not None else []
    parent, name = os.path.split(pattern)
    aboves = matching(parent) if glob.has_magic(parent) else [parent]
    inside = [(above, each) for above in aboves for each in _inside(above or ".", name)]
    return [os.path.join(above, each) for above, each in inside]  # noqa: PTH118 - text in, text out


def _inside(directory: str, name: str) -> list[str]:
    """Return the names in a directory that match a name or a pattern."""
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
    """Yield the names in a directory; empty if it cannot be listed."""
    with contextlib.suppress(OSError):
        yield from listed
