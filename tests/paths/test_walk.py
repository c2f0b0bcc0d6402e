"""A path leads only to permitted places: links of users and of root, chains of links, remembered directories."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.resources import paths
from holdfast.resources.paths import mounts, walk
from holdfast.resources.paths.handle import Unsafe

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
USER, OTHER = 12345, 12346


@pytest.fixture
def top() -> Iterator[Path]:
    """Return a directory that everybody can search, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        path = Path(name)
        path.chmod(0o755)
        for directory, owner in (("home/u/sub", USER), ("home/v", OTHER), ("etc/d", 0)):
            (path / directory).mkdir(parents=True)
            os.chown(path / directory, owner, owner)
        os.chown(path / "home/u", USER, USER)
        for file, owner in (
            ("home/u/f", USER),
            ("home/u/sub/f", USER),
            ("home/v/f", OTHER),
            ("etc/f", 0),
            ("etc/d/f", 0),
        ):
            (path / file).write_text(file)
            os.chown(path / file, owner, owner)
        yield path


def link(path: Path, target: str | Path, owner: int) -> None:
    """Create a link with this owner."""
    path.symlink_to(target)
    os.lchown(path, owner, owner)


@pytest.mark.parametrize("target", ["f", "sub/f", "../u/f", "{top}/home/u/f", "./sub/../f", "missing", "sub/missing"])
def test_a_users_link_to_the_users_own_files_is_followed(top, target):
    """The link may be relative or absolute, go up and down, or lead to a missing entry in the user's directory."""
    link(top / "home/u/l", target.format(top=top), USER)

    place = paths.at(str(top / "home/u/l"), follow=True)

    assert place.real == os.path.realpath(top / "home/u/l")
    assert place.directory.holders == {USER}


@pytest.mark.parametrize(
    "target",
    [
        "{top}/etc/f",
        "../../etc/f",
        "{top}/etc/d/f",
        "{top}/etc/missing",
        "{top}/etc",
        "/",
        "..",
        "../..",
        "{top}/home/v/f",
        "../v/f",
        "../v",
        "hardlink",
        "/etc/shadow",
    ],
)
def test_a_users_link_to_other_files_is_not_followed(top, target):
    """Such targets are root's file, another user's, a directory of root, and the user's own name for root's file."""
    os.link(top / "etc/f", top / "home/u/hardlink")
    link(top / "home/u/l", target.format(top=top), USER)

    with pytest.raises(Unsafe, match=rf"cannot follow {top}/home/u/l, which belongs to user {USER} and points to "):
        paths.at(str(top / "home/u/l"), follow=True)
    for further in ("f", "d/f", "x/y"):
        with pytest.raises((Unsafe, OSError)):
            paths.at(str(top / "home/u/l" / further))
    with pytest.raises((Unsafe, OSError)):
        paths.directory(str(top / "home/u/l"))


def test_each_link_of_a_chain_is_judged(top):
    """The first link leads to the user's own link, which leads to root's file."""
    link(top / "home/u/first", "second", USER)
    link(top / "home/u/second", top / "etc/f", USER)
    with pytest.raises(Unsafe, match="etc"):
        paths.at(str(top / "home/u/first"), follow=True)


def test_another_users_link_behind_it_is_not_followed(top):
    """It is not followed even if it leads back to the first user's files."""
    link(top / "home/u/first", top / "home/v/second", USER)
    link(top / "home/v/second", top / "home/u/f", OTHER)
    with pytest.raises(Unsafe):
        paths.at(str(top / "home/u/first"), follow=True)


def test_a_users_link_does_not_pass_a_closed_directory(top):
    """The user could not search the directory, so root does not do it for the user."""
    (top / "closed/his").mkdir(parents=True)
    (top / "closed").chmod(0o700)
    os.chown(top / "closed/his", USER, USER)
    link(top / "home/u/l", top / "closed/his/f", USER)
    with pytest.raises(Unsafe, match="closed belongs to root"):
        paths.at(str(top / "home/u/l"), follow=True)


