"""Where git may work: as root, only where no other user could make it run programs or write elsewhere."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from holdfast.resources import accounts, paths
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.file.base import os_errors
from holdfast.resources.kinds.git.weak_files import weak_at, weak_repository
from holdfast.resources.paths.handle import ABSENT, what
from holdfast.resources.paths.place import SafeDirectory
from holdfast.resources.paths.trust import Weakness


class TrustedDirectory(NamedTuple):
    """The directory of a repository as it is now."""

    real: str
    """Path of the directory without links."""
    present: bool


def uid_of(user: str | None) -> int:
    """Return the uid of the user that git runs as. Raises `Permanent` for an unknown user. Blocks."""
    if user is None:
        return 0
    known = accounts.account(user)
    if known is None:
        raise Permanent(f"cannot run git as {user}: the user does not exist; declare the user, or correct the name")
    return known.uid


def is_root(user: str | None) -> bool:
    """Return whether git runs as root or the agent's own user, whom others must not redirect. Blocks."""
    return uid_of(user) in paths.trusted_uids()


def target_of(path: str, user: str | None) -> TrustedDirectory:
    """Return the directory of a repository if git may work in it as this user. Blocks.

    Raises `Permanent` if it is not a directory, or if it belongs to another user, who could make git run programs.
    """
    with os_errors("inspect", path):
        return _target_of(path, user)


def _target_of(path: str, user: str | None) -> TrustedDirectory:
    try:
        place = paths.at(path, follow=True)
    except ABSENT:
        _demand(path, paths.nearest(path).weak, user)
        return TrustedDirectory(path, present=False)
    seen = place.look()
    if seen is None:
        _demand(path, place.directory.weak, user)
        return TrustedDirectory(place.real, present=False)
    if not stat.S_ISDIR(seen.st_mode):
        raise Permanent(f"cannot use {path} for a repository: it is {what(seen.st_mode)}")
    if is_root(user):
        _demand(path, weak_at(path) or weak_repository(place.real), user)
    elif seen.st_uid != uid_of(user):
        owner = accounts.user_name(seen.st_uid)
        raise Permanent(f"cannot run git as {user} in {path}: it belongs to {owner}; change its owner to {user}")
    return TrustedDirectory(place.real, present=True)


def demand_same(directory: str, user: str | None) -> None:
    """Raise `Permanent` if the path now has another directory, or one in which git must not work. Blocks."""
    if target_of(directory, user) != TrustedDirectory(directory, present=True):
        raise Permanent(f"cannot use {directory} for a repository: something has replaced it during the run")


def demand_submodules(directory: str, names: Iterable[str], user: str | None) -> None:
    """Raise `Permanent` if git as root would read the configuration of a submodule that others can write. Blocks."""
    for name in names if is_root(user) else ():
        path = f"{directory}/{name}"
        with os_errors("inspect", path):
            _demand(path, paths.nearest(f"{path}/.git").weak or weak_repository(path), user)


def demand_work_tree(directory: str, files: Iterable[str], replaced: Iterable[str], user: str | None) -> None:
    """Raise `Permanent` if git as root would write where other users can replace directories by links. Blocks.

    `files`: the paths in the work tree of all files that git tracks now or will track. `replaced`: those of them that
    may be directories now, which git would remove or work in. If only trusted users can replace a directory, other
    users cannot change that while git works.
    """
    if not is_root(user):
        return
    with os_errors("inspect", directory):
        above = {posixpath.dirname(file): file for file in files}
        reasons = (_unsafe(paths.nearest(f"{directory}/{file}")) for file in above.values())
        inside = (_unsafe_below(f"{directory}/{file}") for file in replaced)
        why = next(filter(None, chain(reasons, inside)), "")
    if why:
        raise Permanent(
            f"git must not change {directory} as root, because other users could redirect it: {why}; give the owner "
            "as user, change the owner or mode, or keep users' files in directories without files of the repository"
        )


def _unsafe(directory: SafeDirectory) -> str:
    """Return why others can replace entries of the directory; empty if they cannot."""
    if directory.weak is not None:
        return f"{directory.weak.path}: {directory.weak.message}"
    return f"{directory.path}: all users may write it" if directory.shared else ""


def _unsafe_below(path: str) -> str:
    """Return why others can replace entries of the directory or a directory below it; empty if they cannot."""
    left = [path]
    while left:
        try:
            directory = paths.at(left.pop()).enter()
        except ABSENT:
            continue
        if why := _unsafe(directory):
            return why
        left += [f"{directory.real}/{name}" for name in directory.names()]
    return ""


def _demand(path: str, weak: Weakness | None, user: str | None) -> None:
    """Raise `Permanent` if git would run as root where other users can write."""
    if weak is None or not is_root(user):
        return
    raise Permanent(
        f"cannot run git as root in {path}, because other users could make it run their programs: {weak.path}: "
        f"{weak.message}; set user to the owner, or change the owner or mode"
    )
