"""Walk and repair whole directory trees. No link is followed, and no mount point is crossed.

An entry is neither changed nor entered if an untrusted user may have put it into the tree and does not own it.
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
from holdfast.resources.kinds.file.base import Ownership, os_errors
from holdfast.resources.paths import Place, SafeDirectory, Unsafe
from holdfast.resources.paths.handle import ENTRIES
from holdfast.resources.temporaries import is_temporary

DEPTH = 200
"""Maximum depth of a tree in which an untrusted user can create directories; each level is held open."""
LONGEST = 4096
"""Maximum length of a path in such a tree, in characters: each path takes memory."""
STRETCH, PAUSE = 64, 0.001
"""Number of entries between two pauses, and seconds of a pause.

The event loop runs in the pauses: it cannot run while this thread computes.
"""
DEEPEST = 400
"""Maximum depth of any other tree."""


@dataclass(slots=True)
class EntryBudget:
    """Number of entries of an untrusted user's tree that may still be read, which limits the cost of the walk."""

    left: int = ENTRIES
    removed: int = 0
    """Number of removed entries, including those of a removal that fails."""

    def spend(self, directory: SafeDirectory, depth: int) -> None:
        """Count one entry. Raises `Unsafe` for too many entries or levels."""
        if not (directory.holders or directory.shared):
            if depth > DEEPEST:
                raise Permanent(f"cannot walk {directory.path[:80]}...: there are more than {DEEPEST} levels")
            return
        self.left -= 1
        if self.left % STRETCH == 0:
            time.sleep(PAUSE)
        if self.left < 0:
            raise Unsafe(
                f"cannot walk {directory.path}: there are more than {ENTRIES} entries, "
                f"and {directory.reason or 'others may write it'}"
            )
        if depth > DEPTH or len(directory.path) > LONGEST:
            raise Unsafe(
                f"cannot walk {directory.path[:80]}...: there are more than {DEPTH} levels or {LONGEST} "
                f"characters, and {directory.reason}"
            )


@dataclass(frozen=True, slots=True)
class Recursion:
    """Wanted owners and modes below a directory: of directories and of other entries, possibly down to a depth."""

    directories: Ownership | None
    others: Ownership | None
    depth: int | None = None
    exclude: Collection[str] = field(default_factory=tuple)


def below(top: SafeDirectory, depth: int | None = None) -> Iterator[tuple[Place, os.stat_result]]:
    """Yield all entries below a directory with their status, each directory after its content. Follow no links.

    Blocks. Raises `OSError` and `Unsafe`.
    """
    yield from _below(top, 1, depth, EntryBudget())


def _below(
    directory: SafeDirectory, level: int, depth: int | None, budget: EntryBudget
) -> Iterator[tuple[Place, os.stat_result]]:
    if depth is not None and level > depth:
        return
    for name in list(directory.names()):  # the descriptor is closed before the entries are walked
        budget.spend(directory, level)
        place = directory.entry(name)
        seen = place.look()
        if seen is None:  # removed after it was listed
            continue
        if stat.S_ISDIR(seen.st_mode) and (depth is None or level < depth):
            inside = enter(place, seen)
            if inside is not None:
                yield from _below(inside, level + 1, depth, budget)
        yield place, seen


def enter(place: Place, seen: os.stat_result) -> SafeDirectory | None:
    """Open the directory at a place; None if it no longer exists.

    Raises `OSError`, and `Unsafe` for a directory that a user may have moved there.
    """
    place.demand_own(seen, "walk")
    try:
        inside = place.enter()
    except FileNotFoundError:
        return None
    place.demand_own(inside.info, "walk")  # another directory may have replaced it
    return inside


def repair_tree(top: SafeDirectory, rules: Recursion, found: dict[str, dict[str, str]], *, apply: bool) -> None:
    """Add each path below `top` whose owner or mode differs to `found`, with the differences; with `apply`, repair it.

    `top` has the status from before its own repair. Blocks. Raises `Permanent` or `Temporary`.
    """
    with os_errors("walk", top.path):
        work = _TreeRepair(top, rules, found, apply=apply)
        work.inside(top, 1)
    if work.refused:
        raise Unsafe(f"{work.first} (and {work.refused - 1} more)" if work.refused > 1 else work.first)


