"""Whole directory trees: looked through and put right, or removed, without ever leaving them by a link or a mount.

What an untrusted user may have put into them, and is not his own, is neither changed nor looked into.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated

from pydantic import AfterValidator

from holdfast.resources.errors import Permanent
from holdfast.resources.expressions import expression
from holdfast.resources.fields import Texts
from holdfast.resources.kinds.file.base import Ownership, telling
from holdfast.resources.paths import Directory, Place, Unsafe
from holdfast.resources.paths.handle import ENTRIES
from holdfast.resources.temporaries import is_temporary

DEPTH = 200
"""Levels of directories that a tree may have where an untrusted user can make as many as he likes; each is held open."""
LONGEST = 4096
"""Characters that a path may have there: each takes memory."""
STRETCH, PAUSE = 64, 0.001
"""So many entries are looked at between two pauses of so many seconds: the event loop cannot run while this thread computes."""
DEEPEST = 400
"""Levels that any other tree may have."""


@dataclass(slots=True)
class Budget:
    """How much of what an untrusted user can make may still be looked at: cost must not be his to choose."""

    left: int = ENTRIES
    removed: int = 0
    """Entries that are gone: what a removal that fails has done until then."""

    def spend(self, directory: Directory, depth: int) -> None:
        """Take one entry. Raises `Unsafe` when there are too many, or too many levels."""
        if not (directory.holders or directory.shared):
            if depth > DEEPEST:
                raise Permanent(f"cannot look through {directory.path[:80]}...: there are more than {DEEPEST} levels")
            return
        self.left -= 1
        if self.left % STRETCH == 0:
            time.sleep(PAUSE)
        if self.left < 0:
            raise Unsafe(
                f"cannot look through {directory.path}: there are more than {ENTRIES} entries, and {directory.reason or 'others may write it'}"
            )
        if depth > DEPTH or len(directory.path) > LONGEST:
            raise Unsafe(
                f"cannot look through {directory.path[:80]}...: there are more than {DEPTH} levels or {LONGEST} characters, and {directory.reason}"
            )


@dataclass(frozen=True, slots=True)
class Recursion:
    """How the entries of a directory should be owned: directories and all else apart; down to so many levels, or all."""

    directories: Ownership | None
    others: Ownership | None
    depth: int | None = None
    exclude: Collection[str] = field(default_factory=tuple)


def below(top: Directory, depth: int | None = None) -> Iterator[tuple[Place, os.stat_result]]:
    """Everything in a directory, and in those within it, with its status; what is in a directory comes before that. Links are not followed.

    Blocks. Raises `OSError` and `Unsafe`.
    """
    yield from _below(top, 1, depth, Budget())


def _below(
    directory: Directory, level: int, depth: int | None, budget: Budget
) -> Iterator[tuple[Place, os.stat_result]]:
    if depth is not None and level > depth:
        return
    for name in list(directory.names()):  # so that its descriptor is not held while what is in it is gone through
        budget.spend(directory, level)
        place = directory.entry(name)
        seen = place.look()
        if seen is None:  # gone since it was listed
            continue
        if stat.S_ISDIR(seen.st_mode) and (depth is None or level < depth):
            inside = enter(place, seen)
            if inside is not None:
                yield from _below(inside, level + 1, depth, budget)
        yield place, seen


def enter(place: Place, seen: os.stat_result) -> Directory | None:
    """The directory at a place; None when it has gone. Raises `OSError`, and `Unsafe` for one that somebody may have moved there."""
    place.demand_own(seen, "look through")
    try:
        inside = place.enter()
    except FileNotFoundError:
        return None
    place.demand_own(inside.info, "look through")  # it may be another by now
    return inside


def set_right(top: Directory, rules: Recursion, found: dict[str, dict[str, str]], *, apply: bool) -> None:
    """Add to `found` everything below `top` whose owner or mode is wrong -> what is wrong with it; with `apply` put it right.

    `top` is what it was before its own owner and mode were put right. Blocks. Raises `Permanent` or `Temporary`.
    """
    with telling("look through", top.path):
        work = _Work(top, rules, found, apply=apply)
        work.inside(top, 1)
    if work.refused:
        raise Unsafe(f"{work.first} (and {work.refused - 1} more)" if work.refused > 1 else work.first)


class _Work:
    """One tree that is put right, from the top down, so that nothing is put into a directory any more when its content is looked at."""

    def __init__(self, top: Directory, rules: Recursion, found: dict[str, dict[str, str]], *, apply: bool) -> None:
        self.refused, self.first = 0, ""
        """How many entries were refused, and why the first was: the errors themselves would hold descriptors."""
        self._top, self._rules, self._found, self._apply = top, rules, found, apply
        self._budget = Budget()

    def inside(self, directory: Directory, level: int) -> None:
        """Put right what is in a directory, as it was before it was itself. What either then or now is safe to change is changed."""
        if self._rules.depth is not None and level > self._rules.depth:
            return
        now = self._now(directory)
        for name in list(directory.names()):
            self._budget.spend(directory, level)
            place = directory.entry(name)
            seen = place.look()
            if seen is None or is_temporary(
                name
            ):  # gone since it was listed; or it will have owner and mode of the file that it becomes
                continue
            if now is not directory and place.refusal(seen) and (seen.st_nlink == 1 or stat.S_ISDIR(seen.st_mode)):
                place = now.entry(name)
            below = enter(place, seen) if stat.S_ISDIR(seen.st_mode) and self._goes_on(level) else None
            self._entry(place, seen)
            if below is not None:
                self.inside(below, level + 1)

    def _now(self, directory: Directory) -> Directory:
        """The directory as it is since it was put right, or without apply would be."""
        if not directory.holders:
            return directory
        calm = not self._apply and self._rules.directories is not None and self._rules.directories.mode is not None
        return directory.as_if_private() if calm else directory.again()

    def _goes_on(self, level: int) -> bool:
        return self._rules.depth is None or level < self._rules.depth

    def _entry(self, place: Place, seen: os.stat_result) -> None:
        owner = self._rules.directories if stat.S_ISDIR(seen.st_mode) else self._rules.others
        wrong = (
            owner.wrong(seen)
            if owner is not None and not excluded(place.path, self._top.path, self._rules.exclude)
            else {}
        )
        if owner is None or not wrong:
            return
        try:
            place.demand_own(seen, "change owner or mode of")
            if self._apply:
                owner.put(place, seen)
        except Unsafe as error:
            self.first, self.refused = self.first or str(error), self.refused + 1
            return
        self._found[place.path] = wrong


def excluded(path: str, top: str, patterns: Collection[str]) -> bool:
    """Whether a path below `top`, or its last part, matches one of the patterns."""
    inside = path[len(top) :].lstrip("/")
    globs = [pattern for pattern in patterns if not pattern.startswith("E@")]
    return matches(inside, patterns) or matches(inside.rpartition("/")[2], globs)


def matches(inside: str, patterns: Collection[str]) -> bool:
    """Whether a path below a directory matches one of the patterns: a glob, whose `*` means `/`, too, or `E@` and a regular expression.

    Blocks. Raises `Unbounded` for an expression that takes too long on this path.
    """
    return any(
        expression(pattern[2:]).search(inside) is not None
        if pattern.startswith("E@")
        else fnmatch.fnmatchcase(inside, pattern)
        for pattern in patterns
    )


def valid_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """For validators: refuse what is no regular expression."""
    for pattern in patterns:
        try:
            expression(pattern.removeprefix("E@") if pattern.startswith("E@") else "")
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{pattern} is not a regular expression: {error}") from None
    return patterns


Patterns = Annotated[Texts, AfterValidator(valid_patterns)]
"""Globs of paths below a directory, or `E@` and a regular expression."""


def surplus(top: Directory, keep: Collection[str], exclude: Collection[str]) -> list[str]:
    """What `clean` removes: the topmost paths below `top` that are neither kept, nor lead to what is kept, nor are excluded.

    A kept path is kept with all below it; `DIRECTORY/.` keeps a directory alone. A file that is just being put in place is no surplus. Blocks. Raises `Permanent` or `Temporary`.
    """
    kept = set(keep)
    on_the_way = {parent for path in kept for parent in _parents(path, top.path)}
    extra: list[str] = []
    budget = Budget()

    def walk(directory: Directory, level: int) -> bool:
        """Collect what is surplus; whether all of the directory's content is."""
        all_of_it, here = True, []
        for name in sorted(directory.names()):
            budget.spend(directory, level)
            place = directory.entry(name)
            if place.path in kept or is_temporary(name) or excluded(place.path, top.path, exclude):
                all_of_it = False
                continue
            inside = None
            if (
                (place.path in on_the_way or exclude)
                and (seen := place.look()) is not None
                and stat.S_ISDIR(seen.st_mode)
            ):
                inside = enter(place, seen)
            if place.path in on_the_way or inside is not None:
                before = len(extra)
                whole = inside is not None and walk(inside, level + 1) and place.path not in on_the_way
                if whole:
                    del extra[before:]
                    here.append(place.path)
                else:
                    all_of_it = False
            else:
                here.append(place.path)
        extra.extend(here)
        return all_of_it

    with telling("look through", top.path):
        walk(top, 1)
    return sorted(extra)


