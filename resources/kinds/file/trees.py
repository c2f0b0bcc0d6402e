"""Whole directory trees: looked through and put right, or removed, without ever leaving them by a link or a mount."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator

from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Texts
from holdfast.resources.kinds.file.base import Ownership, telling
from holdfast.resources.temporaries import is_temporary

Names = list[tuple[str, os.stat_result]]
DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Recursion:
    """How the entries of a directory should be owned: directories and all else apart; down to so many levels, or all."""

    directories: Ownership | None
    others: Ownership | None
    depth: int | None = None
    exclude: Collection[str] = field(default_factory=tuple)


def set_right(top: str, rules: Recursion, found: dict[str, dict[str, str]], *, apply: bool) -> None:
    """Add to `found` everything below `top` whose owner or mode is wrong -> what is wrong with it; with `apply` put it right.

    Each directory is held open while its entries are changed, so that nothing outside can be reached by swapping a link in.
    Blocks. Raises `Permanent` or `Temporary`.
    """
    with telling("look through", top):
        for root, entries, descriptor in _levels(top, rules.depth):
            for name, seen in entries:
                if is_temporary(name):  # its owner and mode are those of the file that it becomes
                    continue
                path = os.path.join(root, name)  # noqa: PTH118 - Path objects are slow
                owner = rules.directories if stat.S_ISDIR(seen.st_mode) else rules.others
                wrong = owner.wrong(seen) if owner is not None and not excluded(path, top, rules.exclude) else {}
                if owner is None or not wrong:
                    continue
                found[path] = wrong
                if apply:
                    owner.put(name, seen, dir_fd=descriptor)


def _levels(top: str, depth: int | None) -> Iterator[tuple[str, Names, int]]:
    """Each directory of a tree with its entries and an open descriptor; links are entries, and not followed."""

    def fail(error: OSError) -> None:
        raise error

    for root, directories, files, descriptor in os.fwalk(top, onerror=fail, follow_symlinks=False):
        level = 0 if root == top else root[len(top) :].count("/")
        if depth is not None and level >= depth:
            directories.clear()
            continue
        entries: Names = []
        for name in (*directories, *files):
            try:
                entries.append((name, os.lstat(name, dir_fd=descriptor)))
            except FileNotFoundError:  # gone since it was listed
                continue
        yield root, entries, descriptor


def excluded(path: str, top: str, patterns: Collection[str]) -> bool:
    """Whether a path below `top`, or its last part, matches one of the patterns."""
    inside = path[len(top) :].lstrip("/")
    globs = [pattern for pattern in patterns if not pattern.startswith("E@")]
    return matches(inside, patterns) or matches(inside.rpartition("/")[2], globs)


def matches(inside: str, patterns: Collection[str]) -> bool:
    """Whether a path below a directory matches one of the patterns: a glob, whose `*` means `/`, too, or `E@` and a regular expression."""
    return any(re.search(pattern[2:], inside) if pattern.startswith("E@") else fnmatch.fnmatchcase(inside, pattern) for pattern in patterns)


def valid_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """For validators: refuse what is no regular expression."""
    for pattern in patterns:
        try:
            re.compile(pattern.removeprefix("E@") if pattern.startswith("E@") else "")
        except (re.error, OverflowError) as error:
            raise ValueError(f"{pattern} is not a regular expression: {error}") from None
    return patterns


Patterns = Annotated[Texts, AfterValidator(valid_patterns)]
"""Globs of paths below a directory, or `E@` and a regular expression."""


def surplus(top: str, keep: Collection[str], exclude: Collection[str]) -> list[str]:
    """What `clean` removes: the topmost paths below `top` that are neither kept, nor lead to what is kept, nor are excluded.

    A kept path is kept with all below it; `DIRECTORY/.` keeps a directory alone. A file that is just being put in place is no surplus. Blocks. Raises `Permanent` or `Temporary`.
    """
    kept = set(keep)
    on_the_way = {parent for path in kept for parent in _parents(path, top)}
    extra: list[str] = []

    def walk(directory: str) -> bool:
        """Collect what is surplus; whether all of the directory's content is."""
        all_of_it, here = True, []
        try:
            with os.scandir(directory) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:  # gone since it was listed
            found = []
        for entry in found:
            if entry.path in kept or is_temporary(entry.name) or excluded(entry.path, top, exclude):
                all_of_it = False
            elif entry.path in on_the_way or (exclude and entry.is_dir(follow_symlinks=False)):
                before = len(extra)
                whole = entry.is_dir(follow_symlinks=False) and walk(entry.path) and entry.path not in on_the_way
                if whole:
                    del extra[before:]
                    here.append(entry.path)
                else:
                    all_of_it = False
            else:
                here.append(entry.path)
        extra.extend(here)
        return all_of_it

    with telling("look through", top):
        walk(top)
    return sorted(extra)


LISTED = 1000
"""So many of the paths that are removed are told, and beyond that the topmost only."""


def whole(paths: Collection[str]) -> list[str]:
    """Paths, each with all that is below it. Blocks."""
    found: list[str] = []
    for path in paths:
        found.append(path)
        for directory, directories, files in os.walk(path):
            if len(found) > LISTED:
                break
            found += [os.path.join(directory, name) for name in (*directories, *files)]  # noqa: PTH118 - Path objects are slow
    return sorted(found)


def _parents(path: str, top: str) -> Iterator[str]:
    while len(path) > len(top) and path != "/":
        path = os.path.dirname(path)  # noqa: PTH120 - Path objects are slow
        yield path


def remove(path: str, top: str | None = None) -> None:
    """Remove a file, a link (not where it leads) or a whole directory; what is gone already is as wanted. Blocks.

    Between `top` and the path no link is followed, should one be put there meanwhile. Raises `Permanent` when something is mounted
    there or below: that is never what "remove this directory" means.
    """
    mounted = mounts_below(path)
    if mounted:
        raise Permanent(f"cannot remove {path}: {mounted[0]} is a mount point; unmount it first")
    directory, name = os.path.split(path)
    with telling("remove", path), suppress(FileNotFoundError), opened(top or directory, directory) as descriptor:
        if stat.S_ISDIR(os.lstat(name, dir_fd=descriptor).st_mode):
            shutil.rmtree(name, onerror=_gone_is_fine, dir_fd=descriptor)
        else:
            os.unlink(name, dir_fd=descriptor)


@contextmanager
def opened(top: str, directory: str) -> Iterator[int]:
    """A descriptor of a directory at or below `top`, reached from there without following a link. Raises `OSError`."""
    with ExitStack() as stack:
        descriptor = os.open(top, DIRECTORY)
        stack.callback(os.close, descriptor)
        for step in filter(None, directory[len(top) :].split("/")):
            descriptor = os.open(step, DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            stack.callback(os.close, descriptor)
        yield descriptor


def _gone_is_fine(_: Callable[..., object], __: str, details: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(details[1], FileNotFoundError):
        raise details[1]


def mounts_below(path: str) -> list[str]:
    """Mount points at or below a path, from the kernel's own list."""
    try:
        with open("/proc/self/mountinfo", "rb") as lines:  # noqa: PTH123 - Path objects are slow
            points = [line.split(b" ", 5)[4] for line in lines]
    except OSError:
        return [path] if os.path.ismount(path) else []
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120 - the same
    names = [os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), point)) for point in points]
    return [name for name in names if name == real or name.startswith(real + "/")]
