"""Steps of one run: each is reported, and done unless the run only reports."""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from holdfast.resources import paths
from holdfast.resources.context import Context
from holdfast.resources.diff import LIMIT, PRIVATE
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.kinds.git.program import Git
from holdfast.resources.paths.replacing import about_to_replace

LISTED = 10
"""Number of changed files that a message names."""


@dataclass
class Steps:
    """What one run does to one repository."""

    ctx: Context
    target: str
    apply: bool
    changes: dict[str, Any] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    verb: EffectVerb = "change"

    async def take(self, what: str, *calls: Callable[[], Awaitable[Any]], **changes: Any) -> None:
        """Take one step: make the calls, in order, unless the run only reports.

        `what` is the step as a noun phrase.
        """
        if self.apply:
            if not self.told:
                await self.ctx.assignment.announce()
            self.ctx.report.begin(self._account)
            for call in calls:
                await call()
        self.told.append(what)
        self.changes |= changes

    async def _account(self) -> None:
        """Report the steps before an error."""
        self.report()

    def report(self) -> bool:
        """Report all steps. Return whether there were none."""
        if not self.told:
            return True
        self.ctx.report.changes = self.changes
        self.ctx.report.did(Effect((self.verb,), self.target, detail=f" ({', '.join(self.told)})"), applied=self.apply)
        return False


def listed(changed: Mapping[str, str]) -> str:
    """Return changed files with git's letters, for messages: `M index.html, D logo.png`."""
    shown = [f"{letters.replace('.', '')} {path}" for path, letters in list(changed.items())[:LISTED]]
    more = len(changed) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


async def diff_of(git: Git, changed: Iterable[str], commit: str = "HEAD") -> str:
    """Return the difference between the tracked files as they are and those of a commit.

    It is hidden if users of this host could not read these files.
    """
    if not await git.ctx.blocking(everybody_reads, git.directory, list(changed)):
        return PRIVATE
    words = ("diff", "-R", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", commit)
    text = (await git.run(*words, "--", check=False, limit=4 * LIMIT)).stdout
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}\n[diff cut at {LIMIT} characters]\n"


def everybody_reads(directory: str, changed: Iterable[str]) -> bool:
    """Return whether the modes let everybody enter all directories and read these files, if they exist. Blocks."""
    parts = directory.split("/")
    above = ["/".join(parts[:end]) or "/" for end in range(1, len(parts) + 1)]
    inside = [f"{directory}/{path}" for path in changed]
    return _all_have(above, stat.S_IXOTH) and _all_have(inside, stat.S_IROTH)


def _all_have(found: Iterable[str], bit: int) -> bool:
    try:
        statuses = [paths.at(path).look() for path in found]
    except (OSError, paths.Unsafe):
        return False
    return all(status is None or status.st_mode & bit for status in statuses)


def keep(directory: str, changed: Mapping[str, str]) -> None:
    """Let the agent keep the content of files that git is about to replace. Blocks."""
    for path in changed:
        with suppress(OSError, paths.Unsafe):
            about_to_replace(paths.at(f"{directory}/{path}"), None)


async def in_the_way(git: Git, commit: str) -> dict[str, str]:
    """Return the files that git does not track now, but would overwrite with those of a commit."""
    others = set(await git.lines("ls-files", "--others", "-z"))
    if not others:
        return {}
    return {path: "??" for path in await git.lines("ls-tree", "-r", "--name-only", "-z", commit) if path in others}
