"""Creation of a repository that is complete before git recognises it.

The repository is created in `.git.holdfast`, which becomes `.git` at the end. If a run is killed before that, this
directory tells the next run that it may start again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.git.program import Git
from holdfast.resources.kinds.git.seen import HEADS
from holdfast.resources.kinds.git.trusted import demand_same

UNFINISHED = ".git.holdfast"


@dataclass(frozen=True)
class New:
    """What a new repository should contain."""

    remote: str
    refspecs: tuple[str, ...]
    """What to fetch."""
    commit: str | None
    """What to check out, by a name that git knows after the fetch; None if the remote repository is empty."""
    branch: str | None
    """The branch to check out; None: no branch."""
    upstream: str | None = None
    """The branch of the remote repository that the branch follows."""
    default: str | None = None
    """The default branch of the remote repository."""
    bare: bool = False
    mirror: bool = False
    depth: int | None = None


async def must_clear(git: Git, *, force: bool) -> bool:
    """Return whether the directory must be emptied first: with `force`, or after a run that was killed.

    Raises `Permanent` if the directory contains something that must not be removed.
    """
    done = await git.ctx.run(
        "find", git.directory, "-mindepth", "1", "-maxdepth", "1", user=git.user, cwd="/", check=False
    )
    names = [line.rpartition("/")[2] for line in done.stdout.splitlines()]
    if not names or force or UNFINISHED in names:
        return bool(names)
    raise Permanent(
        f"cannot clone to {git.directory}: the directory is not empty and is not a git repository; set force_clone: "
        "true to remove its content, or choose another target"
    )


async def make(git: Git, new: New, *, clear: bool) -> None:
    """Create the repository with its work tree. Raises `Permanent` or `Temporary`."""
    unfinished = f"{git.directory}/{UNFINISHED}"
    await git.tool("mkdir", "-p", "--", git.directory)
    await git.ctx.blocking(demand_same, git.directory, git.user)
    await git.tool("rm", "-rf", "--one-file-system", "--", unfinished)
    await git.run("init", "--quiet", "--bare", "--template=", unfinished)
    inside = replace(git, unfinished=unfinished)
    await _configure(inside, new)
    depth = () if new.depth is None else (f"--depth={new.depth}",)
    await fetch(inside, *depth, "--no-tags", refspecs=new.refspecs)
    await _set_head(inside, new)
    if clear:
        await _empty(git)
    if new.bare:
        await _move_inside(git, unfinished)
        return
    if new.commit is not None:
        await inside.run("reset", "--hard", "--quiet")
    await git.tool("mv", "-T", "--", unfinished, f"{git.directory}/.git")


async def fetch(git: Git, *options: str, refspecs: tuple[str, ...]) -> None:
    """Fetch from the URL itself, so that no setting of a remote applies. Raises `Permanent` or `Temporary`."""
    words = ("fetch", "--no-recurse-submodules", *options, "--", git.url, *refspecs)
    await git.run(*words, network=True, shown=True)


async def _configure(git: Git, new: New) -> None:
    """Write the configuration of the repository."""
    values = {"core.bare": str(new.bare).lower(), f"remote.{new.remote}.url": git.url}
    if new.mirror:
        values |= {f"remote.{new.remote}.fetch": "+refs/*:refs/*", f"remote.{new.remote}.mirror": "true"}
    elif not new.bare:
        values[f"remote.{new.remote}.fetch"] = f"+{HEADS}*:refs/remotes/{new.remote}/*"
    if new.branch and new.upstream:
        values |= {f"branch.{new.branch}.remote": new.remote, f"branch.{new.branch}.merge": f"{HEADS}{new.upstream}"}
    for name, value in values.items():
        await git.run("config", "--local", name, value)


async def _set_head(git: Git, new: New) -> None:
    """Point HEAD to the branch or the commit."""
    commit = None
    if new.commit is not None:
        commit = await git.commit_of(new.commit)
        if commit is None:
            raise Permanent(f"cannot check out {new.commit}: {git.url} has no such revision")
    if new.branch is not None:
        await git.run("symbolic-ref", "HEAD", f"{HEADS}{new.branch}")
    if commit:
        await git.run("update-ref", *(() if new.branch else ("--no-deref",)), "HEAD", commit)
    if new.default and not new.bare:
        origin = f"refs/remotes/{new.remote}"
        await git.run("symbolic-ref", f"{origin}/HEAD", f"{origin}/{new.default}")


async def _empty(git: Git) -> None:
    """Remove the content of the directory except for the unfinished repository."""
    inside = ("find", git.directory, "-mindepth", "1", "-maxdepth", "1", "!", "-name", UNFINISHED)
    await git.tool(*inside, "-exec", "rm", "-rf", "--one-file-system", "--", "{}", "+")


async def _move_inside(git: Git, unfinished: str) -> None:
    """Move a bare repository to its directory. HEAD moves last, because git recognises no repository without it."""
    within = ("find", unfinished, "-mindepth", "1", "-maxdepth", "1", "!", "-name", "HEAD")
    await git.tool(*within, "-exec", "mv", "-t", git.directory, "--", "{}", "+")
    await git.tool("mv", "-T", "--", f"{unfinished}/HEAD", f"{git.directory}/HEAD")
    await git.tool("rmdir", "--", unfinished)
