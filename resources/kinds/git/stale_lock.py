"""The lock of the index that a killed git leaves behind, which makes every other git refuse to work."""

from __future__ import annotations

import time

import psutil

from holdfast.resources import paths
from holdfast.resources.kinds.git.program import Git

NAME = "index.lock"
YOUNG = 60.0
"""Seconds for which a lock may belong to a program with another name, such as an editor with git built in."""


async def removed(git: Git, *, young: float = YOUNG) -> bool:
    """Remove the lock unless a git may be using it. Return whether it was removed."""
    if not await git.ctx.blocking(is_stale, git.directory, young):
        return False
    await git.tool("rm", "-f", "--", f"{git.directory}/.git/{NAME}")
    return True


def is_stale(directory: str, young: float) -> bool:
    """Return whether the lock is old and no git works in the directory. Blocks."""
    try:
        seen = paths.at(f"{directory}/.git/{NAME}").look()
    except (OSError, paths.Unsafe):
        return False
    return seen is not None and time.time() - seen.st_mtime >= young and not _git_works(directory)


def _git_works(directory: str) -> bool:
    """Return whether a git process has, or may have, its working directory there."""
    for process in psutil.process_iter(["name", "cwd"]):
        if (process.info["name"] or "").startswith("git"):
            cwd = process.info["cwd"]
            if cwd is None or cwd == directory or cwd.startswith(f"{directory}/"):
                return True
    return False
