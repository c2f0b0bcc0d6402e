"""Files in directories of users.

Which links are followed, and which files are replaced, kept, given away or refused, by docs/security.md.
"""

from __future__ import annotations

import os
import stat
import struct
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.host.host import LocalHost
from holdfast.resources import paths, registry
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.paths.trust import ACL

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
USER = 12345
NAMES_USER = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in ((1, 6, 0xFFFFFFFF), (2, 6, USER), (4, 4, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF))
)
"""An ACL that lets the user write."""


@pytest.fixture
def top() -> Iterator[Path]:
    """A directory of root that anyone may enter, with a directory of the user in it, and a file of root."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        path = Path(name)
        path.chmod(0o755)
        (path / "u").mkdir()
        os.chown(path / "u", USER, USER)
        (path / "victim").write_text("root's")
        (path / "victim").chmod(0o600)
        (path / "etc").mkdir()
        (path / "etc/f").write_text("root's")
        yield path


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[LocalHost]:
    """A host whose states are in another directory."""
    async with LocalHost(states=tmp_path, var_dir=tmp_path / "var", durable=False) as host:
        yield host


async def run(host: LocalHost, kind: str, path: Path, *, apply: bool = True, **arguments: Any) -> bool:
    """Return whether something had to be changed."""
    cls = registry.find(kind)
    assert cls is not None
    return not await cls.declare(str(path), **arguments).check_apply(host.context("x"), apply)


def his(path: Path, text: str = "his", mode: int = 0o644) -> Path:
    """Return a file of the user."""
    path.write_text(text)
    os.chown(path, USER, USER)
    path.chmod(mode)
    return path


def his_link(path: Path, target: str | Path) -> Path:
    """Return a link of the user."""
    path.symlink_to(target)
    os.lchown(path, USER, USER)
    return path


def seen(path: Path) -> tuple[int, int, str]:
    """Return the owner, mode and content."""
    info = path.lstat()
    return info.st_uid, stat.S_IMODE(info.st_mode), path.read_text()


async def test_a_planted_set_uid_file_loses_its_bits(host, top):
    """Owner, mode and content are those of a new file of root, although no mode was declared."""
    his(top / "u/f", mode=0o4777)
    await run(host, "file.managed", top / "u/f", contents="new")
    assert seen(top / "u/f") == (0, 0o644, "new\n")


async def test_set_uid_bits_of_root_s_own_file_must_be_declared_to_stay(host, top):
    """A replaced file gets only the declared mode."""
    (top / "etc/f").chmod(0o4755)
    await run(host, "file.managed", top / "etc/f", contents="new")
    assert seen(top / "etc/f")[1] == 0o755
    await run(host, "file.managed", top / "etc/f", contents="newer", mode="4755")
    assert seen(top / "etc/f")[1] == 0o4755


@pytest.mark.parametrize("user", [None, "root"])
async def test_a_planted_acl_is_not_handed_on(host, top, user):
    """The ACL would let the user write root's file."""
    his(top / "u/f")
    try:
        os.setxattr(top / "u/f", ACL, NAMES_USER)
    except OSError:
        pytest.skip("no ACLs on this file system")
    await run(host, "file.managed", top / "u/f", contents="new", **({"user": user} if user else {}))
    assert ACL not in os.listxattr(top / "u/f")
    assert (top / "u/f").stat().st_uid == 0


async def test_an_acl_of_root_s_and_of_the_declared_owner_is_handed_on(host, top):
    """The ACL of a trusted or the declared owner is kept."""
    try:
        os.setxattr(top / "etc/f", ACL, NAMES_USER)
        os.setxattr(his(top / "u/f"), ACL, NAMES_USER)
    except OSError:
        pytest.skip("no ACLs on this file system")
    await run(host, "file.managed", top / "etc/f", contents="new")
    await run(host, "file.managed", top / "u/f", contents="new", user=USER)
    assert ACL in os.listxattr(top / "etc/f")
    assert ACL in os.listxattr(top / "u/f")


async def test_who_makes_a_file_first_does_not_stay_its_owner(host, top):
    """The owner changes in the user's own directory, and in one that is open to all.

    In root's directory it stays, because root has set it.
    """
    (top / "tmp").mkdir()
    (top / "tmp").chmod(0o1777)
    for place in ("u/f", "tmp/f", "etc/g"):
        his(top / place)
        await run(host, "file.managed", top / place, contents="new")
    assert [(top / place).stat().st_uid for place in ("u/f", "tmp/f", "etc/g")] == [0, 0, USER]


