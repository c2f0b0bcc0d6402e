"""Who may write what: owner, mode bits and ACL, each with the users that it lets in."""

from __future__ import annotations

import os
import stat
import struct
import subprocess

import pytest

from holdfast.resources.paths import trust
from holdfast.resources.paths.trust import ACL, ANYONE, weakness, writers

ROOT = frozenset({0})


def status(uid: int, gid: int, mode: int) -> os.stat_result:
    """A status of this owner and mode."""
    return os.stat_result((mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


def acl(*entries: tuple[int, int, int]) -> bytes:
    """An ACL as the kernel stores it."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "who"),
    [
        (0, 0, 0o755, set()),
        (0, 0, 0o775, set()),
        (0, 8, 0o755, set()),
        (0, 8, 0o775, {ANYONE}),
        (0, 0, 0o757, {ANYONE}),
        (7, 7, 0o700, {7}),
        (7, 7, 0o770, {7}),
        (7, 0, 0o770, {7}),
        (7, 8, 0o770, {7, ANYONE}),
        (7, 7, 0o777, {7, ANYONE}),
    ],
)
def test_owner_and_mode(uid, gid, mode, who):
    """The owner, the group unless it is his own or root's, and everybody."""
    assert writers(status(uid, gid, stat.S_IFDIR | mode), b"", ROOT) == who


BASE = ((0x01, 7, 0xFFFFFFFF), (0x20, 5, 0xFFFFFFFF))
"""The entries of the owner and of the others."""


@pytest.mark.parametrize(
    ("entries", "who"),
    [
        (((0x02, 7, 33), (0x04, 5, 0xFFFFFFFF), (0x10, 7, 0xFFFFFFFF)), {33}),
        (((0x02, 7, 33), (0x02, 7, 34), (0x04, 5, 0xFFFFFFFF), (0x10, 7, 0xFFFFFFFF)), {33, 34}),
        (((0x02, 7, 33), (0x04, 5, 0xFFFFFFFF), (0x10, 5, 0xFFFFFFFF)), set()),
        (((0x02, 5, 33), (0x04, 5, 0xFFFFFFFF), (0x10, 7, 0xFFFFFFFF)), set()),
        (((0x02, 7, 0), (0x04, 5, 0xFFFFFFFF), (0x10, 7, 0xFFFFFFFF)), set()),
        (((0x04, 7, 0xFFFFFFFF), (0x10, 7, 0xFFFFFFFF)), {ANYONE}),
        (((0x04, 5, 0xFFFFFFFF), (0x08, 7, 50), (0x10, 7, 0xFFFFFFFF)), {ANYONE}),
        (((0x04, 5, 0xFFFFFFFF), (0x08, 7, 0), (0x10, 7, 0xFFFFFFFF)), set()),
    ],
)
def test_an_acl_names_users_and_groups_within_its_mask(entries, who):
    """The mode's group bits are the mask then; who is named counts only with it."""
    assert writers(status(0, 8, stat.S_IFREG | 0o674), acl(*BASE, *entries), ROOT) == who


@pytest.mark.skipif(os.geteuid() != 0, reason="only root trusts root's files")
def test_an_acl_of_this_system_is_understood(tmp_path):
    """As setfacl writes it, not only as we believe that it does."""
    file = tmp_path / "f"
    file.touch(mode=0o644)
    value = acl(
        (0x01, 6, 0xFFFFFFFF), (0x02, 6, 12345), (0x04, 4, 0xFFFFFFFF), (0x10, 6, 0xFFFFFFFF), (0x20, 4, 0xFFFFFFFF)
    )
    try:
        os.setxattr(file, ACL, value)
    except OSError:
        pytest.skip("no ACLs on this file system")
    if subprocess.run(["which", "getfacl"], capture_output=True, check=False).returncode == 0:
        assert (
            "user:12345:rw-"
            in subprocess.run(["getfacl", "-n", file], capture_output=True, text=True, check=True).stdout
        )

    assert writers(file.stat(), os.getxattr(file, ACL), ROOT) == {12345}


@pytest.mark.parametrize(
    ("uid", "mode", "message", "hint"),
    [
        (
            7,
            stat.S_IFREG | 0o600,
            "it belongs to uid 7, which is not trusted (0)",
            "chown it, if you trust what is in it: chown 0 /x",
        ),
        (0, stat.S_IFREG | 0o606, "anyone may write it", "chmod o-w /x"),
        (0, stat.S_IFDIR | 0o770, "the group 9 may write it", "chmod g-w /x"),
        (
            7,
            stat.S_IFDIR | 0o1700,
            "it belongs to uid 7, which is not trusted (0)",
            "chown it, if you trust what is in it: chown 0 /x",
        ),
    ],
)
def test_a_weakness_says_how_to_mend_it(uid, mode, message, hint):
    """For the one who has to."""
    found = weakness("/x", status(uid, 9, mode), b"", ROOT)
    assert found is not None
    assert (found.message, found.hint) == (message, hint)


def test_a_sticky_directory_of_root_is_no_weakness():
    """Only its owner, and theirs, can replace what is in it."""
    assert weakness("/tmp", status(0, 0, stat.S_IFDIR | 0o1777), b"", ROOT) is None


def test_a_user_is_called_by_name():
    """Where there is one."""
    assert [trust.called(uid) for uid in (0, ANYONE, 4294967)] == ["root", "other users", "user 4294967"]
