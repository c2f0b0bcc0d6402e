"""The files of a states or pillar directory: their names and their content.

This module alone decides which files are read: regular files, in UTF-8, of bounded size, that only a trusted owner can
write. A state file runs with all privileges of the agent, so a file that others can write is refused.
"""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import os
import stat
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.paths.handle import ABSENT, ENTRIES, Handle, acl_of, read_whole
from holdfast.states.errors import Location, Problem
from holdfast.states.source.hostfiles import absolute, is_directory
from holdfast.states.source.refusals import closed, decode, demand_trust, display, distrusted, refuse, too_large

LIMIT = 8 << 20
"""Maximum size in bytes of a state file, and in characters of its rendered text.

The data of a file of this size takes 300 MB, at worst 800 MB.
"""
TOP = "top"
"""SLS name of the top file."""
STEADY = 2_000_000_000
"""Age in nanoseconds after which a file with the same status is unchanged: clocks of file systems are less coarse."""


class ReadFile(NamedTuple):
    """One file that a compilation read, with the data to detect later changes."""

    path: Path
    digest: str
    """SHA-256 of its content, hex."""


class Text(NamedTuple):
    """A file that was read."""

    path: Path
    text: str
    digest: str
    """SHA-256 of the bytes, hex."""


@dataclass(slots=True, eq=False, repr=False)
class FileCache:
    """Cache of the files of one directory: a file with the same status is not read again."""

    texts: dict[Path, tuple[tuple[int, ...], Text]] = field(default_factory=dict)
    """File -> its status when it was read, and its text."""
    paths: dict[str, Path] = field(default_factory=dict)

    def find(self, path: Path, info: os.stat_result) -> Text | None:
        """Return the text of a file, if its status is the same as when it was read."""
        looked, text = self.texts.get(path, (None, None))
        return text if looked == looks(info) else None

    def put(self, text: Text, info: os.stat_result, began: int) -> None:
        """Cache a text, if the status shows every later change. `began` is the time of reading in nanoseconds."""
        if began - max(info.st_mtime_ns, info.st_ctime_ns) > STEADY:
            self.texts[text.path] = (looks(info), text)

    def path(self, name: str) -> Path:
        """Return the one `Path` object of a name, because making, comparing and hashing paths is slow."""
        known = self.paths.get(name)
        if known is None:
            known = self.paths[name] = Path(name)
        return known

    def forget(self, still: Container[Path]) -> None:
        """Drop the other files from the cache."""
        self.texts = {path: kept for path, kept in self.texts.items() if path in still}
        self.paths = {name: path for name, path in self.paths.items() if path in still}


