"""Checks the sources of states in the states directory, and the templates in arguments of states.

Sources must exist, and templates must be valid. Without this check a state would fail only when it runs. Sources are
checked whenever states are compiled. Each directory is listed once, and a template is checked once for each content.
Templates that a template always imports or includes are checked, too.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.resources.spelling import nearest
from holdfast.resources.traits import UsedSource
from holdfast.states.compile.check import spot_of
from holdfast.states.compile.low import Chunk, Verdict
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.parse.marks import NEAR
from holdfast.states.source import hostfiles
from holdfast.states.source.files import FileCache, Text, Tree, is_there

if TYPE_CHECKING:
    from holdfast.states.compile.template_problems import TemplateFacts

SCHEMES = ("salt://", "tree://")


class SourceChecker:
    """Checks the sources of one states directory at each compilation."""

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)
        self._file_cache = FileCache()
        self._checked: dict[Path, tuple[str, TemplateFacts]] = {}
        """Template -> digest of its content, and its problems and parts."""
        self._inline: dict[str, TemplateFacts] = {}
        """Text of a template in an argument of a state -> its problems and parts."""

    def check(self, tree: Tree, chunks: Iterable[Chunk]) -> Iterator[Problem]:
        """Yield the problems of the sources of these calls. `tree` must be new: it has read no file yet."""
        checked = [(chunk, chunk.checked) for chunk in chunks if chunk.checked is not None]
        listed: dict[str, frozenset[str] | None] = {}
        for chunk, verdict in checked:
            if verdict.drawn:
                yield from self._missing(chunk, verdict.drawn, listed)
        tree.file_cache = self._file_cache
        todo = [path for each in _rendered(verdict for _, verdict in checked) for path in self._files(tree, each)]
        inline = [chunk for chunk, verdict in checked if verdict.inline]
        for chunk in inline:
            yield from self._in_state(tree, chunk, todo)
        yield from self._templates(tree, todo)
        self._forget(tree, inline)

    def _templates(self, tree: Tree, todo: list[Path]) -> Iterator[Problem]:
        """Yield the problems of these templates, and of all templates that they need. Empties the list."""
        seen: set[Path] = set()
        while todo:
            path = todo.pop()
            found = None if path in seen else self._template(tree, path)
            seen.add(path)
            if found is not None:
                yield from found.problems
                yield from _missing_parts(tree, found, path.parent, todo)

    def _forget(self, tree: Tree, inline: Iterable[Chunk]) -> None:
        """Drop the results for templates that are no longer used."""
        texts = {text for chunk in inline if chunk.checked for _, text in chunk.checked.inline}
        self._inline = {text: known for text, known in self._inline.items() if text in texts}
        self._checked = {path: known for path, known in self._checked.items() if path in tree.read_files}
        self._file_cache.forget(tree.read_files)

    def _missing(
        self, chunk: Chunk, drawn: tuple[UsedSource, ...], listed: dict[str, frozenset[str] | None]
    ) -> Iterator[Problem]:
        """Yield the problems of sources that do not exist.

        If a state names alternatives, all of them must be missing.
        """
        choice = list(dict.fromkeys(each.url for each in drawn if each.choice))
        for urls in [choice, *([each.url] for each in drawn if not each.choice)]:
            if urls and not any(self._there(url, listed) for url in urls):
                yield self._absent(chunk, urls, listed)

    def _absent(self, chunk: Chunk, urls: list[str], listed: Mapping[str, frozenset[str] | None]) -> Problem:
        """Return the problem for a source, or alternatives, that do not exist."""
        keys = ("source", "sources", "source_hash")
        key = next((key for key in keys if urls[0] in str(chunk.low.get(key))), "name")
        text = f"there is no {urls[0]}" if len(urls) == 1 else f"none of {', '.join(urls)} exists"
        directory, name = self._split(urls[0])
        near = nearest(name, listed.get(directory) or ())
        hint = f"did you mean {urls[0].removesuffix(name)}{near}?" if near else "paths begin at the states directory"
        spot, message = spot_of(chunk, (key,)), f"{chunk.identity}: {text}"
        if spot.document.lenient:
            return spot.accepted("source-absent", message, "the state fails when it runs", hint)
        return spot.problem("source-absent", message, hint)

    def _there(self, url: str, listed: dict[str, frozenset[str] | None]) -> bool:
        """Return whether a source exists; True if it is outside of the tree, or if the file system cannot say."""
        if not url.startswith(SCHEMES):
            return True
        directory, name = self._split(url)
        if directory not in listed:
            listed[directory] = _listing(directory)
        names = listed[directory]
        return names is None or name in names or (not name and directory == self._root)

    def _split(self, url: str) -> tuple[str, str]:
        """Return the directory of a source, and its name in that directory."""
        inside = posixpath.normpath(_inside(url) or ".")
        if inside == ".." or inside.startswith("../"):
            return "", inside  # a path outside of the tree
        directory, _, name = f"{self._root}/{inside}".rpartition("/")
        return (self._root, "") if inside == "." else (directory, name)

    def _files(self, tree: Tree, drawn: UsedSource) -> Iterator[Path]:
        """Yield the templates of a source: the file, or all files of the directory.

        Empty on an error, which the state reports when it runs.
        """
        with suppress(OSError, HoldfastError, ValueError):
            path = tree.template(_inside(drawn.url))
            if drawn.inside is None or drawn.read is None:
                yield path
            else:
                yield from [path / name for name in drawn.inside(drawn.read(str(path)))]

    def _template(self, tree: Tree, path: Path) -> TemplateFacts | None:
        """Return the problems and parts of a template.

        None if it cannot be read, which the state reports when it runs.
        """
        try:
            text = tree.read(path)
        except (CompileError, OSError):
            return None
        digest, found = self._checked.get(path, ("", None))
        if found is None or digest != text.digest:
            found = _facts_of(text, tree, path.relative_to(tree.root).as_posix())
            self._checked[path] = text.digest, found
        return found

    def _in_state(self, tree: Tree, chunk: Chunk, parts: list[Path]) -> Iterator[Problem]:
        """Yield the problems of the templates in arguments of a state."""
        for key, text in chunk.checked.inline if chunk.checked else ():
            if "{" not in text and not text.startswith("#jinja2:"):
                continue
            if text not in self._inline:
                digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
                self._inline[text] = _facts_of(Text(Path(chunk.spot.document.file), text, digest), tree, None)
            found = self._inline[text]
            for problem in (*found.problems, *_missing_parts(tree, found, tree.root, parts)):
                yield placed(problem, chunk, key, text)


def _rendered(verdicts: Iterable[Verdict]) -> Iterable[UsedSource]:
    """Return the sources in the states directory that are templates, each once."""
    drawn = (each for verdict in verdicts for each in verdict.drawn if each.template)
    return {each.url: each for each in drawn if each.url.startswith(SCHEMES)}.values()


def _facts_of(text: Text, tree: Tree, name: str | None) -> TemplateFacts:
    """Return the problems and parts of the text of a template. `name` is its path from the root, if it is a file."""
    from holdfast.states.compile.template_problems import facts_of  # noqa: PLC0415 - few states have templates

    return facts_of(text, tree, name)


def _missing_parts(tree: Tree, found: TemplateFacts, directory: Path, parts: list[Path]) -> Iterator[Problem]:
    """Yield the problems of parts of a template that do not exist; the existing ones are added to `parts`.

    Relative names begin at `directory`.
    """
    for part in found.parts:
        name = part.name
        if name.startswith(("./", "../")):
            name = os.path.normpath(directory.relative_to(tree.root) / name)
        try:
            path = tree.template(name)
            there = is_there(path)
        except FileNotFoundError:
            there = False
        except OSError:  # the file system cannot say: the part may exist
            continue
        if there:
            parts.append(path)
        elif part.missing:
            yield part.missing


def placed(problem: Problem, chunk: Chunk, key: str, text: str) -> Problem:
    """Move a problem of a text in an argument of a state to the line of the state file that contains the bad line.

    The problem is at the argument if no line of the file does.
    """
    spot = spot_of(chunk, (key,))
    lines = text.split("\n")
    line = lines[problem.location.line - 1].strip() if 0 < problem.location.line <= len(lines) else ""
    location, document = spot.location, spot.document
    for number in range(location.line, location.line + len(lines) + NEAR) if line else ():
        written = document.line_text(location.file, number)
        if written.strip() == line:
            indent = lines[problem.location.line - 1].index(line)
            column = problem.location.column and problem.location.column - indent + written.index(line)
            return problem._replace(
                location=Location(location.file, number, column),
                text=document.problem_at(Location(location.file, number), "", "").text,
            )
    return spot.problem(problem.code, f"line {problem.location.line} of {key}: {problem.message}", problem.hint)


def _inside(url: str) -> str:
    """Return the path of a URL below the states directory."""
    return url.partition("://")[2].partition("?")[0].lstrip("/")


def _listing(directory: str) -> frozenset[str] | None:
    """Return the names in a directory; empty if the directory does not exist, None if it cannot be listed."""
    try:
        return frozenset(hostfiles.names(directory)) if directory else frozenset()
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except (OSError, ValueError, paths.Unsafe):
        return None
