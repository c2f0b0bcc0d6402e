"""A private copy of the configuration of sudo with one new file, to check the file before it is put in place."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._lines import decoded

LINE = re.compile(r'[ \t]*[@#](include|includedir)[ \t]+(?:"([^"\n]+)"|((?:\\.|[^\s\\])+))[ \t]*(?:#.*)?')
"""Matches the inclusion of a file or a directory, see sudoers(5). All versions understand the form with `#`."""
ESCAPED = re.compile(r"\\(.)")
SPECIAL = re.compile(r'[\s"\\]')


class Include(NamedTuple):
    """A line that includes a file or a directory."""

    directory: bool
    path: str


class Copies:
    """Copies of those files of a configuration that directly or indirectly include a new file.

    Other files are not copied but included by their paths. A line that includes a directory is replaced by one that
    includes a list of the directory's files, so that line numbers stay the same.
    """

    def __init__(self, main: str, file: str, new: str, private: str) -> None:
        self._file, self._private = file, private
        self._known: dict[str, str | None] = {}
        self.texts: dict[str, str] = {}
        """Path of each copy -> its text."""
        self.originals: dict[str, str] = {new: file}
        """Path of each copy -> path of the original, for messages."""
        self._new = new
        self.main = self._copied(main)
        """Path of the copy of the main file; None if the configuration does not include the new file."""

    def _copied(self, path: str) -> str | None:
        """Return the path of the copy of a file; None if it does not include the new file. Blocks."""
        if path not in self._known:
            self._known[path] = None  # a file that includes itself
            self._known[path] = self._new if _same(path, self._file) else self._with_copies(path)
        return self._known[path]

    def _with_copies(self, path: str) -> str | None:
        try:
            lines = decoded(paths.read(path)).split("\n")
        except (OSError, Permanent):
            return None  # visudo reports the error
        leads = False
        for number, line in enumerate(lines):
            if include := _include(line, posixpath.dirname(path)):
                copy = self._listed(include.path) if include.directory else self._copied(include.path)
                leads = leads or copy is not None
                lines[number] = _line(copy or include.path, directory=include.directory and copy is None)
        return self._kept("\n".join(lines), path) if leads else None

    def _listed(self, directory: str) -> str | None:
        """Return the path of a list of the files of a directory; None if none of them includes the new file."""
        files = {*_files(directory), *({self._file} if _same(directory, posixpath.dirname(self._file)) else ())}
        copies = {file: self._copied(file) for file in sorted(files, key=_order)}
        if not any(copies.values()):
            return None
        return self._kept("".join(f"{_line(copy or file)}\n" for file, copy in copies.items()), directory)

    def _kept(self, text: str, original: str) -> str:
        copy = f"{self._private}/{len(self.texts)}"
        self.texts[copy], self.originals[copy] = text, original
        return copy


def _order(path: str) -> bytes:
    return os.fsencode(posixpath.basename(path))


def _files(directory: str) -> Iterator[str]:
    """Yield the files that sudo reads in a directory. Blocks."""
    with suppress(OSError, Permanent):
        found = paths.directory(directory)
        for name in found.names():
            path = f"{directory.rstrip('/')}/{name}"
            seen = paths.at(path, follow=True).look()
            if seen is not None and stat.S_ISREG(seen.st_mode) and "." not in name and not name.endswith("~"):
                yield path


def _include(line: str, directory: str) -> Include | None:
    """Return what a line of a file in this directory includes; None for other lines and for paths with escapes."""
    match = LINE.fullmatch(line)
    if match is None:
        return None
    path = match[2] or ESCAPED.sub(r"\1", match[3])
    return None if "%" in path else Include(match[1] == "includedir", posixpath.join(directory, path))


def _line(path: str, *, directory: bool = False) -> str:
    escaped = SPECIAL.sub(r"\\\g<0>", path)
    return f"#includedir {escaped}" if directory else f"#include {escaped}"


def _same(one: str, other: str) -> bool:
    """Return whether two paths lead to the same file. Blocks."""
    with suppress(OSError, Permanent):
        return paths.resolve(one) == paths.resolve(other)
    return False