@dataclass(slots=True, eq=False, repr=False)
class Tree:
    """One directory of state files during one compilation: each file is read once."""

    root: Path
    trusted: frozenset[int] = frozenset({0})
    """Owners whose files are read."""
    limit: int = LIMIT
    read_files: dict[Path, Text] = field(default_factory=dict)
    """All files that were read."""
    warnings: list[Problem] = field(default_factory=list)
    file_cache: FileCache = field(default_factory=FileCache)
    """Cache of earlier compilations."""
    reader: Callable[[Path], bytes] | None = None
    """Function that reads the file as it was when the states were compiled. Raises `OSError` and `HoldfastError`."""
    _names: dict[str, Path] | None = None
    _found: dict[str, Path | None] = field(default_factory=dict)
    """SLS name -> its file; filled on request."""
    _walked: frozenset[str] = frozenset()
    """Paths of all state files; filled on request."""
    _safe: dict[str, paths.SafeDirectory] = field(default_factory=dict)
    """Directories that only trusted users can change, by path."""

    def anew(self) -> Tree:
        """Return a new object for the same directory, which has not read any file."""
        return Tree(self.root, self.trusted, reader=self.reader)

    def find(self, sls: str) -> Path | None:
        """Return the file of an SLS name: `a.b` is `a/b.sls`, else `a/b/init.sls`; None if there is neither."""
        if sls not in self._found:
            self._found[sls] = self._straight(sls) or self.names().get(sls)
        return self._found[sls]

    def _straight(self, sls: str) -> Path | None:
        """Return the file of an SLS name if each dot stands for a directory."""
        if "/" in sls or "\0" in sls or not all(sls.split(".")):
            return None
        stem = self._below(sls.replace(".", "/"))
        for name in (f"{stem}.sls", f"{stem}/init.sls"):
            if name in self._walked or os.path.lexists(name):
                return self.file_cache.path(name)
        return None

    def _below(self, name: str) -> str:
        """Return a path below the root, as text."""
        return os.path.join(self.root, name)  # noqa: PTH118 - text is faster

    def names(self) -> dict[str, Path]:
        """Return the file of every existing SLS name, sorted by path."""
        if self._names is None:
            found: dict[str, Path] = {}
            start = len(self._below(""))
            walked = self._walk()
            self._walked = frozenset(walked)
            for file in walked:
                name, path = sls_name(file[start:]), self.file_cache.path(file)
                other = found.setdefault(name, path)
                if other is not path:
                    found[name], hidden = (path, other) if path == self._straight(name) else (other, path)
                    message = f"this file never applies: {display(found[name])} has the same name, {name!r}"
                    self.warnings.append(Problem(Location(display(hidden)), "source-hidden", message))
            self._names = found
        return self._names

    def public(self) -> list[str]:
        """Return the SLS names that apply without a top file: those without a part that begins with `_`."""
        root = self._below("")
        return [name for name, path in self.names().items() if "/_" not in "/" + str(path).removeprefix(root)]

    def match(self, pattern: str) -> list[str]:
        """Return the names that a glob matches (`*` matches dots, too), sorted.

        A name without wildcards matches itself if it exists.
        """
        if any(char in pattern for char in "*?["):
            return sorted(fnmatch.filter(self.names(), pattern))
        return [pattern] if self.find(pattern) is not None else []

    def read(self, path: Path) -> Text:
        """Return the text of a file. Raises `CompileError` if it cannot be read or is not trusted."""
        known = self.read_files.get(path)
        if known is None:
            known = self.read_files[path] = self._read(path)
        return known

    def template(self, name: str) -> Path:
        """Return the path of a template by its name from the root.

        Symbolic links are followed, `..` never leads out of the root.
        """
        parts = PurePosixPath(os.path.normpath(name.removeprefix("salt://").removeprefix("tree://"))).parts
        if not parts or parts[0] in ("..", "/", "//"):  # two slashes are a root of their own to POSIX
            raise FileNotFoundError(errno.ENOENT, "outside the states directory", name)
        return self.root.joinpath(*parts)

    def sources(self) -> tuple[ReadFile, ...]:
        """Return the files that were read, with the data to detect later changes."""
        by_parts = sorted(self.read_files.values(), key=lambda text: str(text.path).replace("/", "\0"))
        return tuple(ReadFile(text.path, text.digest) for text in by_parts)

    def _walk(self) -> list[str]:
        """Return all `*.sls` files below the root, sorted by path, without names that begin with a dot.

        Raises `CompileError` for a directory that cannot be read, because it might not be empty.
        """
        found: list[str] = []
        at = os.fspath(self.root)
        try:
            todo: list[paths.SafeDirectory | paths.Place] = [replace(paths.directory(absolute(at)), path=at)]
            while todo:
                each = todo.pop()
                at = each.path
                directory = each.enter() if isinstance(each, paths.Place) else each
                files, directories = _listed(directory)
                found += files
                todo += directories
                _demand_bounded(directory, len(found) + len(todo))
        except OSError as error:
            raise closed(at, "cannot read the directory", error) from error
        except paths.Unsafe as error:
            raise refuse(at, "source-owner", str(error), "") from error
        return sorted(found, key=os.fsencode)

    def _read(self, path: Path) -> Text:
        shown = display(path)
        if shown != str(path):
            raise refuse(path, "source-name", "the file's name is not UTF-8", "rename it")
        try:
            if self.reader is not None:
                return self._read_by(self.reader, path)
            return self.file_cache.find(path, self._look(path)) or self._read_anew(path)
        except OSError as error:
            raise closed(path, "cannot read the file", error) from error

    def _read_by(self, reader: Callable[[Path], bytes], path: Path) -> Text:
        try:
            content = reader(path)
        except HoldfastError as error:
            raise refuse(path, "source-unreadable", str(error), "") from error
        if len(content) > self.limit:
            raise too_large(path, self.limit)
        return Text(path, decode(path, content), hashlib.sha256(content).hexdigest())

    def has(self, path: Path) -> bool:
        """Return whether a file exists. Raises `OSError` if the file system cannot say."""
        if self.reader is None:
            return is_there(path)
        try:
            self.reader(path)
        except ABSENT:
            return False
        except HoldfastError:  # reading reports the problem
            return True
        return True

    def demand_trusted(self, path: Path) -> None:
        """Raise `CompileError` for a file that untrusted users can write or replace; `OSError` if it is missing."""
        self._look(path)
        self._open(path)

    def _look(self, path: Path) -> os.stat_result:
        """Return the status of a file, links followed.

        Raises `OSError`, and `CompileError` for an untrusted or too large file.
        """
        text = str(path)
        if not text.startswith("/"):
            text = absolute(text)
        folder, _, name = text.rpartition("/")
        place = (self._safe.get(folder) or self._trusted(folder, path)).entry(name)
        try:
            info = place.look()
            if info is not None and stat.S_ISLNK(info.st_mode):
                place = paths.at(text, follow=True)
                info = place.look()
        except paths.Unsafe as error:
            raise refuse(path, "source-owner", str(error), "") from error
        if info is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._demand_directory(place.directory)
        self._check_file(path, info)
        return info

    def _open(self, path: Path) -> tuple[Handle, os.stat_result]:
        """Return an open file, for which all checks of trust were made. Raises `OSError` and `CompileError`."""
        try:
            place = paths.at(absolute(path), follow=True)
            handle, info = place.open()
        except paths.Unsafe as error:
            raise refuse(path, "source-owner", str(error), "") from error
        except Permanent as error:
            raise refuse(path, "source-unreadable", str(error), "") from error
        self._demand_directory(place.directory)
        self._check_file(path, info, acl_of(handle))
        return handle, info

    def _read_anew(self, path: Path) -> Text:
        """Return the text of a file, read from the disk. Raises `OSError` or `CompileError`."""
        began = time.time_ns()
        handle, info = self._open(path)
        try:
            content = read_whole(handle.fd, info, self.limit, str(path))
        except Permanent as error:
            raise too_large(path, self.limit) from error
        text = Text(path, decode(path, content), hashlib.sha256(content).hexdigest())
        self.file_cache.put(text, info, began)
        return text

    def _check_file(self, path: Path, info: os.stat_result, acl: bytes = b"") -> None:
        if not stat.S_ISREG(info.st_mode):
            raise refuse(path, "source-unreadable", "this is not a regular file", "")
        if info.st_size > self.limit:
            raise too_large(path, self.limit)
        demand_trust(path, info, self.trusted, acl)

    def _trusted(self, folder: str, path: Path) -> paths.SafeDirectory:
        """Return the directory of a file. Raises `CompileError` if untrusted users can change it or the path to it."""
        try:
            directory = paths.directory(folder or "/")
        except paths.Unsafe as error:
            raise refuse(path, "source-owner", str(error), "") from error
        except OSError as error:
            raise closed(folder, "cannot read the directory", error) from error
        for above in (
            self.root,
            *reversed([p for p in path.parents if p.is_relative_to(self.root) and p != self.root]),
        ):
            demand_trust(above, above.stat(), self.trusted)
        self._demand_directory(directory)
        self._safe[folder] = directory
        return directory

    def _demand_directory(self, directory: paths.SafeDirectory) -> None:
        """Raise `CompileError` for a directory in which untrusted users can replace a file.

        Names the weak directory.
        """
        if not directory.holders - self.trusted:
            return
        if directory.weak is not None:
            raise distrusted(directory.weak, directory.path)