async def test_a_plan_says_why_a_file_loses_an_owner_that_is_not_declared(host, top):
    """The sentence names who could have put the file there, and what keeps the owner."""
    his(top / "u/f", "content")
    cls = registry.find("file.managed")
    ctx = host.context("x")
    reason = "no user is declared, and user 12345 could have put the file there; user: 12345 would keep its owner"
    for declared, detail in (({}, f" ({reason})"), ({"user": 0}, "")):
        await cls.declare(str(top / "u/f"), contents="content\n", **declared).check_apply(ctx, apply=False)
        assert ctx.report.effect.detail == detail


async def test_what_he_holds_open_is_not_root_s_afterwards(host, top):
    """A file with the right content and a wrong owner is replaced, because the user may have it open for writing."""
    his(top / "u/f", "right\n")
    with (top / "u/f").open("r+") as held:
        await run(host, "file.managed", top / "u/f", contents="right", user="root", mode="4755")
        held.write("WRONG")
        held.flush()
    assert seen(top / "u/f") == (0, 0o4755, "right\n")


@pytest.mark.parametrize("follow", [None, True, False])
@pytest.mark.parametrize("safe", [True, False])
async def test_follow_symlinks(host, top, follow, safe):
    """By default, a safe link is followed, and an unsafe one replaced.

    True makes an unsafe link an error. False replaces each link.
    """
    his(top / "u/real")
    his_link(top / "u/f", "real" if safe else "../victim")
    arguments = {} if follow is None else {"follow_symlinks": follow}
    if follow and not safe:
        with pytest.raises(
            Permanent, match=rf"cannot follow {top}/u/f, which belongs to user {USER} and points to ../victim"
        ):
            await run(host, "file.managed", top / "u/f", contents="new", user=USER, **arguments)
    else:
        assert await run(host, "file.managed", top / "u/f", contents="new", user=USER, **arguments)
        assert not await run(host, "file.managed", top / "u/f", contents="new", user=USER, **arguments)
        assert (top / "u/f").is_symlink() == ((safe and follow is None) or bool(follow))
        assert (top / "u/f").read_text() == "new\n"
    assert seen(top / "victim") == (0, 0o600, "root's")


async def test_without_content_nothing_of_root_s_is_given_away(host, top):
    """If only the owner is declared, a user's hard link to root's file, or a moved file of root, is refused."""
    os.link(top / "victim", top / "u/f")
    for arguments in ({"replace": False, "contents": "x"}, {}):
        with pytest.raises(
            Permanent,
            match=rf"cannot change owner or mode of {top}/u/f: it belongs to root, but {top}/u belongs to user {USER}",
        ):
            await run(host, "file.managed", top / "u/f", user=USER, mode="0666", **arguments)
    assert seen(top / "victim") == (0, 0o600, "root's")


async def test_another_s_file_is_replaced_whole_and_its_content_not_told(host, top):
    """The diff does not contain it either, because more people can read the logs."""
    os.link(top / "victim", top / "u/f")
    cls = registry.find("file.managed")
    ctx = host.context("x")
    await cls.declare(str(top / "u/f"), contents="new", user=USER).check_apply(ctx, True)
    assert seen(top / "u/f") == (USER, 0o600, "new\n")
    assert seen(top / "victim") == (0, 0o600, "root's")
    assert "root's" not in str(ctx.report.changes) + ctx.report.diff


EDITS = [
    ("file.append", {"text": "more"}),
    ("file.prepend", {"text": "more"}),
    ("file.line", {"mode": "insert", "content": "more", "location": "end"}),
    ("file.replace", {"pattern": "a", "repl": "b"}),
    ("file.comment", {"regex": "a"}),
    ("file.blockreplace", {"content": "more", "append_if_not_found": True}),
    ("file.keyvalue", {"key": "a", "value": "2", "separator": " = "}),
]


@pytest.mark.parametrize(("kind", "arguments"), EDITS)
async def test_edits(host, top, kind, arguments):
    """The user's own file is edited, and keeps its owner, but not its set-uid bits.

    Another user's file, a file with two links, and the target of an unsafe link are refused.
    """
    his(top / "u/own", "a = 1\n", mode=0o4711)
    await run(host, kind, top / "u/own", **arguments)
    assert seen(top / "u/own")[:2] == (USER, 0o711)

    (top / "u/ours").write_text("a = 1\n")
    his(top / "u/two", "a = 1\n")
    os.link(top / "u/two", top / "u/two too")
    his_link(top / "u/link", top / "etc/f")
    for name, why in (("ours", "it belongs to root"), ("two", "it has more than one link"), ("link", "cannot follow")):
        with pytest.raises(Permanent, match=why):
            await run(host, kind, top / "u" / name, **arguments)
    assert (top / "u/ours").read_text() == (top / "u/two").read_text() == "a = 1\n"
    assert (top / "etc/f").read_text() == "root's"


