"""Clones that are not updated, and clones with one commit checked out."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.effects import EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import field
from holdfast.resources.kinds.git.base import Clone, Rev
from holdfast.resources.kinds.git.making import New, fetch
from holdfast.resources.kinds.git.program import Git
from holdfast.resources.kinds.git.seen import (
    HASH,
    HEADS,
    PEELED,
    TAGS,
    RemoteReferences,
    SeenRepository,
    commit_in,
    short,
)
from holdfast.resources.kinds.git.steps import Steps, demand_safe, diff_of, keep, listed, overwritten


class Cloned(Clone, kind="git.cloned"):
    """A repository is cloned; later changes of the remote repository are not fetched.

    https://git.example.org/notes.git:
      git.cloned:
        - target: /srv/notes
        - branch: main

    The agent watches only the directory of the repository and which branch is checked out.
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change")

    branch: Rev | None = field(None)
    """The branch to check out. Default: that of the remote repository in a new clone, later any branch."""

    def patterns(self) -> tuple[str, ...]:
        """Return the branch of a new clone."""
        return ("HEAD", *([f"{HEADS}{self.branch}"] if self.branch else []))

    async def approach(self, ctx: Context, steps: Steps) -> None:
        """Clone, or check out the branch."""
        git, seen = await self.find(ctx)
        if seen is None:
            remote = await self.remote_of(ctx, git)
            await self.create(steps, git, self._new(remote))
        elif self.branch is not None and seen.branch != self.branch:
            if seen.bare:
                raise Permanent(f"cannot check out {self.branch} in {self.target}: it is a bare repository")
            await self._switch(steps, git, seen, self.branch)

    def _new(self, remote: RemoteReferences) -> New:
        branch = self.branch or remote.default
        commit = remote.refs.get(f"{HEADS}{self.branch}" if self.branch else "HEAD")
        if self.branch and commit is None:
            raise Permanent(f"cannot find {self.branch} in {self.name}: it has no branch with this name")
        specs = (f"+{HEADS}*:refs/remotes/origin/*", f"+{TAGS}*:{TAGS}*")
        return New("origin", specs, commit, branch, branch if commit else None, remote.default)

    async def _switch(self, steps: Steps, git: Git, seen: SeenRepository, branch: str) -> None:
        """Check out the branch; git refuses this if changes of files would be lost."""
        words: tuple[str, ...] = (branch,)
        if branch not in seen.heads:
            if f"refs/remotes/origin/{branch}" not in seen.refs:
                raise Permanent(
                    f"cannot check out {branch} in {self.target}: the clone has no branch with this name, and "
                    "git.cloned does not fetch; use git.latest"
                )
            words = ("-b", branch, "--track", f"origin/{branch}")
        await demand_safe(
            git, seen.changed, f"{HEADS}{branch}" if branch in seen.heads else f"refs/remotes/origin/{branch}"
        )
        call = partial(git.run, "checkout", "--quiet", *words, "--")
        await steps.take(f"branch {branch}", call, branch={"old": seen.branch, "new": branch})

    def watch(self, ctx: Context) -> Watch:
        """Watch the directory and HEAD, which names the branch."""
        return ctx.watch_path(self.target, f"{self.target}/.git", f"{self.target}/.git/HEAD", f"{self.target}/HEAD")


