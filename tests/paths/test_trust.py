"""Owner, mode bits and ACL decide who can write a file or directory."""

from __future__ import annotations

import os
import stat
import struct
import subprocess

import pytest

from holdfast.resources import paths
from holdfast.resources.accounts import user_name
from holdfast.resources.paths import trust
from holdfast.resources.paths.trust import ACL, ANYONE, weakness, writers

ROOT = frozenset({0})


def status(uid: int, gid: int, mode: int) -> os.stat_result:
    """Return a status with this owner and mode."""
    return os.stat_result((mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


def acl(*entries: tuple[int, int, int]) -> bytes:
    """Return an ACL as the kernel stores it."""
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
def test_owner_and_mode_decide(uid, gid, mode, who):
    """The owner and everybody can be writers, and so can a group other than that of the owner or of root."""
    assert writers(status(uid, gid, stat.S_IFDIR | mode), b"", ROOT) == who


BASE = ((0x01, 7, 0xFFFFFFFF), (0x20, 5, 0xFFFFFFFF))
"""The entries of the owner and of others."""


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
def test_an_acl_adds_users_and_groups_within_its_mask(entries, who):
    """The group bits of the mode are the mask of the ACL, which limits the named users and groups."""
    assert writers(status(0, 8, stat.S_IFREG | 0o674), acl(*BASE, *entries), ROOT) == who


@pytest.mark.skipif(os.geteuid() != 0, reason="only root trusts root's files")
def test_an_acl_of_this_system_is_understood(tmp_path):
    """The ACL is written by setfacl."""
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


GROUP = 12345
ANY = 0xFFFFFFFF
"""The number of ACL entries that are not for a named user or group."""


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ([], None),
        (["ln -s f link"], None),
        (["ln -s f link", f"chown -h {GROUP} link"], "it belongs to"),
        ([f"chown {GROUP} f"], "it belongs to"),
        (["chmod o+w f"], "anyone may write it"),
        ([f"chgrp {GROUP} f", "chmod g+w f"], f"the group {GROUP} may write it"),
        (["acl"], "may write it, by its ACL"),
        ([f"chgrp {GROUP} .", "chmod g+w ."], f"the group {GROUP} may write it"),
        (["chmod o+w ."], "anyone may write it"),
        (["chmod o+wt ."], None),
    ],
)
def test_an_entry_that_an_untrusted_user_can_write(tmp_path, commands, message):
    """The user is the owner, or the mode, the ACL or the directory permits it. The mode of a link has no effect."""
    for command in ("touch f", *commands):
        if command == "acl":
            os.setxattr(tmp_path / "f", ACL, acl((1, 6, ANY), (2, 6, GROUP), (4, 4, ANY), (16, 6, ANY), (32, 4, ANY)))
        else:
            subprocess.run(command.split(), cwd=tmp_path, check=True)
    place = paths.at(str(tmp_path / ("link" if "ln -s f link" in commands else "f")))
    seen = place.look()
    assert seen is not None
    weak = place.weakness(seen)
    assert (weak is None) == (message is None)
    assert weak is None or message in weak.message
    if message and not commands[0].startswith("ln"):
        with pytest.raises(paths.Unsafe, match="cannot trust"):
            paths.demand_trusted(place, seen)


@pytest.mark.parametrize(
    ("uid", "mode", "message", "hint"),
    [
        (
            7,
            stat.S_IFREG | 0o600,
            f"it belongs to user {user_name(7)} (uid 7), which is not trusted (trusted: root)",
            "chown it, if you trust what is in it: chown root /x",
        ),
        (0, stat.S_IFREG | 0o606, "anyone may write it", "chmod o-w /x"),
        (0, stat.S_IFDIR | 0o770, "the group 9 may write it", "chmod g-w /x"),
        (
            7,
            stat.S_IFDIR | 0o1700,
            f"it belongs to user {user_name(7)} (uid 7), which is not trusted (trusted: root)",
            "chown it, if you trust what is in it: chown root /x",
        ),
    ],
)
def test_a_weakness_says_how_to_fix_it(uid, mode, message, hint):
    """The message is for the administrator."""
    found = weakness("/x", status(uid, 9, mode), b"", ROOT)
    assert found is not None
    assert (found.message, found.hint) == (message, hint)


def test_a_user_without_a_name_and_a_directory_are_told():
    """The message has the number of a user who is not in /etc/passwd."""
    found = weakness("/x", status(4294967, 9, stat.S_IFDIR | 0o700), b"", ROOT)

    assert found is not None
    assert found.message == "it belongs to uid 4294967, which is not trusted (trusted: root)"
    assert found.directory


def test_a_sticky_directory_of_root_is_not_a_weakness():
    """Only root and the owner of an entry can replace the entry."""
    assert weakness("/tmp", status(0, 0, stat.S_IFDIR | 0o1777), b"", ROOT) is None


def test_a_user_is_named():
    """The message shows the name of a user, or the number if there is no name."""
    assert [trust.called(uid) for uid in (0, ANYONE, 4294967)] == ["root", "other users", "user 4294967"]