class _TreeRepair:
    """The repair of one tree from the top down.

    A directory is repaired before its content is read, so that no untrusted user can add entries after that.
    """

    def __init__(self, top: SafeDirectory, rules: Recursion, found: dict[str, dict[str, str]], *, apply: bool) -> None:
        self.refused, self.first = 0, ""
        """Number of refused entries, and the reason of the first. Exceptions would keep descriptors open."""
        self._top, self._rules, self._found, self._apply = top, rules, found, apply
        self._budget = EntryBudget()

    def inside(self, directory: SafeDirectory, level: int) -> None:
        """Repair the entries of a directory, given its status from before its own repair.

        An entry is changed if that is safe according to its status before or after the repair of the directory.
        """
        if self._rules.depth is not None and level > self._rules.depth:
            return
        now = self._now(directory)
        for name in list(directory.names()):
            self._budget.spend(directory, level)
            place = directory.entry(name)
            seen = place.look()
            if seen is None or is_temporary(name):  # removed, or a temporary file, whose writer sets its owner and mode
                continue
            if now is not directory and place.refusal(seen) and (seen.st_nlink == 1 or stat.S_ISDIR(seen.st_mode)):
                place = now.entry(name)
            below = enter(place, seen) if stat.S_ISDIR(seen.st_mode) and self._goes_on(level) else None
            self._entry(place, seen)
            if below is not None:
                self.inside(below, level + 1)

    def _now(self, directory: SafeDirectory) -> SafeDirectory:
        """Return the directory with its status after the repair or, without `apply`, as it would be."""
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
    """Return whether a path below `top`, or its last part, matches one of the patterns."""
    inside = path[len(top) :].lstrip("/")
    globs = [pattern for pattern in patterns if not pattern.startswith("E@")]
    return matches(inside, patterns) or matches(inside.rpartition("/")[2], globs)


def matches(inside: str, patterns: Collection[str]) -> bool:
    """Return whether a path below a directory matches one of the patterns.

    A pattern is a glob, whose `*` also matches `/`, or `E@` and a regular expression. Blocks. Raises `Unbounded` if an
    expression takes too long on this path.
    """
    return any(
        expression(pattern[2:]).search(inside) is not None
        if pattern.startswith("E@")
        else fnmatch.fnmatchcase(inside, pattern)
        for pattern in patterns
    )


def valid_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Check regular expressions. Raises `ValueError`."""
    for pattern in patterns:
        try:
            expression(pattern.removeprefix("E@") if pattern.startswith("E@") else "")
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{pattern} is not a regular expression: {error}") from None
    return patterns


Patterns = Annotated[Texts, AfterValidator(valid_patterns)]
"""Globs of paths below a directory, or `E@` and a regular expression."""


def surplus(top: SafeDirectory, keep: Collection[str], exclude: Collection[str]) -> list[str]:
    """Return the paths that `clean` removes: the topmost paths below `top` that are neither kept nor excluded.

    A path is kept with its parents and its content; `DIRECTORY/.` keeps only the directory. A temporary file that is
    about to be renamed into place is never removed. Blocks. Raises `Permanent` or `Temporary`.
    """
    kept = set(keep)
    on_the_way = {parent for path in kept for parent in _parents(path, top.path)}
    extra: list[str] = []
    budget = EntryBudget()

    def walk(directory: SafeDirectory, level: int) -> bool:
        """Collect surplus paths; return whether all content of the directory is surplus."""
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

    with os_errors("walk", top.path):
        walk(top, 1)
    return sorted(extra)


LISTED = 1000
"""Maximum number of removed paths in a report; if there are more, it has only the topmost paths."""


def whole(top: SafeDirectory, paths: Iterable[str]) -> list[str]:
    """Return paths below a directory together with their readable content. Blocks. Raises `Unsafe`."""
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


def reach(top: SafeDirectory, path: str) -> Place | None:
    """Return the place of a path below `top`, reached from `top` without following links.

    None if a directory of the path no longer exists. Raises `OSError` and `Unsafe`.
    """
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