async def test_a_directory_that_is_a_link_leads_nowhere(host, top):
    """If the parent is a link to root's directory, every kind refuses, and the error names the link."""
    his_link(top / "u/d", top / "etc")
    before = sorted(path.name for path in (top / "etc").iterdir())
    for kind, arguments in [
        ("file.managed", {"contents": "x", "user": USER}),
        ("file.managed", {"contents": "x", "user": USER, "follow_symlinks": False, "makedirs": True}),
        ("file.directory", {"user": USER, "force": True}),
        ("file.recurse", {"source": "/etc/skel"}),
        ("file.absent", {}),
        ("file.symlink", {"target": "x", "force": True}),
        ("file.touch", {"makedirs": True}),
        ("file.copy", {"source": str(top / "victim"), "force": True}),
        ("file.rename", {"source": str(top / "victim"), "force": True}),
        ("file.exists", {}),
        *EDITS,
    ]:
        with pytest.raises(
            HoldfastError, match=rf"cannot follow {top}/u/d, which belongs to user {USER} and points to {top}/etc"
        ):
            await run(host, kind, top / "u/d/f", **arguments)
    assert sorted(path.name for path in (top / "etc").iterdir()) == before
    assert seen(top / "etc/f")[2] == "root's"


async def test_recursion_puts_right_what_is_his_and_refuses_what_is_not(host, top):
    """Everything else is done first; the refusal has the number of refused entries."""
    for name in ("a", "b"):
        his(top / "u" / name, mode=0o600)
    for name in ("root", "too"):
        (top / "u" / name).write_text("root's")
        (top / "u" / name).chmod(0o600)
    with pytest.raises(Permanent, match=r"it belongs to root, .* \(and 1 more\)"):
        await run(host, "file.directory", top / "u", user=USER, mode="0755", file_mode="0644", recurse=["user", "mode"])
    assert [seen(top / "u" / name)[:2] for name in ("a", "b", "root", "too")] == [
        (USER, 0o644),
        (USER, 0o644),
        (0, 0o600),
        (0, 0o600),
    ]


async def test_a_tree_may_go_from_one_user_to_another(host, top):
    """All entries of the first user are given to the second, from the top down."""
    (top / "u/d").mkdir()
    os.chown(top / "u/d", USER, USER)
    his(top / "u/d/f")
    await run(host, "file.directory", top / "u", user="12346", recurse=["user"])
    assert {path.stat().st_uid for path in (top / "u", top / "u/d", top / "u/d/f")} == {12346}
    assert not await run(host, "file.directory", top / "u", user="12346", recurse=["user"])


async def test_a_directory_that_a_user_made_in_a_sticky_one_is_not_taken_over(host, top):
    """Otherwise, the user's entries would be in a directory of root."""
    (top / "tmp").mkdir()
    (top / "tmp").chmod(0o1777)
    (top / "tmp/d").mkdir()
    os.chown(top / "tmp/d", USER, USER)
    with pytest.raises(
        Permanent,
        match=rf"cannot give {top}/tmp/d to root: it belongs to user {USER}, and {top}/tmp/d"
        "|others may have put it there",
    ):
        await run(host, "file.directory", top / "tmp/d", user="root")
    assert await run(host, "file.directory", top / "tmp/d", user=USER, mode="0700")


async def test_nothing_of_another_s_is_removed_with_what_is_in_it(host, top):
    """Root's directory that the user has moved there stays with its content.

    A single file or an empty directory is removed.
    """
    (top / "u/d/ours").mkdir(parents=True)
    os.chown(top / "u/d", USER, USER)
    (top / "u/d/ours/f").write_text("root's")
    (top / "u/d/empty").mkdir()
    his(top / "u/d/f")
    with pytest.raises(Permanent, match=rf"cannot remove {top}/u/d/ours: it belongs to root"):
        await run(host, "file.absent", top / "u/d")
    assert (top / "u/d/ours/f").read_text() == "root's"
    (top / "u/d/ours/f").unlink()
    await run(host, "file.absent", top / "u/d")
    assert not (top / "u/d").exists()


