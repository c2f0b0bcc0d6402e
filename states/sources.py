"""The files that states take from the tree: whether they are there, and whether their templates can be read and rendered.

A state would fail for them when it runs, perhaps at night; so they are looked at whenever states are compiled. Directories are listed once
for all that is in them, and a template is judged once for each content.
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
from holdfast.resources.traits import Drawn
from holdfast.states import hostfiles
from holdfast.states.check import spot_of
from holdfast.states.errors import CompileError, Problem
from holdfast.states.low import Chunk
from holdfast.states.source import Shelf, Text, Tree

SCHEMES = ("salt://", "tree://")


class Judge:
    """Judges the sources of one tree, again and again as states are compiled."""

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)
        self._shelf = Shelf()
        self._judged: dict[Path, tuple[str, tuple[Problem, ...]]] = {}
        """Template -> digest of its content, and what is wrong with it."""

    def judge(self, tree: Tree, chunks: Iterable[Chunk]) -> Iterator[Problem]:
        """What is wrong with the sources of these calls, seen through a tree of which nothing is read yet."""
        listed: dict[str, frozenset[str] | None] = {}
        rendered: dict[str, Drawn] = {}
        for chunk in chunks:
            drawn = chunk.checked.drawn if chunk.checked else ()
            if drawn:
                yield from self._missing(chunk, drawn, listed)
                rendered |= {each.url: each for each in drawn if each.template and each.url.startswith(SCHEMES)}
        tree.shelf = self._shelf
        for each in rendered.values():
            for path in self._files(tree, each):
                yield from self._template(tree, path)
        self._judged = {path: known for path, known in self._judged.items() if path in tree.read_files}
        self._shelf.forget(tree.read_files)

    def _missing(
        self, chunk: Chunk, drawn: tuple[Drawn, ...], listed: dict[str, frozenset[str] | None]
    ) -> Iterator[Problem]:
        """A source that is not there; of several of which one is enough, all of them."""
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
        """Whether a source is there, as far as that can be said: one that is not in the tree, or cannot be looked for, may be."""
        if not url.startswith(SCHEMES):
            return True
        directory, name = self._split(url)
        if directory not in listed:
            listed[directory] = _listing(directory)
        names = listed[directory]
        return names is None or name in names or (not name and directory == self._root)

    def _split(self, url: str) -> tuple[str, str]:
        """The directory of a source, and its name there."""
        inside = posixpath.normpath(_inside(url) or ".")
        if inside == ".." or inside.startswith("../"):
            return "", inside  # nothing outside belongs to the tree
        directory, _, name = f"{self._root}/{inside}".rpartition("/")
        return (self._root, "") if inside == "." else (directory, name)

    def _files(self, tree: Tree, drawn: Drawn) -> Iterator[Path]:
        """The templates that a source is: the file, or all in the directory. None where they cannot be listed: the state says why when it runs."""
        with suppress(OSError, HoldfastError, ValueError):
            path = tree.template(_inside(drawn.url))
            if drawn.inside is None or drawn.read is None:
                yield path
            else:
                yield from [path / name for name in drawn.inside(drawn.read(str(path)))]

    def _template(self, tree: Tree, path: Path) -> tuple[Problem, ...]:
        """What is wrong with a template; nothing where it cannot be read, which the state says when it runs."""
        try:
            text = tree.read(path)
        except (CompileError, OSError):
            return ()
        digest, found = self._judged.get(path, ("", ()))
        if digest != text.digest:
            found = _judged(text, tree)
            self._judged[path] = text.digest, found
        return found


def _judged(text: Text, tree: Tree) -> tuple[Problem, ...]:
    """What is wrong with the text of a template."""
    from holdfast.states.certain import certain_problems  # noqa: PLC0415 - few states have templates

    return tuple(certain_problems(text, tree))


def _inside(url: str) -> str:
    """The path of a URL below the states directory."""
    return url.partition("://")[2].partition("?")[0].lstrip("/")


def _listing(directory: str) -> frozenset[str] | None:
    """The names in a directory; none where there is no such directory, None where it cannot be listed."""
    try:
        return frozenset(hostfiles.names(directory)) if directory else frozenset()
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except (OSError, ValueError, paths.Unsafe):
        return None