def test_links_of_root_are_followed(top):
    """In root's own directories, links are relative or absolute, in the middle or at the end, or several in a row."""
    (top / "run").symlink_to("etc")
    (top / "var").symlink_to(top / "run")
    (top / "home/link").symlink_to("../var/d")

    assert paths.at(str(top / "var/f")).real == str(top / "etc/f")
    assert paths.at(str(top / "home/link/f")).real == str(top / "etc/d/f")
    assert paths.read(str(top / "home/link/f")) == b"etc/d/f"
    assert paths.directory(str(top / "home/link")).real == str(top / "etc/d")
    assert paths.at(str(top / "home/link/f")).path == str(top / "home/link/f")


def test_a_link_of_root_in_a_users_directory_is_unsafe(top):
    """The user can have moved it there from elsewhere."""
    link(top / "home/u/l", top / "etc/f", 0)
    with pytest.raises(Unsafe, match="may be any user's"):
        paths.at(str(top / "home/u/l"), follow=True)


def test_a_link_in_a_directory_of_several_users_is_unsafe(top):
    """It is unknown who created it."""
    (top / "shared").mkdir()
    os.chown(top / "shared", 0, 50)
    (top / "shared").chmod(0o775)
    link(top / "shared/l", top / "home/u/f", USER)
    with pytest.raises(Unsafe):
        paths.at(str(top / "shared/l"), follow=True)


def test_in_a_sticky_directory_the_owner_of_an_entry_decides(top):
    """As in /tmp, entries of root are root's, and a user's directory is the user's."""
    (top / "tmp").mkdir()
    (top / "tmp").chmod(0o1777)
    (top / "tmp/ours").mkdir()
    (top / "tmp/his").mkdir()
    os.chown(top / "tmp/his", USER, USER)
    link(top / "tmp/l", top / "etc/f", USER)
    link(top / "tmp/moved", top / "etc/f", 0)

    assert paths.directory(str(top / "tmp/ours")).holders == frozenset()
    assert paths.directory(str(top / "tmp/his")).holders == {USER}
    for name in ("l", "moved"):  # root created the second one elsewhere, and a user may have moved it there
        with pytest.raises(Unsafe):
            paths.at(str(top / "tmp" / name), follow=True)


def test_the_length_of_users_links_is_limited(top):
    """Without a limit, forty links of four thousand characters each would take half a second."""
    for number in range(30):
        link(top / f"home/u/l{number}", "./" * 1500 + f"l{number + 1}", USER)
    link(top / "home/u/l30", "f", USER)
    with pytest.raises(Unsafe, match="more than 256 names"):
        paths.at(str(top / "home/u/l0"), follow=True)
    assert paths.at(str(top / "home/u/l30"), follow=True).look() is not None


def test_a_refusal_is_one_line_whatever_the_names_are(top):
    """The message is for terminals and the journal."""
    link(top / "home/u/a\n\x1b[31mroot: all is well", top / "etc/f", USER)
    with pytest.raises(Unsafe) as caught:
        paths.at(str(top / "home/u/a\n\x1b[31mroot: all is well"), follow=True)
    assert "a\\x0a\\x1b[31mroot" in str(caught.value)


def test_a_link_of_the_kernel_is_not_followed_by_its_text(top):
    """By its text, the root directory of a container would be read as that of the host."""
    for link_ in ("root", "cwd", "exe", "fd/0"):
        with pytest.raises(Unsafe, match="no path leads to its target"):
            paths.at(f"/proc/{os.getpid()}/{link_}", follow=True)
    assert paths.read("/proc/self/comm")


@pytest.mark.parametrize("path", ["lnk/f", "lnk/missing", "lnk/d/f"])
def test_the_name_of_a_place_does_not_depend_on_the_cache(top, path):
    """The name is the requested path if no link at its end was followed; kinds compare it with others."""
    (top / "lnk").symlink_to("etc")
    asked = str(top / path)
    for follow in (False, True):
        paths.forget()
        assert {paths.at(asked, follow=follow).path for _ in range(3)} == {asked}
        paths.forget()
        assert {paths.directory(str(top / "lnk/d")).path for _ in range(3)} == {str(top / "lnk/d")}


