"""`file.find` and `file.grep`: search files of this host by name, and lines by content."""

# ruff: noqa: ARG001 - after the view, a function has the parameters of Salt's, used or not
from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from holdfast.resources import paths
from holdfast.resources.expressions import expression
from holdfast.states.helpers.table import looking
from holdfast.states.source import hostfiles
from holdfast.states.view.host_view import HostView

TYPES = {
    "b": stat.S_ISBLK,
    "c": stat.S_ISCHR,
    "d": stat.S_ISDIR,
    "f": stat.S_ISREG,
    "l": stat.S_ISLNK,
    "p": stat.S_ISFIFO,
    "s": stat.S_ISSOCK,
}
"""Letter of `type` -> test of a mode."""
PATTERNS: dict[str, Callable[[str, str], bool]] = {
    "name": fnmatch.fnmatchcase,
    "iname": lambda name, pattern: fnmatch.fnmatchcase(name.lower(), pattern.lower()),
    "regex": lambda name, pattern: expression(pattern).match(name) is not None,
    "iregex": lambda name, pattern: expression(pattern, re.IGNORECASE).match(name) is not None,
}
"""Option -> test of a name: a glob matches the whole name, a regular expression its beginning."""
PRINTED = {"path": lambda path: path, "name": os.path.basename}
"""Word of `print` -> property of a path."""
TIMEOUT = 30.0
"""Maximum duration of grep, in seconds."""


@looking("file.find")
def find(view: HostView, path: str, *_: Any, **options: Any) -> list[Any]:
    """Return all paths below a path, or below each match of a glob, that satisfy the options, sorted.

    Raises `ValueError` for unknown options.
    """
    _demand_known(options)
    tests = [(PATTERNS[key], str(options[key])) for key in PATTERNS if key in options]
    letters = str(options.get("type", "")).replace(",", "")
    words = [word for word in str(options.get("print", "path")).split(",") if word in PRINTED]
    least, most = int(options.get("mindepth", 0)), options.get("maxdepth")
    places = (
        place
        for root in hostfiles.matching(os.path.expanduser(path))  # noqa: PTH111 - text in, text out
        for depth, place in _at_and_below(root, None if most is None else int(most))
        if depth >= least
    )
    return sorted(_printed(place.path, words) for place in places if _fits(place, tests, letters))


def _demand_known(options: Collection[str]) -> None:
    known = {"type", "maxdepth", "mindepth", "print", *PATTERNS}
    if unknown := sorted(set(options) - known):
        raise ValueError(f"file.find has no option {unknown[0]!r}; available: {', '.join(sorted(known))}")


def _fits(place: paths.Place, tests: Sequence[tuple[Callable[[str, str], bool], str]], letters: str) -> bool:
    """Return whether the name of a path passes all tests, and the path is of one of the types."""
    name = os.path.basename(place.path)  # noqa: PTH119 - text in, text out
    return all(test(name, pattern) for test, pattern in tests) and _is(place, letters)


def _printed(path: str, words: Sequence[str]) -> Any:
    """Return the properties of a path that these words of `print` name; without a list if there is one word."""
    return [PRINTED[word](path) for word in words] if len(words) > 1 else PRINTED[words[0]](path)


def _at_and_below(root: str, most: int | None) -> Iterator[tuple[int, paths.Place]]:
    """Yield a path and all paths below it, each with its depth."""
    yield 0, replace(paths.at(hostfiles.absolute(root)), path=root)
    if most is None or most > 0:
        yield from ((found.depth, found.place) for found in hostfiles.below(root, most))


def _is(place: paths.Place, letters: str) -> bool:
    """Return whether a path is of one of these types, or of any if there are none.

    A safe link has the type of its target, too.
    """
    if not letters:
        return True
    try:
        own = place.look()
    except (OSError, paths.Unsafe):
        return False
    if own is None:
        return False
    led = hostfiles.look(place.path) if stat.S_ISLNK(own.st_mode) else own
    return led is not None and any(
        TYPES[letter]((own if letter == "l" else led).st_mode) for letter in letters if letter in TYPES
    )


@looking("file.grep")
def grep(view: HostView, path: str, pattern: str, *options: str) -> dict[str, Any]:
    """Return the matches of grep in a file, in the form of `cmd.run_all`.

    The program gets the descriptor of the file that was checked. Raises `ValueError` for more than one option in a
    text, and if grep is not installed; `Permanent` if the path is not a file; and `Unsafe`.
    """
    words = [shlex.split(option) for option in options]
    if any(len(word) != 1 for word in words):
        raise ValueError("file.grep takes each option as an argument of its own: file.grep(path, pattern, '-i', '-E')")
    program = shutil.which("grep")
    if program is None:
        raise ValueError("file.grep needs the program grep, which is not installed")
    path = os.path.expanduser(path)  # noqa: PTH111 - text in, text out
    try:
        place = paths.at(hostfiles.absolute(path), follow=True)
        handle, info = place.open()
    except OSError as error:
        return {"pid": 0, "retcode": 2, "stdout": "", "stderr": f"grep: {path}: {error.strerror}"}
    place.demand_readable(info)
    argv = ["grep", *(word[0] for word in words), f"--label={path}", "-e", pattern, "--", "-"]
    done = subprocess.run(
        argv,
        executable=program,
        stdin=handle.fd,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=TIMEOUT,
    )
    return {
        "pid": 0,
        "retcode": done.returncode,
        "stdout": done.stdout.rstrip("\n"),
        "stderr": done.stderr.rstrip("\n"),
    }
