"""Checks the sources of states in the states directory: whether they exist, and whether their templates are valid.

Without this check a state would fail only when it runs. Sources are checked whenever states are compiled. Each
directory is listed once, and a template is checked once for each content.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.resources.registry import nearest
from holdfast.resources.traits import UsedSource
from holdfast.states import hostfiles
from holdfast.states.check import spot_of
from holdfast.states.errors import CompileError, Problem
from holdfast.states.low import Chunk
from holdfast.states.source import FileCache, Text, Tree

SCHEMES = ("salt://", "tree://")


class SourceChecker:
    """Checks the sources of one states directory at each compilation."""

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)
        self._file_cache = FileCache()
        self._checked: dict[Path, tuple[str, tuple[Problem, ...]]] = {}
        """Template -> digest of its content, and its problems."""

    def check(self, tree: Tree, chunks: Iterable[Chunk]) -> Iterator[Problem]:
        """Problems of the sources of these calls. `tree` must be new: it has read no file yet."""
        listed: dict[str, frozenset[str] | None] = {}
        rendered: dict[str, UsedSource] = {}
        for chunk in chunks:
            drawn = chunk.checked.drawn if chunk.checked else ()
            if drawn:
                yield from self._missing(chunk, drawn, listed)
                rendered |= {each.url: each for each in drawn if each.template and each.url.startswith(SCHEMES)}
        tree.file_cache = self._file_cache
        for each in rendered.values():
            for path in self._files(tree, each):
                yield from self._template(tree, path)
        self._checked = {path: known for path, known in self._checked.items() if path in tree.read_files}
        self._file_cache.forget(tree.read_files)

    def _missing(
        self, chunk: Chunk, drawn: tuple[UsedSource, ...], listed: dict[str, frozenset[str] | None]
    ) -> Iterator[Problem]:
        """Problems of sources that do not exist. If a state names alternatives, all of them must be missing."""
        choice = list(dict.fromkeys(each.url for each in drawn if each.choice))
        for urls in [choice, *([each.url] for each in drawn if not each.choice)]:
            if urls and not any(self._there(url, listed) for url in urls):
                key = next(
                    (key for key in ("source", "sources", "source_hash") if urls[0] in str(chunk.low.get(key))), "name"
                )
                text = f"there is no {urls[0]}" if len(urls) == 1 else f"there is none of {', '.join(urls)}"
                directory, name = self._split(urls[0])
                near = nearest(name, listed.get(directory) or ())
                hint = (
                    f"did you mean {urls[0].removesuffix(name)}{near}?"
                    if near
                    else "paths begin at the states directory"
                )
                yield spot_of(chunk, (key,)).problem("source-absent", f"{chunk.identity}: {text}", hint)

    def _there(self, url: str, listed: dict[str, frozenset[str] | None]) -> bool:
        """Whether a source exists; True if it is outside of the tree, or if the file system cannot say."""
        if not url.startswith(SCHEMES):
            return True
        directory, name = self._split(url)
        if directory not in listed:
            listed[directory] = _listing(directory)
        names = listed[directory]
        return names is None or name in names or (not name and directory == self._root)

    def _split(self, url: str) -> tuple[str, str]:
        """The directory of a source, and its name in that directory."""
        inside = posixpath.normpath(_inside(url) or ".")
        if inside == ".." or inside.startswith("../"):
            return "", inside  # a path outside of the tree
        directory, _, name = f"{self._root}/{inside}".rpartition("/")
        return (self._root, "") if inside == "." else (directory, name)

    def _files(self, tree: Tree, drawn: UsedSource) -> Iterator[Path]:
        """The templates of a source: the file, or all files of the directory.

        Empty on an error, which the state reports when it runs.
        """
        with suppress(OSError, HoldfastError, ValueError):
            path = tree.template(_inside(drawn.url))
            if drawn.inside is None or drawn.read is None:
                yield path
            else:
                yield from [path / name for name in drawn.inside(drawn.read(str(path)))]

    def _template(self, tree: Tree, path: Path) -> tuple[Problem, ...]:
        """The problems of a template. Empty if it cannot be read, which the state reports when it runs."""
        try:
            text = tree.read(path)
        except (CompileError, OSError):
            return ()
        digest, found = self._checked.get(path, ("", ()))
        if digest != text.digest:
            found = _problems_of(text, tree)
            self._checked[path] = text.digest, found
        return found


def _problems_of(text: Text, tree: Tree) -> tuple[Problem, ...]:
    """The problems of the text of a template."""
    from holdfast.states.template_problems import certain_problems  # noqa: PLC0415 - few states have templates

    return tuple(certain_problems(text, tree))


def _inside(url: str) -> str:
    """The path of a URL below the states directory."""
    return url.partition("://")[2].partition("?")[0].lstrip("/")


def _listing(directory: str) -> frozenset[str] | None:
    """The names in a directory; empty if the directory does not exist, None if it cannot be listed."""
    try:
        return frozenset(hostfiles.names(directory)) if directory else frozenset()
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except (OSError, ValueError, paths.Unsafe):
        return None