def test_links_in_a_circle_are_an_error(top):
    """The error is that of the kernel."""
    (top / "a").symlink_to("b")
    (top / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        paths.at(str(top / "a"), follow=True)


def test_a_missing_component_is_an_error_of_the_system(top):
    """The error is that of `open`."""
    with pytest.raises(FileNotFoundError):
        paths.at(str(top / "no/such"))
    with pytest.raises(NotADirectoryError):
        paths.at(str(top / "etc/f/x/y"))
    with pytest.raises(OSError, match="too long"):
        paths.at("/" + "d/" * 2100 + "f")
    for path in ("/a\0b", "/a\0b/c"):
        with pytest.raises(OSError, match="cannot contain a NUL"):
            paths.at(path)
    assert paths.at(str(top / "no")).look() is None
    assert not paths.exists(str(top / "no/such"))


def test_a_remembered_directory_is_checked_again(top, monkeypatch):
    """A directory that was moved, replaced, given away or opened to others is walked to again."""
    steps: list[str] = []
    real = walk._Walk._step
    monkeypatch.setattr(walk._Walk, "_step", lambda self, name, asked: (steps.append(name), real(self, name, asked))[1])
    target = str(top / "etc/d/f")
    paths.at(target)
    steps.clear()

    assert paths.at(target).directory.holders == frozenset()
    assert steps == []

    (top / "etc/d").rename(top / "etc/old")
    (top / "etc/d").mkdir()
    assert paths.at(target).look() is None
    assert steps == ["d"]

    os.chown(top / "etc/d", USER, USER)
    assert paths.at(target).directory.holders == {USER}
    os.chown(top / "etc/d", 0, 0)
    (top / "etc/d").chmod(0o777)
    assert paths.at(target).directory.holders == {-1}


def test_remembered_directories_expire(top, monkeypatch):
    """An inode number may be reused, and memory is limited, so both age and number of entries are limited."""
    now = [0.0]
    monkeypatch.setattr(walk.time, "monotonic", lambda: now[0])
    paths.forget()
    paths.at(str(top / "etc/d/f"))
    assert str(top / "etc/d") in walk._known
    now[0] = walk.AGE + 1
    assert walk._cached(str(top / "etc/d")) is None

    monkeypatch.setattr(walk, "KNOWN", 3)
    for name in "abcdef":
        (top / name).mkdir()
        paths.at(str(top / name / "f"))
    assert len(walk._known) <= 3


def test_remembered_directories_belong_to_one_user(top, monkeypatch):
    """Another user trusts other users."""
    paths.forget()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: USER)
        assert paths.at(str(top / "home/u/f")).directory.holders == frozenset()
    assert paths.at(str(top / "home/u/f")).directory.holders == {USER}


def test_a_directory_that_its_group_can_write_is_not_remembered(top):
    """An ACL could be added without a change of the mode."""
    (top / "etc/d").chmod(0o775)  # the group of root
    assert paths.at(str(top / "etc/d/f")).directory.holders == frozenset()
    assert str(top / "etc/d") not in walk._known


def test_a_descriptor_is_held_only_where_necessary(top):
    """Directories of root are reached by their path, so that they can be unmounted."""
    assert paths.at(str(top / "etc/d/f")).directory.handle is None
    place = paths.at(str(top / "home/u/sub/f"))
    assert place.directory.handle is not None
    number = place.directory.handle.fd
    del place
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_reached_place_stays_the_same_entry(top):
    """If its directory is moved and replaced by a link, the place is still the entry of the directory."""
    place = paths.at(str(top / "home/u/sub/f"))
    (top / "home/u/sub").rename(top / "home/u/away")
    link(top / "home/u/sub", top / "etc", USER)
    assert place.read() == b"home/u/sub/f"


def test_missing_parents_are_created_as_declared(top):
    """The outermost directory is created first, each with this owner and mode; existing ones are not changed."""
    made = paths.make_parents(str(top / "home/u/sub/a/b/f"), USER, USER, 0o750)
    assert made == [str(top / "home/u/sub/a"), str(top / "home/u/sub/a/b")]
    seen = (top / "home/u/sub/a/b").stat()
    assert (seen.st_uid, seen.st_gid, seen.st_mode & 0o7777) == (USER, USER, 0o750)
    assert paths.make_parents(str(top / "home/u/sub/a/b/f")) == []


