"""How the account files are read and the shadow tools are called; tests/lab runs the real tools."""

from __future__ import annotations

import os

import pytest

from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.providers import _etc, shadow

PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\n# note\n"
    "alice:x:1000:100:Alice,R1,,555,more,still:/home/alice:/bin/sh\n+::::::\nbroken:x\n"
)
GROUP = "root:x:0:\nusers:x:100:\nsudo:x:27:bob,alice\n"
SHADOW = "root:*:19000:0:99999:7:::\nalice:!$6$x$y:19001:0:90:7:3:20000:\n"
WHOLE = {"passwd": PASSWD, "group": GROUP, "shadow": SHADOW}


@pytest.fixture
def etc(tmp_path, host):
    """Create the account files of a small host."""
    host.root, folder = tmp_path, tmp_path / "etc"
    folder.mkdir()
    for name, text in WHOLE.items():
        (folder / name).write_text(text)
    return folder


def test_accounts_are_read_completely(etc):
    """Every field is read; comments and malformed lines are skipped."""
    accounts = _etc.read(etc)

    alice = accounts.users["alice"]
    assert set(accounts.users) == {"root", "alice"}
    assert (alice.uid, alice.gid, alice.primary_group, alice.groups) == (1000, 100, "users", ("sudo",))
    assert (alice.fullname, alice.extra["workphone"], alice.extra["homephone"], alice.extra["other"]) == (
        "Alice",
        None,
        "555",
        "more,still",
    )
    assert (alice.locked, alice.extra["expire"], alice.extra["maxdays"]) == (True, 20000, 90)
    assert accounts.groups["sudo"].members == ("alice", "bob")


def test_odd_lines_do_no_harm(etc):
    """Users can put odd line breaks into their comments (chfn), and an editor may drop the number of a line."""
    (etc / "passwd").write_text(
        PASSWD + "eve:x:1001:100:a\u2028b\x85c\rd:/home/eve:/bin/sh\nhalf:x::100::/:/bin/sh\n", newline=""
    )
    (etc / "group").write_text(GROUP + "half:x::\n")
    (etc / "shadow").write_text(SHADOW + "eve:*:today:0:::::\n")

    accounts = _etc.read(etc)
    assert (set(accounts.users), set(accounts.groups)) == ({"root", "alice", "eve"}, {"root", "users", "sudo"})
    assert (accounts.users["eve"].fullname, accounts.users["eve"].extra["date"]) == ("a\u2028b\x85c\rd", None)


def test_the_hash_is_not_shown(etc):
    """The representation of a user, which may appear in a message, omits the password hash."""
    assert "$6$" not in repr(_etc.read(etc).users["alice"])


def test_without_shadow_passwords_are_unknown(etc):
    """An agent without root's rights can still list the accounts."""
    (etc / "shadow").unlink()

    alice = _etc.read(etc).users["alice"]
    assert (alice.password, alice.locked, alice.extra["expire"]) == (None, None, None)


async def test_a_password_is_passed_by_standard_input(host, etc):
    """The password appears in no argument list and in no result. Characters that would break the line are refused."""
    changes = await shadow.ShadowUsers(host).set_password("alice", "$6$a$b")

    assert (host.ran, host.stdin) == (["chpasswd --encrypted"], ["alice:$6$a$b\n"])
    assert "$6$" not in str(changes)
    for evil in ("x\nroot:y", "a:b"):
        with pytest.raises(Permanent, match="neither a colon nor a line break"):
            await shadow.ShadowUsers(host).set_password("alice", evil)


async def test_locked_files_are_a_temporary_error(host, etc, monkeypatch):
    """Another process edits the files, so a retry may succeed."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    host.answers["useradd"] = (1, "", "useradd: cannot lock /etc/passwd; try again later.\n")

    with pytest.raises(Temporary, match="cannot add user dave: cannot lock /etc/passwd"):
        await shadow.ShadowUsers(host).add("dave")


async def test_an_ordinary_user_is_told_to_use_root(host, etc, monkeypatch):
    """The tools only report that the files are locked, but a retry would never succeed."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    host.answers["useradd"] = (
        1,
        "",
        "useradd: Permission denied.\nuseradd: cannot lock /etc/passwd; try again later.\n",
    )

    with pytest.raises(Permanent, match="cannot add user dave: only root may; run holdfast as root"):
        await shadow.ShadowUsers(host).add("dave")