def _demand_bounded(directory: paths.SafeDirectory, entries: int) -> None:
    if entries > ENTRIES and directory.holders:
        raise paths.Unsafe(f"it has more than {ENTRIES} entries, and {directory.reason}")


def _listed(directory: paths.SafeDirectory) -> tuple[list[str], list[paths.Place]]:
    """Return the state files and directories in a directory, without names that begin with a dot. Raises `OSError`."""
    start = directory.path.rstrip("/") + "/"
    files, directories = [], []
    handle = directory.open()
    with os.scandir(handle.fd) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                directories.append(directory.entry(entry.name))
            elif entry.name.endswith(".sls") and not (entry.is_symlink() and is_directory(start + entry.name)):
                files.append(start + entry.name)
    return files, directories


def exists(path: Path) -> bool:
    """Return whether a path exists. Raises `CompileError` if the file system cannot say (name too long, no access)."""
    try:
        return is_there(path)
    except OSError as error:
        raise closed(path, "cannot check it", error) from error


def is_there(path: Path) -> bool:
    """Return whether a path exists; True behind an unsafe link, because reading reports that problem.

    Raises `OSError`.
    """
    try:
        return paths.exists(absolute(path))
    except (paths.Unsafe, ValueError) as error:
        return isinstance(error, paths.Unsafe)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def looks(info: os.stat_result) -> tuple[int, ...]:
    """Return the parts of a status that change whenever the file changes."""
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def sls_name(relative: str) -> str:
    """Return the SLS name of a file: `web/init.sls` is `web`, `web/conf.sls` is `web.conf`."""
    return relative.removesuffix(".sls").removesuffix("/init").replace("/", ".")