def test_only_what_root_alone_can_write_is_trusted(top):
    """The file and all directories on the way must be trusted, including targets of links.

    The message names the component and the fix.
    """
    assert paths.read_trusted(str(top / "etc/f")) == b"etc/f"
    with pytest.raises(
        Unsafe, match=rf"cannot trust {top}/home/u/f: {top}/home/u: it belongs to uid {USER}, .*chown root {top}/home/u"
    ):
        paths.read_trusted(str(top / "home/u/f"))
    (top / "etc/l").symlink_to(top / "home/u/sub/f")
    with pytest.raises(Unsafe, match="belongs to uid"):
        paths.read_trusted(str(top / "etc/l"))
    (top / "etc/f").chmod(0o646)
    with pytest.raises(Unsafe, match=rf"cannot trust {top}/etc/f: anyone may write it; chmod o-w"):
        paths.read_trusted(str(top / "etc/f"))


def test_a_users_file_system_is_not_accessed(top, monkeypatch):
    """It may show anything, or never answer."""
    mounted = {str(top / "home/u/sub"): USER, str(top / "etc/d"): 0}
    monkeypatch.setattr(mounts, "foreign", lambda: mounted)
    monkeypatch.setattr("holdfast.resources.paths.handle.foreign", lambda: mounted)
    monkeypatch.setattr("holdfast.resources.paths.place.careful", lambda: True)
    for path in ("home/u/sub", "home/u/sub/f"):
        with pytest.raises(Unsafe, match=rf"user {USER} has mounted a file system at {top}/home/u/sub"):
            paths.at(str(top / path)).look()
    assert paths.at(str(top / "etc/d/f")).look() is not None


def test_the_mount_table_is_parsed(tmp_path, monkeypatch):
    """Only FUSE file systems that a user other than root has mounted are a user's.

    Spaces in paths are escaped in the table.
    """
    table = tmp_path / "mountinfo"
    table.write_text(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"40 22 0:50 / /home/u/my\\040files rw,nosuid shared:1 - fuse.sshfs host: rw,user_id={USER},group_id=5\n"
        "41 22 0:51 / /sys/fs/fuse rw - fusectl none rw\n"
        "42 22 0:52 / /mnt/root rw - fuse.s3 bucket rw,user_id=0,group_id=0,allow_other\n"
        f"43 22 0:53 / /home/u/a\rb rw - fuse none rw,user_id={USER}\n",
        newline="",
    )
    found = mounts.MountTable()
    found._poll, found._file = object(), os.open(table, os.O_RDONLY)
    found._read()
    os.close(found._file)
    found._poll = None
    assert (found.owners, found.points) == (
        {"/home/u/my files": USER, "/home/u/a\rb": USER},
        ("/", "/home/u/my files", "/sys/fs/fuse", "/mnt/root", "/home/u/a\rb"),
    )


@pytest.mark.parametrize(("mode", "made"), [(None, 0o2755), (0o755, 0o755), (0o750, 0o750)])
def test_a_new_directory_has_the_group_of_a_parent_that_gives_it(top, mode, made):
    """The kernel does the same. Without a declared mode, entries below the new directory get the group, too."""
    os.chown(top / "etc/d", 0, os.getegid())
    (top / "etc/d").chmod(0o2755)

    paths.make_parents(str(top / "etc/d/one/two/file"), mode=mode)

    for name in ("one", "one/two") if mode is None else ("one",):
        assert (top / "etc/d" / name).stat().st_mode & 0o7777 == made


def test_a_new_directory_in_that_of_a_user_gives_no_group(top):
    """Files of root do not get the group of a user's directory."""
    (top / "home/u/sub").chmod(0o2755)

    paths.make_parents(str(top / "home/u/sub/one/file"))

    assert (top / "home/u/sub/one").stat().st_mode & 0o7777 == 0o755
