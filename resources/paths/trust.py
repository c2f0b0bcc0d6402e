"""Who may write a file, or replace the entries of a directory: its owner, its group, everybody, those whom its ACL names."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

from holdfast.resources.accounts import user_name

ANYONE = -1
"""Stands for a uid where several users are meant, or an unknown one."""
NOBODY: frozenset[int] = frozenset()
ROOT_GROUP = 0
ACL, DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"
"""Extended attributes: who may do what with it, and what is made in a directory gets."""
ENTRY = struct.Struct("<HHI")
"""One entry of an ACL as the kernel stores it: tag, permissions, uid or gid. A version number of four bytes comes before all."""
USER, GROUP_OBJ, GROUP, MASK = 0x02, 0x04, 0x08, 0x10
WRITE = 2


def trusted_uids() -> frozenset[int]:
    """The users that the agent believes: root and its own."""
    return frozenset({0, os.geteuid()})


def writers(info: os.stat_result, acl: bytes, trusted: Collection[int]) -> frozenset[int]:
    """The users besides the trusted ones who may write what has this status and this ACL (empty: none).

    The group of a user's own (gid equal to uid) is that user; root's group is root. Members of any other group are `ANYONE`.
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
    """(tag, uid or gid) of each entry for a named user or a group that may write; of the owning group the number means nothing."""
    entries = [ENTRY.unpack_from(acl, at) for at in range(4, len(acl) - ENTRY.size + 1, ENTRY.size)]
    mask = next((granted for tag, granted, _ in entries if tag == MASK), WRITE)
    return (
        (tag, number) for tag, granted, number in entries if tag in {USER, GROUP, GROUP_OBJ} and granted & mask & WRITE
    )


class Weakness(NamedTuple):
    """What lets an untrusted user write something, or replace the entries of a directory."""

    path: str
    code: str
    """`owner` or `writable`."""
    message: str
    hint: str

    def __str__(self) -> str:
        """As the end of a sentence."""
        return f"{self.path}: {self.message}; {self.hint}"


def weakness(path: str, info: os.stat_result, acl: bytes, trusted: Collection[int]) -> Weakness | None:
    """Why this is not for trusted users alone to write; None when it is. A sticky directory is, if it is theirs."""
    if info.st_uid not in trusted:
        known = ", ".join(str(uid) for uid in sorted(trusted))
        message = f"it belongs to uid {info.st_uid}, which is not trusted ({known})"
        return Weakness(
            path, "owner", message, f"chown it, if you trust what is in it: chown {min(trusted, default=0)} {path}"
        )
    who = writers(info, acl, trusted)
    if not who or (stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX):
        return None
    if info.st_mode & stat.S_IWOTH:
        return Weakness(path, "writable", "anyone may write it", f"chmod o-w {path}")
    if acl:
        return Weakness(path, "writable", f"{called(max(who))} may write it, by its ACL", f"setfacl -b {path}")
    return Weakness(path, "writable", f"the group {info.st_gid} may write it", f"chmod g-w {path}")


def called(uid: int) -> str:
    """A user, for a message."""
    if uid == ANYONE:
        return "other users"
    name = user_name(uid)
    return name if uid == 0 and name == "root" else f"user {name}"
