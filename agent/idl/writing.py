"""Generated files: finds existing and stale ones, and writes all of them together.

A generated file is recognised by its header; schema.json, which cannot have a comment, by its form. All other files
belong to users and are never changed. All files are prepared before the first one is replaced.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast.agent.host.files import Replacement
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.source.refusals import display

SCHEMA = "schema.json"
MADE = "Made by `holdfast idl compile` from "
TARGET = re.compile(r", target (\S+)\. Do not edit it\.")
FIRST = 400
"""Number of characters at the start of a file that contain its header."""
COMMENTS: Final[Mapping[str, tuple[str, str]]] = {
    ".py": ("# ", ""),
    ".pyi": ("# ", ""),
    ".typed": ("# ", ""),
    ".toml": ("# ", ""),
    ".yaml": ("# ", ""),
    ".yml": ("# ", ""),
    ".ts": ("// ", ""),
    ".js": ("// ", ""),
    ".go": ("// ", ""),
    ".md": ("<!-- ", " -->"),
    ".html": ("<!-- ", " -->"),
}
"""Suffix of a file -> start and end of a comment in it. JSON has the header as its member `$comment`."""


def with_header(path: str, text: str, sources: Iterable[str], package: str, target: str) -> str:
    """Return the text of a generated file with its header.

    Raises `ValueError` for a file that cannot have one. A file is made from the source with the same name, or else from
    the whole package.
    """
    stem = path.rpartition(".")[0].removesuffix("_stub")
    origin = f"{stem}.py" if stem in sources else f"the package {package}"
    header = f"{MADE}{origin}, target {target}. Do not edit it."
    suffix = Path(path).suffix or ("." + Path(path).name.rpartition(".")[2])
    if suffix == ".json":
        if not text.startswith("{"):
            raise ValueError(f"{path}: a generated JSON file is an object")
        return f'{{\n "$comment": "{header}",{text[1:]}'
    if suffix not in COMMENTS:
        raise ValueError(f"{path}: files that end with {suffix!r} cannot have a header")
    start, end = COMMENTS[suffix]
    return f"{start}{header}{end}\n{text}"


@dataclass
class OutputDirectory:
    """One output directory: its files as they are, and as they should be."""

    root: Path
    wanted: Mapping[str, str]
    """Path below the directory -> text."""
    targets: Collection[str] = ()
    """The targets that make these files. Files of other targets stay as they are."""
    changed: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def compare(self) -> Iterator[Problem]:
        """Find the files to write and to remove; yield a problem for each file of a user that is in the way."""
        for path, text in sorted(self.wanted.items()):
            try:
                found = self._text(path)
            except OSError as error:
                yield self._problem(path, "idl-output", f"cannot read this file: {error.strerror}", "")
                continue
            if found is not None and not _is_generated(path, found):
                hint = "move it away, or rename the source; generated files have a header that says so"
                yield self._problem(path, "idl-output", "this file was written by hand, and is not overwritten", hint)
            elif found != text:
                self.changed[path] = text
        for path in self._existing():
            if path not in self.wanted and self._target(path) in self.targets:
                self.removed.append(path)

    def stale(self) -> Iterator[Problem]:
        """Yield a problem for each file that differs from the one that its sources give."""
        hint = "run `holdfast idl compile` without --check"
        for path in sorted(self.changed):
            there = os.path.lexists(self.root / path)
            yield self._problem(path, "idl-stale", "this file is stale" if there else "this file is missing", hint)
        for path in self.removed:
            yield self._problem(path, "idl-stale", "the source of this file has been removed", hint)

    def _existing(self) -> Iterator[str]:
        """Yield the files of the directory. A folder with a schema.json is an output of another package."""
        for folder, folders, files in os.walk(self.root):
            if SCHEMA in files and Path(folder) != self.root:
                folders.clear()
                continue
            folders[:] = sorted(each for each in folders if not each.startswith(".") and each != "node_modules")
            yield from (Path(folder, each).relative_to(self.root).as_posix() for each in sorted(files))

    def _text(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist; an empty text if it is not a text file.

        Raises `OSError`.
        """
        whole = self.root / path
        if whole.is_symlink() or (whole.exists() and not whole.is_file()):
            return ""
        try:
            return whole.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            return ""

    def _target(self, path: str) -> str | None:
        """Return the target that has made a file; None if there is none, or if the file cannot be read."""
        try:
            header = _header(path, self._text(path) or "")
        except OSError:
            return None
        found = TARGET.search(header) if MADE in header else None
        return found[1] if found else None

    def _problem(self, path: str, code: str, message: str, hint: str) -> Problem:
        return Problem(Location(display(self.root / path)), code, message, hint)


def write(outputs: Iterable[OutputDirectory]) -> None:
    """Write and remove the files that `compare` has found.

    Raises `CompileError`; if one cannot be prepared, none is changed.
    """
    filled: list[Replacement] = []
    try:
        for output in outputs:
            for path, text in sorted(output.changed.items()):
                filled.append(_filled(output.root / path, text))
        for each in filled:
            each.commit()
        for output in outputs:
            _remove(output)
    except (OSError, HoldfastError) as error:
        for each in filled:
            each.discard()
        told = f"cannot write generated files: {getattr(error, 'strerror', None) or error}"
        where = getattr(error, "filename", None) or next(iter(outputs)).root
        raise CompileError([Problem(Location(display(str(where))), "idl-output", told)]) from error


def _filled(path: Path, text: str) -> Replacement:
    absolute = os.path.abspath(path)  # noqa: PTH100 - removes ".."
    paths.make_parents(absolute)
    made = Replacement(absolute, text.encode(), 0o644, -1, -1, durable=False)
    made.fill()
    return made


def _remove(output: OutputDirectory) -> None:
    for path in output.removed:
        whole = output.root / path
        paths.at(os.path.abspath(whole)).unlink()  # noqa: PTH100 - removes ".."
        for folder in whole.relative_to(output.root).parents:
            if folder.parts and not any((output.root / folder).iterdir()):
                (output.root / folder).rmdir()


def _is_generated(path: str, text: str) -> bool:
    if path == SCHEMA:
        return text.startswith('{\n "name": ') and '\n "format": ' in text[-FIRST:]
    return MADE in _header(path, text)


def _header(path: str, text: str) -> str:
    """Return the line with the header of a file, if it has one."""
    return "\n".join(text[:FIRST].split("\n", 2)[1 if path.endswith(".json") else 0 :][:1])