class Detached(Clone, kind="git.detached"):
    """A clone has a commit checked out instead of a branch.

    https://git.example.org/site.git:
      git.detached:
        - target: /srv/site
        - rev: v1.2

    The agent watches the work tree. Unless `rev` is a commit or `fetch_remote` is false, it asks the remote repository
    every `interval` seconds, because no event reports changes there.
    """

    rev: Rev
    """Branch, tag or commit."""
    remote: Rev = "origin"
    """Name of the remote repository in the clone."""
    force_clone: bool = False
    """Remove the content of the target if it is not a repository."""
    force_checkout: bool = False
    """Discard changes of tracked files when another commit must be checked out."""
    fetch_remote: bool = True
    """Fetch from the remote repository; false: use only what the clone has."""
    hard_reset: bool = False
    """Discard changes of tracked files, after the run has reported them."""
    submodules: bool = False
    """Check out submodules."""
    interval: float = field(300.0, unit="seconds", ge=0)
    """Seconds between two polls of the remote repository; 0: the agent does not poll after the first run."""

    def patterns(self) -> tuple[str, ...]:
        """Return each name that the revision may have."""
        return ("HEAD", f"{HEADS}{self.rev}", f"{TAGS}{self.rev}", f"{TAGS}{self.rev}{PEELED}")

    async def approach(self, ctx: Context, steps: Steps) -> None:
        """Clone, fetch and check out as needed."""
        git, seen = await self.find(ctx, submodules=self.submodules, remote=self.remote)
        if seen is None:
            await self.create(steps, git, await self._new(ctx, git), force=self.force_clone)
            if self.submodules:
                await self.update_submodules(steps, git)
            return
        if seen.bare:
            raise Permanent(f"cannot use {self.target}: it is a bare repository")
        commit = await commit_in(git, seen, self.rev) if HASH.fullmatch(self.rev) else None
        if commit is None:
            await self.set_url(steps, git, seen, self.remote)
            commit = await self._wanted(ctx, steps, git, seen)
        await self._check_out(steps, git, seen, commit)
        if self.submodules and (seen.submodules or seen.head != commit):
            await self.update_submodules(steps, git)

    async def _new(self, ctx: Context, git: Git) -> New:
        remote = await self.remote_of(ctx, git)
        commit = self._commit(remote) or self.rev
        return New(self.remote, self._refspecs(), commit, None, default=remote.default)

    def _refspecs(self) -> tuple[str, ...]:
        return (f"+{HEADS}*:refs/remotes/{self.remote}/*", f"+{TAGS}*:{TAGS}*")

    def _commit(self, remote: RemoteReferences) -> str | None:
        """Return the commit that this name means in the remote repository; None if the name itself may be a commit."""
        names = (f"{HEADS}{self.rev}", f"{TAGS}{self.rev}{PEELED}", f"{TAGS}{self.rev}")
        found = next((remote.refs[name] for name in names if name in remote.refs), None)
        if found is None and not HASH.fullmatch(self.rev):
            raise Permanent(f"cannot find {self.rev} in {self.name}: it has no branch or tag with this name")
        return found

    async def _wanted(self, ctx: Context, steps: Steps, git: Git, seen: SeenRepository) -> str:
        """Return the commit to check out; fetch it first if the clone lacks it."""
        if not self.fetch_remote:
            names = (f"refs/remotes/{self.remote}/{self.rev}", f"{TAGS}{self.rev}")
            found = next((name for name in names if name in seen.refs), None)
            commit = await git.commit_of(found) if found else None
            if commit is None:
                raise Permanent(f"cannot find {self.rev} in {self.target}, and fetch_remote is false")
            return commit
        wanted = self._commit(await self.remote_of(ctx, git)) or self.rev
        commit = await commit_in(git, seen, wanted)
        if commit is None:
            await steps.take(
                f"fetch from {self.remote}", partial(fetch, git, "--force", "--no-tags", refspecs=self._refspecs())
            )
            commit = await git.commit_of(wanted) if steps.apply else wanted
            if commit is None:
                raise Permanent(f"cannot find {self.rev} in {self.name}: the fetch did not bring it")
        return commit

    async def _check_out(self, steps: Steps, git: Git, seen: SeenRepository, commit: str) -> None:
        """Check out the commit. git refuses this if changes of files would be lost, unless the state discards them."""
        moves = seen.head != commit
        lost = seen.changed if self.hard_reset or (moves and self.force_checkout) else {}
        if not (moves or seen.branch or lost):
            return
        changes: dict[str, object] = {"HEAD": {"old": seen.head, "new": commit}} if moves else {}
        if seen.branch is not None:
            changes["branch"] = {"old": seen.branch, "new": None}
        present = await commit_in(git, seen, commit) is not None
        safe = partial(demand_safe, git, seen.changed, commit if present and moves else None)
        if lost and present:
            lost = await overwritten(git, seen, commit)
            steps.ctx.report.diff, _ = await asyncio.gather(diff_of(git, lost, commit, safe=True), safe())
            changes |= {"discarded": [f"{letters.replace('.', '')} {path}" for path, letters in lost.items()]}
        else:
            await safe()
        force = ("--force",) if lost else ()
        await steps.take(
            f"checkout of {short(commit)}" + (f", which discards changes of {listed(lost)}" if lost else ""),
            partial(git.ctx.blocking, keep, git.directory, lost),
            lambda: git.run("checkout", "--quiet", "--detach", *force, commit, "--"),
            **changes,
        )

    def watch(self, ctx: Context) -> Watch:
        """Watch the repository and its work tree; poll the remote repository if the revision may move there."""
        fixed = len(self.rev) >= 40 and HASH.fullmatch(self.rev)
        return self.watching(ctx, 0 if fixed or not self.fetch_remote else self.interval)
