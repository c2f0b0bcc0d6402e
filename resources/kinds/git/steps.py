"""Steps of one run: each step is reported, and carried out unless the run only reports."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from holdfast.resources import paths
from holdfast.resources.context import Context
from holdfast.resources.diff import LIMIT, PRIVATE
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.git.program import Git
from holdfast.resources.kinds.git.seen import SeenRepository
from holdfast.resources.kinds.git.trusted import demand_work_tree, is_root
from holdfast.resources.paths.replacing import about_to_replace

LISTED = 10
"""Maximum number of changed files that a message names."""


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
        """Take one step: make the calls in order, unless the run only reports.

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
        """Report the steps that were taken before an error."""
        self.report()

    def report(self) -> bool:
        """Report all steps. Return whether there were none."""
        if not self.told:
            return True
        self.ctx.report.changes = self.changes
        self.ctx.report.did(Effect((self.verb,), self.target, detail=f" ({', '.join(self.told)})"), applied=self.apply)
        return False


def listed(changed: Mapping[str, str]) -> str:
    """Return changed files with git's letters for a message: `M index.html, D logo.png`."""
    shown = [f"{letters.replace('.', '')} {path}" for path, letters in list(changed.items())[:LISTED]]
    more = len(changed) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


async def demand_safe(git: Git, changed: Iterable[str], commit: str | None = None) -> None:
    """Raise `Permanent` if other users can redirect git, running as root, at tracked files or files of a commit."""
    if not await git.ctx.blocking(is_root, git.user):
        return
    tracked = await git.lines("ls-files", "-z")
    wanted = await _files_of(git, commit) if commit else []
    replaced = {*changed, *wanted}.difference({*tracked}.difference(changed))
    await git.ctx.blocking(demand_work_tree, git.directory, {*tracked, *wanted, *replaced}, replaced, git.user)


async def _files_of(git: Git, commit: str) -> list[str]:
    """Return the files of a commit."""
    return await git.lines("ls-tree", "-r", "--name-only", "-z", commit)


async def diff_of(git: Git, changed: Collection[str], commit: str = "HEAD", *, safe: bool = False) -> str:
    """Return the difference between the present tracked files and those of a commit.

    The difference is hidden if other users cannot read these files, or if they could redirect git while it reads them
    as root. `safe`: the caller has made sure that they cannot.
    """
    if not await git.ctx.blocking(everybody_reads, git.directory, list(changed)):
        return PRIVATE
    if not safe:
        try:
            await demand_safe(git, changed)
        except Permanent:
            return PRIVATE
    words = ("diff", "-R", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", commit)
    text = (await git.run(*words, "--", check=False, limit=4 * LIMIT)).stdout
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}\n[diff cut at {LIMIT} characters]\n"


def everybody_reads(directory: str, changed: Iterable[str]) -> bool:
    """Return whether the modes let all users enter the directories and read these files, if they exist. Blocks."""
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
    """Make the agent keep the content of files that git is about to replace. Blocks."""
    for path in changed:
        with suppress(OSError, paths.Unsafe):
            about_to_replace(paths.at(f"{directory}/{path}"), None)


async def overwritten(git: Git, seen: SeenRepository, commit: str) -> dict[str, str]:
    """Return the files that git would overwrite with those of a commit, with letters as in `SeenRepository.changed`.

    These are the changed files, and the untracked files that the commit contains.
    """
    if commit == seen.head and all(letters.startswith(".") for letters in seen.changed.values()):
        return {**seen.changed}  # git already tracks all files of the commit
    others, wanted = await asyncio.gather(git.lines("ls-files", "--others", "-z"), _files_of(git, commit))
    return {**seen.changed, **dict.fromkeys(set(others).intersection(wanted), "??")}
