"""Who may write a file or replace entries of a directory: its owner, its group, everybody, users of its ACL."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

from holdfast.resources.accounts import user_name

ANYONE = -1
"""As a uid: several users, or an unknown one."""
NOBODY: frozenset[int] = frozenset()
ROOT_GROUP = 0
ACL, DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"
"""Extended attributes of ACLs: that of the file, and that of new entries of a directory."""
ENTRY = struct.Struct("<HHI")
"""One entry of an ACL as the kernel stores it: tag, permissions, uid or gid; after a version number of four bytes."""
USER, GROUP_OBJ, GROUP, MASK = 0x02, 0x04, 0x08, 0x10
WRITE = 2


def trusted_uids() -> frozenset[int]:
    """Return the users that the agent trusts: root and the agent's own user."""
    return frozenset({0, os.geteuid()})


def writers(info: os.stat_result, acl: bytes, trusted: Collection[int]) -> frozenset[int]:
    """Return the untrusted users who may write a file with this status and ACL (empty: no ACL).

    A group whose gid is equal to the uid of the owner counts as the owner, the group 0 as root. The members of any
    other group are `ANYONE`.
    """
    found = set() if info.st_uid in trusted else {info.st_uid}
    if info.st_mode & stat.S_IWOTH:
        found.add(ANYONE)
    if info.st_mode & stat.S_IWGRP:  # with an ACL these bits are its mask
        for tag, number in _granted(acl) if acl else [(GROUP_OBJ, 0)]:
            if tag == USER:
                found |= {number}.difference(trusted)
            elif (info.st_gid if tag == GROUP_OBJ else number) not in {ROOT_GROUP, info.st_uid}:
                found.add(ANYONE)
    return frozenset(found) if found else NOBODY


def _granted(acl: bytes) -> Iterator[tuple[int, int]]:
    """Yield (tag, uid or gid) of each ACL entry for a named user or a group that may write.

    The number is meaningless for the owning group.
    """
    entries = [ENTRY.unpack_from(acl, at) for at in range(4, len(acl) - ENTRY.size + 1, ENTRY.size)]
    mask = next((granted for tag, granted, _ in entries if tag == MASK), WRITE)
    return (
        (tag, number) for tag, granted, number in entries if tag in {USER, GROUP, GROUP_OBJ} and granted & mask & WRITE
    )


class Weakness(NamedTuple):
    """A reason why an untrusted user can write a file, or replace entries of a directory."""

    path: str
    code: str
    """`owner` or `writable`."""
    message: str
    hint: str
    directory: bool

    def __str__(self) -> str:
        """Return the text as the end of a sentence."""
        return f"{self.path}: {self.message}; {self.hint}"


def weakness(path: str, info: os.stat_result, acl: bytes, trusted: Collection[int]) -> Weakness | None:
    """Return why untrusted users can write a file or directory; None if they cannot.

    A sticky directory is safe if a trusted user owns it.
    """
    directory = stat.S_ISDIR(info.st_mode)
    if info.st_uid not in trusted:
        known = ", ".join(map(user_name, sorted(trusted)))
        message = f"it belongs to {_with_uid(info.st_uid)}, which is not trusted (trusted: {known})"
        hint = f"chown it, if you trust what is in it: chown {user_name(min(trusted, default=0))} {path}"
        return Weakness(path, "owner", message, hint, directory)
    who = writers(info, acl, trusted)
    if not who or (directory and info.st_mode & stat.S_ISVTX):
        return None
    if info.st_mode & stat.S_IWOTH:
        message, hint = "anyone may write it", f"chmod o-w {path}"
    elif acl:
        message, hint = f"{called(max(who))} may write it, by its ACL", f"setfacl -b {path}"
    else:
        message, hint = f"the group {info.st_gid} may write it", f"chmod g-w {path}"
    return Weakness(path, "writable", message, hint, directory)


def _with_uid(uid: int) -> str:
    name = user_name(uid)
    return f"uid {uid}" if name == str(uid) else f"user {name} (uid {uid})"


def called(uid: int) -> str:
    """Return the name of a user for a message."""
    if uid == ANYONE:
        return "other users"
    name = user_name(uid)
    return name if uid == 0 and name == "root" else f"user {name}"