async def test_cleaning_does_not_look_into_another_s_directory(host, top):
    """The directory is not entered even if a state manages a file in it."""
    (top / "u/ours").mkdir()
    (top / "u/ours/f").write_text("root's")
    host.update(managed=lambda: [str(top / "u/ours/g")])
    with pytest.raises(Permanent, match=rf"cannot walk {top}/u/ours: it belongs to root"):
        await run(host, "file.directory", top / "u", user=USER, clean=True)
    assert (top / "u/ours/f").exists()


async def test_sources_of_users(host, top):
    """A file that the user can read is used; a link to another file, or a file of another user, is not.

    A template must belong to root.
    """
    his(top / "u/source", "his")
    await run(host, "file.managed", top / "etc/new", source=str(top / "u/source"))
    assert (top / "etc/new").read_text() == "his"

    his_link(top / "u/link", top / "victim")
    os.link(top / "victim", top / "u/hard")
    for name, why in (("link", "cannot follow"), ("hard", "is not for others to read")):
        with pytest.raises(Permanent, match=why):
            await run(host, "file.managed", top / "etc/new", source=str(top / "u" / name))
        with pytest.raises(Permanent, match=why):
            await run(host, "file.copy", top / "etc/copy", source=str(top / "u" / name))
    with pytest.raises(Permanent, match=rf"cannot trust {top}/u/source: {top}/u: it belongs to uid {USER}"):
        await run(host, "file.managed", top / "etc/new", source=str(top / "u/source"), template="jinja")


async def test_hash_files_of_users_are_read_like_sources(host, top):
    """The file of hashes may be anywhere. The error for a line without a hash does not show root's secret."""
    his_link(top / "u/hashes", top / "victim")
    his(top / "u/source", "his")
    with pytest.raises(Permanent, match="cannot follow"):
        await run(
            host, "file.managed", top / "etc/new", source=str(top / "u/source"), source_hash=str(top / "u/hashes")
        )


async def test_files_without_end_are_not_read_to_it(host, top):
    """A sparse file of a terabyte may be in place of root's file, a source, or a file to be edited."""
    his(top / "u/f")
    os.truncate(top / "u/f", 1 << 40)
    with pytest.raises(Permanent, match=r"MB|MiB"):
        await run(host, "file.append", top / "u/f", text="x")
    with pytest.raises(Permanent, match="MiB"):
        await run(host, "file.managed", top / "etc/new", source=str(top / "u/f"))
    assert await run(host, "file.managed", top / "u/f", contents="new", user=USER)
    assert (top / "u/f").read_text() == "new\n"


async def test_trees_without_end_are_not_gone_through_to_it(host, top, monkeypatch):
    """The number of entries and levels is limited, but only where the user can create them."""
    from holdfast.resources.kinds.file import trees

    monkeypatch.setattr(trees, "DEPTH", 5)
    monkeypatch.setattr(trees, "ENTRIES", 20)
    monkeypatch.setattr(trees.EntryBudget.__init__, "__defaults__", (20, 0))
    for directory in ("u", "etc"):
        deep = top / directory
        for _ in range(8):
            deep = deep / "d"
            deep.mkdir()
            os.chown(deep, USER if directory == "u" else 0, -1)
        for number in range(30):
            (top / directory / f"n{number}").touch()
    await run(host, "file.directory", top / "etc", user="root", recurse=["user"])
    with pytest.raises(Permanent, match=r"more than (20 entries|5 levels)"):
        await run(host, "file.directory", top / "u", user=USER, recurse=["user"])


async def test_a_directory_reached_by_a_link_of_root_s_is_kept_right(host, top):
    """The cache of directories does not treat the directory itself as a link."""
    (top / "lnk").symlink_to("etc")
    (top / "etc/d").mkdir(mode=0o755)
    for _ in range(3):
        paths.forget()
        (top / "etc/d").chmod(0o755)
        assert await run(host, "file.directory", top / "lnk/d", mode="0700")
        assert (top / "etc/d").stat().st_mode & 0o777 == 0o700


async def test_what_is_refused_holds_no_descriptors(host, top):
    """One descriptor for each directory would exhaust those of the agent."""
    for number in range(60):
        inside = top / f"u/d{number}"
        inside.mkdir()
        os.chown(inside, USER, USER)
        os.link(top / "victim", inside / "hard")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(Permanent, match="and 59 more") as caught:
        await run(host, "file.directory", top / "u", user=USER, recurse=["user"])
    assert caught
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 30


