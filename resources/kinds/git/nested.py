"""The submodules of a clone: their paths, which of them differ from the commit, and their update."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.resources import paths
from holdfast.resources.kinds.git.program import Git
from holdfast.resources.kinds.git.trusted import demand_submodules, demand_work_tree

LINK = "160000 "
"""Mode of a submodule in the index."""


async def links(git: Git, below: str = "") -> list[str]:
    """Return the paths of all submodules, including those in submodules.

    git starts other gits in submodules without checking their owners. Raises `Permanent` if other users could thereby
    run programs as root.
    """
    done = await git.run("ls-files", "--stage", "-z", at=f"{git.directory}{below and '/'}{below}", check=False)
    tracked = [item.partition("\t")[2] for item in done.stdout.split("\0") if item.startswith(LINK)]
    found = [f"{below}{below and '/'}{name}" for name in tracked]
    if found:
        await git.ctx.blocking(demand_submodules, git.directory, found, git.user)
        nested = await git.ctx.blocking(_with, git.directory, found, ".gitmodules")
        for name in nested:
            found += await links(git, name)
    return found


async def outdated(git: Git, found: Sequence[str], *, differ: bool) -> tuple[str, ...]:
    """Return the submodules that are not checked out or are at another commit.

    `differ`: whether the status of the clone has submodules. The program that lists them is slow, so it runs only then.
    """
    if not differ and len(await git.ctx.blocking(_with, git.directory, found, ".git")) == len(found):
        return ()
    done = await git.run("submodule", "status", "--recursive")
    return tuple(line[1:].split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("-", "+", "U")))


async def update(git: Git, *options: str) -> None:
    """Check out the submodules at the commits that the clone names. Raises `Permanent` or `Temporary`."""
    await git.ctx.blocking(demand_work_tree, git.directory, (), await links(git), git.user)
    await git.run("submodule", "--quiet", "update", "--init", "--recursive", *options, network=True, shown=True)


def _with(directory: str, found: Iterable[str], name: str) -> list[str]:
    """Return the submodules whose directories have an entry with this name. Blocks."""
    return [each for each in found if _is_there(f"{directory}/{each}/{name}")]


def _is_there(path: str) -> bool:
    try:
        return paths.at(path).look() is not None
    except (OSError, paths.Unsafe):
        return False
