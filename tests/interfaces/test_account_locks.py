"""Changes of accounts wait for other programs that change the account files; tests/lab does it with the real tools."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.resources.errors import Temporary
from holdfast.resources.providers import _account_locks, shadow

HOLD = (
    "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked', flush=True); input()"
)
"""Locks a file as lckpwdf does."""


@contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Lock a file in another process, until the block or the standard input of the process ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, path], **pipes) as process:
        assert process.stdout.readline() == "locked\n"
        yield process


@pytest.fixture
def etc(tmp_path, host):
    """Create account files in which userdel has removed visitor from passwd, but not yet from group."""
    host.root, folder = tmp_path, tmp_path / "etc"
    folder.mkdir()
    (folder / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    (folder / "group").write_text("root:x:0:\nvisitor:x:1000:\n")
    return folder


async def test_a_user_is_added_after_the_end_of_userdel(host, etc):
    """The group that userdel removes last does not become the primary group."""
    with holding(etc / ".pwd.lock") as userdel:
        adding = asyncio.create_task(shadow.ShadowUsers(host).add("visitor", createhome=False))
        await asyncio.sleep(0)
        assert not adding.done()
        (etc / "group").write_text("root:x:0:\n")
        userdel.stdin.close()
        await adding

    assert host.ran == ["useradd --no-create-home visitor"]


async def test_a_plan_does_not_wait(host, etc):
    """A plan only compares with the present files."""
    with holding(etc / ".pwd.lock"):
        done = await shadow.ShadowUsers(host).add("visitor", createhome=False, test=True)

    assert done.changes["gid"] == {"old": None, "new": "visitor"}


@pytest.mark.parametrize("file", ["passwd", "shadow", "group", "gshadow"])
async def test_lock_files_count_while_their_process_runs(host, etc, monkeypatch, file):
    """After a while the change fails temporarily, and the error names the process. A leftover file does not count."""
    monkeypatch.setattr(_account_locks, "TIMEOUT", 0.0)
    lock = etc / f"{file}.lock"
    lock.write_text(f"{os.getpid()}\0")
    with pytest.raises(Temporary, match=rf"cannot add group crew: process {os.getpid()} \(.+\) has locked the account"):
        await shadow.ShadowGroups(host).add("crew")

    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    for left in (f"{ended.pid}\0", "", "none", "-1", "9" * 40):
        lock.write_text(left)
        await shadow.ShadowGroups(host).add("crew")
    assert len(host.ran) == 5


@pytest.mark.parametrize(
    ("change", "ran"),
    [
        (lambda users, _: users.modify("root", shell="/bin/sh"), "usermod"),
        (lambda users, _: users.rename("root", "admin"), "usermod"),
        (lambda users, _: users.set_password("root", "$6$a$b"), "chpasswd"),
        (lambda users, _: users.set_expiry("root", {"expire": 7}), "chage"),
        (lambda users, _: users.remove("root"), "userdel"),
        (lambda _, groups: groups.modify("visitor", 7), "groupmod"),
        (lambda _, groups: groups.members_set("visitor", ["root"]), "gpasswd"),
        (lambda _, groups: groups.members_add("visitor", ["root"]), "gpasswd"),
        (lambda _, groups: groups.remove("visitor"), "groupdel"),
    ],
)
async def test_every_change_waits(host, etc, monkeypatch, change, ran):
    """Each change compares the call with the account files, so each must see them complete."""
    users, groups = shadow.ShadowUsers(host), shadow.ShadowGroups(host)
    with monkeypatch.context() as patch, holding(etc / ".pwd.lock"):
        patch.setattr(_account_locks, "TIMEOUT", 0.0)
        with pytest.raises(Temporary, match="has locked the account files"):
            await change(users, groups)
    assert host.ran == []

    await change(users, groups)
    assert host.ran[0].startswith(ran)
