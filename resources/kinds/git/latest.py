"""Clones that follow a branch or a tag of their remote repository."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from holdfast.resources.context import Context, Watch
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import field
from holdfast.resources.kinds.git.base import Clone, Glob, Rev
from holdfast.resources.kinds.git.making import New, fetch
from holdfast.resources.kinds.git.program import Git
from holdfast.resources.kinds.git.seen import HASH, HEADS, PEELED, TAGS, RemoteReferences, SeenRepository, short
from holdfast.resources.kinds.git.steps import Steps, demand_safe, diff_of, keep, listed, overwritten

TOLD = 100
"""Maximum number of references in the changes of a run."""
KEEP, UNSET = None, ""
"""Values for the upstream of a branch: keep the present one; have none."""


class Goal(NamedTuple):
    """The revision that the work tree should have."""

    commit: str | None
    """The commit; None if the remote repository is empty."""
    upstream: str | None = KEEP
    refspecs: tuple[str, ...] = ()
    """What to fetch for the revision."""
    tracking: str = ""
    """The reference on this host that must be equal to that of the remote repository."""
    object: str = ""

    def is_met_by(self, commit: str | None) -> bool:
        """Return whether this is the wanted commit, of which the state may declare only the first digits."""
        return commit is not None and commit.startswith(self.commit or "")


class Latest(Clone, kind="git.latest"):
    """A clone is at the newest commit of a branch, or at a tag or a commit.

    git:
      pkg.installed

    https://git.example.org/site.git:
      git.latest:
        - target: /srv/site
        - rev: main
        - branch: main
        - force_reset: true

    The agent watches the work tree. With `force_reset`, it reports and undoes changes of tracked files at once; files
    that git does not track stay. No event reports changes of the remote repository, so the agent asks it every
    `interval` seconds. Hooks of the repository do not run. Filters such as LFS run only if the repository's own
    configuration has them.
    """

    rev: Rev = "HEAD"
    """Branch, tag or commit; `HEAD` is the default branch of the remote repository."""
    branch: Rev | None = field(None)
    """The local branch. Default: the branch that is checked out; in a new clone, the default branch."""
    update_head: bool = True
    """Move the work tree to the revision; false: only fetch it."""
    force_checkout: bool = False
    """Discard changes of tracked files when another branch must be checked out."""
    force_clone: bool = False
    """Remove the content of the target if it is not a repository."""
    force_fetch: bool = False
    """Fetch branches even if they were rewritten."""
    force_reset: bool | Literal["remote-changes"] = False
    """Discard changes of tracked files and local commits, after the run has reported them.

    `remote-changes`: only when the work tree must move to another commit.
    """
    submodules: bool = False
    """Check out submodules."""
    bare: bool = False
    """Create a bare repository, which has no work tree."""
    mirror: bool = False
    """Create a bare repository with exactly the references of the remote repository."""
    remote: Rev = "origin"
    """Name of the remote repository in the clone."""
    fetch_tags: bool = True
    """Fetch all tags."""
    sync_tags: bool = True
    """Remove tags that the remote repository does not have."""
    depth: int | None = Field(None, ge=1)
    """Number of commits in a new clone; `rev` must be the name of a branch or tag."""
    refspec_branch: Glob = "*"
    """Branches to fetch."""
    refspec_tag: Glob = "*"
    """Tags to fetch."""
    interval: float = field(300.0, unit="seconds", ge=0)
    """Seconds between two polls of the remote repository; 0: the agent does not poll after the first run."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.is_bare and (self.rev != "HEAD" or self.branch or self.submodules):
            raise ValueError(
                "a bare repository has no work tree: leave out rev, branch and submodules, or bare and mirror"
            )
        if self.depth is not None and (self.rev == "HEAD" or self.is_bare):
            raise ValueError("depth needs the name of a branch or tag as rev")
        return self

    @property
    def is_bare(self) -> bool:
        """Whether the repository has no work tree."""
        return self.bare or self.mirror

    @property
    def all_tags(self) -> bool:
        """Whether all tags are fetched."""
        return self.fetch_tags and self.depth is None

    def patterns(self) -> tuple[str, ...]:
        """Return patterns of the references that matter."""
        if self.is_bare:
            return ()
        tags = (f"{TAGS}*",) if self.all_tags or self.sync_tags else (f"{TAGS}{self.rev}", f"{TAGS}{self.rev}{PEELED}")
        return ("HEAD", f"{HEADS}{self.rev}", *tags)

    # -- the goal -----------------------------------------------------------------------------------------------

    def goal(self, remote: RemoteReferences) -> Goal:
        """Return the wanted revision. Raises `Permanent` if the remote repository does not have it."""
        refs, rev, plus = remote.refs, self.rev, "+" if self.force_fetch else ""
        if rev == "HEAD":
            name, to = "HEAD", f"refs/remotes/{self.remote}/HEAD-of-remote"
            if remote.default is not None:
                name, to = f"{HEADS}{remote.default}", f"refs/remotes/{self.remote}/{remote.default}"
            return Goal(refs.get("HEAD"), KEEP, (f"{plus}{name}:{to}",) if "HEAD" in refs else ())
        if (head := refs.get(f"{HEADS}{rev}")) is not None:
            tracking = f"refs/remotes/{self.remote}/{rev}"
            return Goal(head, f"{self.remote}/{rev}", (f"{plus}{HEADS}{rev}:{tracking}",), tracking, head)
        if (tag := refs.get(f"{TAGS}{rev}")) is not None:
            commit = refs.get(f"{TAGS}{rev}{PEELED}", tag)
            return Goal(commit, UNSET, (f"+{TAGS}{rev}:{TAGS}{rev}",), f"{TAGS}{rev}", tag)
        if not HASH.fullmatch(rev):
            raise Permanent(f"cannot find {rev} in {self.name}: it has no branch or tag with this name")
        if self.depth is not None:
            raise Permanent("cannot clone a commit with depth: set rev to the name of a branch or tag")
        return Goal(rev.lower(), UNSET, (f"{HEADS}*:refs/remotes/{self.remote}/*",))

    def refspecs(self, goal: Goal) -> tuple[str, ...]:
        """Return what to fetch."""
        if self.mirror:
            return ("+refs/*:refs/*",)
        plus = "+" if self.force_fetch else ""
        tags = (f"+{TAGS}{self.refspec_tag}:{TAGS}{self.refspec_tag}",) if self.all_tags else ()
        if self.is_bare:
            return (f"{plus}{HEADS}{self.refspec_branch}:{HEADS}{self.refspec_branch}", *tags)
        if self.depth is not None:
            return goal.refspecs
        branches = f"{plus}{HEADS}{self.refspec_branch}:refs/remotes/{self.remote}/{self.refspec_branch}"
        return tuple(dict.fromkeys((branches, *goal.refspecs, *tags)))

    # -- the steps ----------------------------------------------------------------------------------------------

    async def approach(self, ctx: Context, steps: Steps) -> None:
        """Take the steps that lead to the wanted revision."""
        git, seen = await self.find(ctx, submodules=self.submodules, remote=self.remote)
        remote = await self.remote_of(ctx, git)
        goal = Goal(remote.refs.get("HEAD")) if self.is_bare else self.goal(remote)
        if seen is None:
            await self.create(steps, git, self._new(remote, goal), force=self.force_clone)
            if self.submodules:
                await self.update_submodules(steps, git, *self._forced())
            return
        if seen.bare != self.is_bare:
            raise Permanent(f"cannot use {self.target}: it is {'' if seen.bare else 'not '}a bare repository")
        await self.set_url(steps, git, seen, self.remote)
        if self.is_bare:
            await self._update_refs(steps, git, seen, remote)
        elif goal.commit is not None:
            await self._update(steps, git, seen, remote, goal)
        elif seen.head is not None:
            raise Permanent(f"cannot update {self.target}: the remote repository is empty")

    def _new(self, remote: RemoteReferences, goal: Goal) -> New:
        """Return the description of a new clone."""
        branch, upstream = self.branch or remote.default, remote.default
        if self.depth is not None and self.branch is None:
            branch = self.rev if goal.upstream else None
        if goal.upstream is not KEEP:
            upstream = self.rev if goal.upstream else None
        default = remote.default if self.depth is None else None
        new = New(self.remote, self.refspecs(goal), goal.commit, branch, upstream, default)
        return replace(new, bare=self.is_bare, mirror=self.mirror, depth=self.depth)

    async def _update_refs(self, steps: Steps, git: Git, seen: SeenRepository, remote: RemoteReferences) -> None:
        """Update a bare repository."""
        wanted = {name: sha for name, sha in remote.refs.items() if name != "HEAD" and not name.endswith(PEELED)}
        if not self.mirror:
            shapes = [f"{HEADS}{self.refspec_branch}", *([f"{TAGS}{self.refspec_tag}"] if self.fetch_tags else [])]
            wanted = {name: sha for name, sha in wanted.items() if any(fnmatchcase(name, each) for each in shapes)}
        wrong = [name for name, sha in wanted.items() if seen.refs.get(name) != sha]
        extra = [name for name in seen.refs if name not in wanted] if self.mirror else []
        if wrong or extra:
            prune = ("--prune",) if self.mirror else ()
            call = partial(fetch, git, *prune, "--no-tags", "--update-head-ok", refspecs=self.refspecs(Goal(None)))
            names = [*wrong, *extra]
            await steps.take(
                f"fetch of {len(names)} references",
                call,
                refs={name: {"old": seen.refs.get(name), "new": wanted.get(name)} for name in names[:TOLD]},
            )

    async def _update(self, steps: Steps, git: Git, seen: SeenRepository, remote: RemoteReferences, goal: Goal) -> None:
        """Update a work tree."""
        switches = self.branch is not None and self.branch != seen.branch
        base = seen.heads.get(str(self.branch), goal.commit) if switches else seen.head
        moves = (self.update_head or switches) and not goal.is_met_by(base)
        if seen.changed and (moves or switches):
            await self._demand_discard(steps, git, seen, switches=switches)
        commit = await self._obtain(steps, git, seen, self._stale(seen, remote, goal), goal, moves=moves)
        await self._remove_tags(steps, git, seen, remote)
        if switches:
            await self._switch(steps, git, seen, commit)
        dirty = bool(seen.changed) and self.force_reset is True
        if moves or dirty:
            await self._move(steps, git, seen, base, commit)
        elif seen.changed:
            await self._report_kept_changes(steps, git, seen)
        await self._follow(steps, git, seen, goal, switches=switches)
        if self.submodules and (dirty or moves or seen.submodules):
            await self.update_submodules(steps, git, *self._forced())

    async def _obtain(
        self, steps: Steps, git: Git, seen: SeenRepository, stale: Mapping[str, Any], goal: Goal, *, moves: bool
    ) -> str:
        """Fetch the wanted commit if the clone does not have it, and references that are `stale`.

        Returns the full hash of the commit; as far as it is declared if only the fetch would tell the rest.
        """
        wanted = goal.commit or ""
        commit = seen.head if goal.is_met_by(seen.head) else await git.commit_of(wanted)
        if commit is None or stale:
            changes = {} if moves or not stale else {"refs": dict(list(stale.items())[:TOLD])}
            await steps.take(f"fetch from {self.remote}", partial(self._fetch, git, goal), **changes)
            commit = await git.commit_of(wanted) if steps.apply else commit
        return commit or wanted

    async def _report_kept_changes(self, steps: Steps, git: Git, seen: SeenRepository) -> None:
        """Report that tracked files have changes, which the state does not discard."""
        steps.ctx.report.diff = await diff_of(git, seen.changed)
        steps.ctx.report.comment = (
            f"{self.target} is at {short(seen.head)}, with uncommitted changes ({listed(seen.changed)}); "
            "force_reset: true discards them"
        )

    def _forced(self) -> tuple[str, ...]:
        """Return the option that discards changes in submodules."""
        return ("--force",) if self.force_reset is True else ()

    def _stale(self, seen: SeenRepository, remote: RemoteReferences, goal: Goal) -> dict[str, dict[str, str | None]]:
        """Return the references to fetch: the reference of the revision, and tags that are missing or have moved."""
        wanted = {goal.tracking: goal.object} if goal.tracking else {}
        if self.all_tags:
            tags = remote.tags.items()
            wanted |= {f"{TAGS}{tag}": sha for tag, sha in tags if fnmatchcase(tag, self.refspec_tag)}
        now = seen.refs
        return {name: {"old": now.get(name), "new": sha} for name, sha in wanted.items() if now.get(name) != sha}

    async def _fetch(self, git: Git, goal: Goal) -> None:
        await fetch(git, "--no-tags", refspecs=self.refspecs(goal))
        if await git.commit_of(goal.commit or "") is None:
            raise Permanent(f"cannot find {self.rev} in {self.name}: the fetch did not bring it")

    async def _remove_tags(self, steps: Steps, git: Git, seen: SeenRepository, remote: RemoteReferences) -> None:
        """Remove the tags that the remote repository does not have."""
        extra = [tag for tag in seen.tags if tag not in remote.tags] if self.sync_tags else []
        if extra:
            calls = [partial(git.run, "update-ref", "-d", f"{TAGS}{tag}") for tag in extra]
            await steps.take(f"removal of {len(extra)} tags", *calls, deleted_tags=extra)

    async def _demand_discard(self, steps: Steps, git: Git, seen: SeenRepository, *, switches: bool) -> None:
        """Raise `Permanent` and report the changes if the state does not allow to discard changes of files."""
        if self.force_reset or (switches and self.force_checkout):
            return
        steps.ctx.report.diff = await diff_of(git, seen.changed)
        raise Permanent(
            f"cannot update {self.target}: tracked files have uncommitted changes ({listed(seen.changed)}); commit "
            f"them, or discard them with force_{'checkout' if switches else 'reset'}: true"
        )

    async def _switch(self, steps: Steps, git: Git, seen: SeenRepository, commit: str) -> None:
        """Check out the branch; create it if it is missing."""
        new = self.branch not in seen.heads
        target = None if new and not steps.apply else commit if new else f"{HEADS}{self.branch}"
        await demand_safe(git, seen.changed, target)
        force = ("--force",) if seen.changed else ()
        words = ("-b", str(self.branch), "--no-track", commit) if new else (str(self.branch),)
        await steps.take(
            f"{'new ' if new else ''}branch {self.branch}",
            partial(git.ctx.blocking, keep, git.directory, seen.changed),
            lambda: git.run("checkout", "--quiet", *force, *words, "--"),
            branch={"old": seen.branch, "new": self.branch},
        )

    async def _move(self, steps: Steps, git: Git, seen: SeenRepository, base: str | None, commit: str) -> None:
        """Move the branch and the work tree from `base` to the commit."""
        changes: dict[str, Any] = {} if base == commit else {"revision": {"old": base, "new": commit}}
        if base != commit and await git.commit_of(commit) is None:  # not fetched yet, because the run only reports
            await steps.take(f"update to {short(commit)}", **changes)
            return
        safe = partial(demand_safe, git, seen.changed, None if commit == seen.head else commit)
        forward = base in {None, commit} or await git.succeeds("merge-base", "--is-ancestor", str(base), commit)
        if not (forward or self.force_reset):
            count = (await git.run("rev-list", "--count", f"{commit}..{base}")).stdout.strip()
            said = f"cannot move {self.target} to {short(commit)}: it lacks {count} commits of the clone"
            raise Permanent(f"{said}; force_reset: true discards them")
        if forward and not seen.changed and not self.force_reset:
            await safe()
            words = ("merge", "--quiet", "--ff-only", commit)
            await steps.take(f"fast-forward to {short(commit)}", lambda: git.run(*words), **changes)
            return
        told = diff_of(git, seen.changed, commit, safe=True)
        lost, diff, _ = await asyncio.gather(overwritten(git, seen, commit), told, safe())
        if lost:
            steps.ctx.report.diff = diff
            changes["discarded"] = [f"{letters.replace('.', '')} {path}" for path, letters in lost.items()]
        if lost or not forward:
            changes["forced update"] = True
        await steps.take(
            f"reset to {short(commit)}" + (f", which discards changes of {listed(lost)}" if lost else ""),
            partial(git.ctx.blocking, keep, git.directory, lost),
            lambda: git.run("reset", "--hard", "--quiet", commit),
            **changes,
        )

    async def _follow(self, steps: Steps, git: Git, seen: SeenRepository, goal: Goal, *, switches: bool) -> None:
        """Set the upstream of the branch, or remove it."""
        if switches and not steps.apply:
            return
        branch = self.branch or seen.branch
        now = seen.upstream
        if switches:
            done = await git.run("rev-parse", "--abbrev-ref", f"{branch}@{{upstream}}", check=False)
            now = done.stdout.strip() if done.retcode == 0 else None
        if branch is None or goal.upstream is KEEP or (now or UNSET) == goal.upstream:
            return
        words = ("--unset-upstream",) if goal.upstream is UNSET else (f"--set-upstream-to={goal.upstream}",)
        await steps.take(
            f"upstream of {branch}",
            lambda: git.run("branch", *words, branch),
            upstream={"old": now, "new": goal.upstream or None},
        )

    def watch(self, ctx: Context) -> Watch:
        """Watch the repository and its work tree, and poll the remote repository."""
        return self.watching(ctx, self.interval)
