"""The files that states take from the tree, and the templates that stand in states: whether they are there, and can be read and rendered.

A state would fail for them when it runs, perhaps at night; so they are looked at whenever states are compiled. Directories are listed once
for all that is in them, and a template is judged once for each content. The templates that it certainly imports or includes are judged, too.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.resources.registry import nearest
from holdfast.resources.traits import Drawn
from holdfast.states import hostfiles
from holdfast.states.check import spot_of
from holdfast.states.errors import CompileError, Place, Problem
from holdfast.states.low import Chunk
from holdfast.states.marks import NEAR
from holdfast.states.source import Shelf, Text, Tree, is_there

if TYPE_CHECKING:
    from holdfast.states.certain import Certain

SCHEMES = ("salt://", "tree://")


class Judge:
    """Judges the sources of one tree, again and again as states are compiled."""

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)
        self._shelf = Shelf()
        self._judged: dict[Path, tuple[str, Certain]] = {}
        """Template -> digest of its content, and what is known of it."""
        self._inline: dict[str, Certain] = {}
        """Text of a template that stands in a state -> what is known of it."""

    def judge(self, tree: Tree, chunks: Iterable[Chunk]) -> Iterator[Problem]:
        """What is wrong with the sources of these calls, seen through a tree of which nothing is read yet."""
        listed: dict[str, frozenset[str] | None] = {}
        rendered: dict[str, Drawn] = {}
        inline: list[Chunk] = []
        for chunk in chunks:
            drawn = chunk.checked.drawn if chunk.checked else ()
            if drawn:
                yield from self._missing(chunk, drawn, listed)
                rendered |= {each.url: each for each in drawn if each.template and each.url.startswith(SCHEMES)}
            if chunk.checked and chunk.checked.inline:
                inline.append(chunk)
        tree.shelf = self._shelf
        parts: list[Path] = []
        for path in [path for each in rendered.values() for path in self._files(tree, each)]:
            found = self._template(tree, path)
            yield from (*found.problems, *_missing_parts(tree, found, None, parts)) if found else ()
        for chunk in inline:
            yield from self._in_state(tree, chunk, parts)
        seen: set[Path] = set()
        while parts:
            path = parts.pop()
            found = None if path in seen else self._template(tree, path)
            seen.add(path)
            yield from (*found.problems, *_missing_parts(tree, found, path.parent, parts)) if found else ()
        self._forget(tree, inline)

    def _forget(self, tree: Tree, inline: Iterable[Chunk]) -> None:
        """Let go of what is no longer used."""
        texts = {text for chunk in inline if chunk.checked for _, text in chunk.checked.inline}
        self._inline = {text: known for text, known in self._inline.items() if text in texts}
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

    def _template(self, tree: Tree, path: Path) -> Certain | None:
        """What is known of a template; None where it cannot be read, which the state says when it runs."""
        try:
            text = tree.read(path)
        except (CompileError, OSError):
            return None
        digest, found = self._judged.get(path, ("", None))
        if found is None or digest != text.digest:
            found = _look(text, tree)
            self._judged[path] = text.digest, found
        return found

    def _in_state(self, tree: Tree, chunk: Chunk, parts: list[Path]) -> Iterator[Problem]:
        """What is wrong with the templates that stand in a state."""
        for key, text in chunk.checked.inline if chunk.checked else ():
            if "{" not in text and not text.startswith("#jinja2:"):
                continue
            if text not in self._inline:
                digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
                self._inline[text] = _look(Text(Path(chunk.spot.document.file), text, digest), tree)
            found = self._inline[text]
            for problem in (*found.problems, *_missing_parts(tree, found, None, parts)):
                yield placed(problem, chunk, key, text)


def _look(text: Text, tree: Tree) -> Certain:
    """What is known of a template without rendering it."""
    from holdfast.states.certain import look_at  # noqa: PLC0415 - few states have templates

    return look_at(text, tree)


def _missing_parts(tree: Tree, found: Certain, directory: Path | None, parts: list[Path]) -> Iterator[Problem]:
    """The templates that one needs and that are not there; the others join `parts`. Relative names begin at `directory`."""
    for part in found.parts:
        name = part.name
        if name.startswith(("./", "../")):
            if directory is None:
                continue
            name = os.path.normpath(directory.relative_to(tree.root) / name)
        try:
            path = tree.template(name)
            there = is_there(path)
        except FileNotFoundError:
            there = False
        except OSError:  # it may be there
            continue
        if there:
            parts.append(path)
        elif part.missing:
            yield part.missing


def placed(problem: Problem, chunk: Chunk, key: str, text: str) -> Problem:
    """A problem of a text that stands in a state, in the line of the state file that has this line; at its argument where none has it."""
    spot = spot_of(chunk, (key,))
    lines = text.split("\n")
    line = lines[problem.place.line - 1].strip() if 0 < problem.place.line <= len(lines) else ""
    place, document = spot.place, spot.document
    for number in range(place.line, place.line + len(lines) + NEAR) if line else ():
        written = document.line_text(place.file, number)
        if written.strip() == line:
            column = problem.place.column and problem.place.column - lines[problem.place.line - 1].index(
                line
            ) + written.index(line)
            return problem._replace(
                place=Place(place.file, number, column),
                text=document.problem_at(Place(place.file, number), "", "").text,
            )
    return spot.problem(problem.code, f"line {problem.place.line} of {key}: {problem.message}", problem.hint)


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