async def test_a_tree_with_another_s_link_is_not_taken_over(host, top):
    """The content of root's directories is trusted."""
    os.link(top / "victim", top / "u/hard")
    for _ in range(2):
        with pytest.raises(Permanent, match="hard"):
            await run(
                host, "file.directory", top / "u", user="root", mode="0755", file_mode="0644", recurse=["user", "mode"]
            )
    assert (top / "victim").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["file.managed", "file.directory"])
async def test_what_root_takes_over_nobody_else_can_write(host, top, kind):
    """No ACL and no open descriptor of a user remains, also where only root could have put the file."""
    place = top / "etc/his"
    if kind == "file.managed":
        his(place, "same\n")
    else:
        place.mkdir()
        os.chown(place, USER, USER)
    try:
        os.setxattr(place, ACL, NAMES_USER)
    except OSError:
        pytest.skip("no ACLs on this file system")
    await run(host, kind, place, user="root", **({"contents": "same"} if kind == "file.managed" else {"mode": "0770"}))
    assert place.stat().st_uid == 0
    assert ACL not in os.listxattr(place)


async def test_root_s_file_moved_to_an_open_directory_is_not_given_away(host, top):
    """Its content is not given away either."""
    (top / "tmp").mkdir()
    (top / "tmp").chmod(0o1777)
    (top / "victim").rename(top / "tmp/f")
    with pytest.raises(Permanent, match="others may have put it there"):
        await run(host, "file.managed", top / "tmp/f", user=USER, mode="0644")
    assert seen(top / "tmp/f") == (0, 0o600, "root's")


async def test_what_lies_in_a_directory_that_he_could_not_enter_is_not_published(host, top):
    """The user has moved root's closed directory to the path of the source."""
    (top / "u/src").mkdir()
    (top / "u/src/f").write_text("root's")
    assert await run(host, "file.managed", top / "etc/open", source=str(top / "u/src/f"))
    (top / "u/src").chmod(0o700)
    for kind, arguments in (
        ("file.managed", {"source": str(top / "u/src/f")}),
        ("file.copy", {"source": str(top / "u/src/f")}),
        ("file.recurse", {"source": str(top / "u/src")}),
    ):
        with pytest.raises(Permanent, match=r"not for others to read|closed to others"):
            await run(host, kind, top / "etc/new", **arguments)
    assert not (top / "etc/new").exists()


async def test_a_user_s_links_are_not_copied_as_root_s(host, top):
    """The copies would be trusted in their new directory."""
    his_link(top / "u/l", top / "etc")
    with pytest.raises(Permanent, match="as a link: root would own the link"):
        await run(host, "file.recurse", top / "new", source=str(top / "u"), keep_symlinks=True)


@pytest.mark.parametrize(
    ("kind", "name", "arguments"),
    [
        ("file.managed", "ours", {"user": USER}),
        ("file.append", "ours", {"text": "more"}),
        ("file.touch", "ours", {}),
        ("file.rename", "new", {"source": "{top}/u/ours"}),
        ("file.directory", "d", {"user": USER}),
        ("file.directory", "d", {"user": "root", "clean": True}),
        ("file.recurse", "new", {"source": "{top}/etc"}),
    ],
)
async def test_a_plan_refuses_what_would_be_refused(host, top, kind, name, arguments):
    """The plan has the same error as the apply."""
    (top / "u/ours").write_text("root's")
    (top / "u/d").mkdir()
    given = {key: value.format(top=top) if isinstance(value, str) else value for key, value in arguments.items()}
    told = []
    for apply in (False, True):
        with pytest.raises(Permanent) as caught:
            await run(host, kind, top / "u" / name, apply=apply, **given)
        told.append(str(caught.value))
    assert told[0] == told[1]


async def test_names_that_are_no_text_are_managed_like_others(host, top):
    """Such names contain surrogates, and appear in reports."""
    (top / "etc" / os.fsdecode(b"\xff\n")).touch()
    await run(host, "file.directory", top / "etc", clean=True)
    assert list((top / "etc").iterdir()) == []


async def test_a_check_command_sees_what_nobody_can_exchange(host, top):
    """Below a user's directory, the command gets the new content by a descriptor."""
    (top / "check").write_text(f'#!/bin/sh\nrm -f {top}/u/.*.holdfast-*\ncp "$1" {top}/seen\n')
    (top / "check").chmod(0o755)
    with pytest.raises(HoldfastError):
        await run(host, "file.managed", top / "u/f", contents="new", user=USER, check_cmd=f"{top}/check")
    assert (top / "seen").read_text() == "new\n"