LISTED = 1000
"""So many of the paths that are removed are told, and beyond that the topmost only."""


def whole(top: Directory, paths: Iterable[str]) -> list[str]:
    """Paths below a directory, each with all that is below it, as far as it can be looked at. Blocks. Raises `Unsafe`."""
    found: list[str] = []
    for path in paths:
        found.append(path)
        with suppress(OSError):
            place = reach(top, path)
            seen = place.look() if place is not None else None
            inside = (
                enter(place, seen) if place is not None and seen is not None and stat.S_ISDIR(seen.st_mode) else None
            )
            if inside is not None and len(found) <= LISTED:
                found += [each.path for each, _ in islice(below(inside), LISTED)]
    return sorted(found)


def _parents(path: str, top: str) -> Iterator[str]:
    while len(path) > len(top) and path != "/":
        path = os.path.dirname(path)  # noqa: PTH120 - Path objects are slow
        yield path


def reach(top: Directory, path: str) -> Place | None:
    """The place of a path below `top`, reached from there without following a link; None when the way has gone. Raises `OSError` and `Unsafe`."""
    *steps, name = path[len(top.path) :].strip("/").split("/")
    here = top
    for step in steps:
        place = here.entry(step)
        seen = place.look()
        inside = enter(place, seen) if seen is not None else None
        if inside is None:
            return None
        here = inside
    return here.entry(name)
