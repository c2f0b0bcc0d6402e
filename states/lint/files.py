"""Rules on files: unused state files, and Python modules that only Salt would load."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path, PurePosixPath

from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.lint.rule import Subject, rule
from holdfast.states.source.extensions import INSTEAD, REST, modules
from holdfast.states.source.files import TOP, Tree, exists
from holdfast.states.source.refusals import display
from holdfast.states.template.analysis import EXPRESSION

INCLUDE = re.compile(r"^[ \t]*include:[ \t]*(.*)$", re.MULTILINE)
ITEM = re.compile(r"[ \t]*-[ \t]*(.+)")
FLOW = re.compile(r"\[([^\[\]]*)\]")
"""The innermost list in brackets."""
BETWEEN = re.compile(r"[ \t]*(#.*|\{[%#].*)?")
"""A line that does not end a list: blank, a comment, a tag."""
OTHERS = re.compile(r"\{%-?\s*(include|import|from)|include:")
"""A top file that may take names from other files."""
TEMPLATE = re.compile(r"[\w./-]+\.sls")


@rule
def unreached(subject: Subject) -> Iterator[Problem]:
    """Yield state files that no top file names, for any host, and that no other file includes or imports.

    The rule reads the text, because files for other hosts may not render on this one. A template may put any name into
    an include.
    """
    top, tree = subject.root / f"{TOP}.sls", subject.all_files()
    text = None if subject.inputs.sls or not exists(top) else _read(tree, top)
    if text is None or text.startswith("#!") or OTHERS.search(text):
        return
    files = {name: path for name, path in tree.names().items() if path != top}
    for name in files.keys() - _reached(tree, text, files):
        path = files[name]
        if not any(part.startswith("_") for part in path.relative_to(subject.root).parts):
            yield Problem(
                Location(display(path)),
                "file-unreached",
                f"{name!r} is never used: no top file and no include names it",
                "name it in top.sls, or remove it; begin its name with _ if that is intended",
            )


@rule
def extensions(subject: Subject) -> Iterator[Problem]:
    """Yield the directories of Python modules in the states directory that Salt would load."""
    tree = subject.all_files()
    for directory in (*INSTEAD, *REST):
        if found := modules(tree, directory):
            message = (
                f"Holdfast does not load modules for Salt: {', '.join(found[:3])}{', ...' if len(found) > 3 else ''}"
            )
            hint = INSTEAD.get(directory, "without a master there is no replacement")
            yield Problem(Location(display(subject.root / directory)), "extension-ignored", message, hint)


def _reached(tree: Tree, top: str, files: dict[str, Path]) -> set[str]:
    """Return the files that the text of the top file names, directly or through other files."""
    items = chain(_items(top.split("\n")), *map(_flow, FLOW.findall(top)))
    todo = {name for item in items for name in _meant(item, files)}
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        seen.add(name)
        todo |= set(_leads_to(tree, name, files)) - seen
    return seen


def _leads_to(tree: Tree, name: str, files: dict[str, Path]) -> Iterator[str]:
    """Yield the files that one file includes, or imports as a template."""
    text = _read(tree, files[name])
    if text is None:
        return
    for found in INCLUDE.finditer(text):
        flow = FLOW.match(text, found.start(1))
        rest = found[1].partition(" #")[0].strip()
        if flow is not None:
            items: Iterable[str] = _flow(flow[1])
        else:
            items = [rest] if rest else _items(text[found.end() + 1 :].split("\n"), whole=False)
        for item in items:
            yield from _meant(_absolute(item, files[name].relative_to(tree.root)), files)
    for base in {PurePosixPath(path).name for path in TEMPLATE.findall(text)}:
        yield from (other for other, path in files.items() if path.name == base)


def _flow(text: str) -> Iterator[str]:
    """Yield the items of a list that is written in brackets, without the comments in it."""
    lines = (line.partition(" #")[0] for line in text.split("\n"))
    yield from "".join(lines).split(",")


def _items(lines: list[str], *, whole: bool = True) -> Iterator[str]:
    """Yield the items of the list with which the lines begin, or (`whole`) of all lists in them."""
    for line in lines:
        if found := ITEM.fullmatch(line.rstrip("\r")):
            yield found[1]
        elif not whole and not BETWEEN.fullmatch(line):
            return


def _meant(item: str, files: dict[str, Path]) -> list[str]:
    """Return the files that an item of a list matches: a name or glob, perhaps below an environment.

    Jinja matches anything.
    """
    text = EXPRESSION.sub("*", item.partition(" #")[0])
    pattern = text.rpartition(": ")[2].strip(" \t'\"")
    return fnmatch.filter(files, pattern) if pattern else []


def _absolute(item: str, path: Path) -> str:
    """Return the full name of an item of an include."""
    text = EXPRESSION.sub("*", item).strip(" \t'\"")
    rest = text.lstrip(".")
    dots = len(text) - len(rest)
    return ".".join([*path.with_suffix("").parts[:-dots], *filter(None, [rest])]) if dots else text


def _read(tree: Tree, path: Path) -> str | None:
    """Return the text of a file; None if it cannot be read or is not trusted."""
    try:
        return tree.read(path).text
    except CompileError:
        return None
