"""Access control lists of real files: the mask, default entries, whole directories, and attacks by users."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources import paths, registry
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds import _posix_acl
from holdfast.resources.kinds._posix_acl import GROUP, GROUP_OBJ, MASK, OTHER, USER, USER_OBJ, base
from holdfast.resources.paths.attributes import put_acl, read_acl
from holdfast.resources.paths.trust import ACL, DEFAULT_ACL
from holdfast.resources.report import Report
from holdfast.resources.testing import FakeContext

UID = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")


def declare(name, kind="present", **arguments):
    """Return a resource of the family."""
    return registry.find(f"acl.{kind}").declare(str(name), **{"acl_type": "user", **arguments})


def acl(path, attribute=ACL):
    """Return the entries of a file."""
    return _posix_acl.decoded(read_acl(paths.at(str(path)), attribute))


@pytest.fixture
def file(tmp_path):
    """A file of mode 0640. The test is skipped if the file system has no ACLs."""
    path = tmp_path / "f"
    path.write_text("x")
    path.chmod(0o640)
    try:
        os.setxattr(path, ACL, _posix_acl.encoded(_posix_acl.of_mode(0o640)))
    except OSError:
        pytest.skip("the file system of the tests has no ACLs")
    return path


@pytest.fixture
def ctx(tmp_path):
    """A context."""
    return FakeContext(tmp_path)


async def test_an_entry_is_added_changed_and_removed(file, ctx):
    """The mask is adapted. When it is removed, the group does not gain rights that the mask had withheld."""
    assert not await declare(file, acl_name=UID, perms="rw").check_apply(ctx, True)
    assert acl(file)[USER, UID] == 6
    assert acl(file)[base(MASK)] == 6
    ctx.report = Report()
    assert not await declare(file, acl_name=UID, perms="r").check_apply(ctx, True)
    assert ctx.report.changes == {
        "new": {"acl_name": str(UID), "acl_type": "user", "perms": "r"},
        "old": {"acl_name": str(UID), "acl_type": "user", "perms": "rw-"},
    }
    assert not await declare(file, "absent", acl_name=UID).check_apply(ctx, True)
    assert read_acl(paths.at(str(file)), ACL) == b""
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


async def test_force_removes_other_entries_only_when_the_entry_changes(file, ctx):
    """As in Salt, several states of one file may set `force`."""
    await declare(file, acl_name=1, perms="r").check_apply(ctx, True)
    await declare(file, acl_name=2, perms="r").check_apply(ctx, True)
    assert await declare(file, acl_name=2, perms="r", force=True).check_apply(ctx, True)
    await declare(file, acl_name=3, perms="rwx", force=True).check_apply(ctx, True)
    assert [key for key in acl(file) if key[0] == USER] == [(USER, 3)]


async def test_default_entries_have_those_of_owner_group_and_others_beside_them(tmp_path, file, ctx):
    """The kernel demands these entries; new files in the directory inherit them."""
    directory = tmp_path / "d"
    directory.mkdir(mode=0o750)
    await declare(directory, acl_type="d:group", acl_name=UID, perms="rwx").check_apply(ctx, True)
    assert acl(directory, DEFAULT_ACL).keys() == {
        base(USER_OBJ),
        base(GROUP_OBJ),
        base(OTHER),
        base(MASK),
        (GROUP, UID),
    }
    (directory / "new").write_text("")
    assert acl(directory / "new")[GROUP, UID] == 7
    assert not await declare(directory, "absent", acl_type="default:group", acl_name=UID).check_apply(ctx, True)
    assert (GROUP, UID) not in acl(directory, DEFAULT_ACL)


async def test_a_whole_directory_without_its_links(tmp_path, file, ctx):
    """`X` grants execution only for directories and programs; the target of a link is not changed."""
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    (tree / "sub").mkdir(parents=True)
    for path, mode in ((outside, 0o600), (tree / "sub/program", 0o755), (tree / "text", 0o644)):
        path.write_text("")
        path.chmod(mode)
    (tree / "link").symlink_to(outside)
    entry = declare(tree, acl_name=UID, perms="rX", recurse=True)
    assert not await entry.check_apply(ctx, True)
    assert {path.name: acl(path)[USER, UID] for path in (tree, tree / "sub", tree / "sub/program", tree / "text")} == {
        "tree": 5,
        "sub": 5,
        "program": 5,
        "text": 4,
    }
    assert acl(outside) == {}
    assert await entry.check_apply(ctx, True)
    assert not await declare(tree, "list_absent", acl_names=[UID], recurse=True).check_apply(ctx, True)
    assert acl(tree / "text") == {}


@as_root
async def test_no_entry_for_what_a_user_may_have_put_there(tmp_path, file, ctx):
    """Root's file behind a user's hard link is refused, and so is root's directory that a user may have moved."""
    home = tmp_path / "home"
    home.mkdir()
    os.link(file, home / "linked")
    os.chown(home, UID, UID)
    for entry in (
        declare(home / "linked", acl_name=UID, perms="rw"),
        declare(home, acl_name=UID, perms="rw", recurse=True),
    ):
        with pytest.raises(Permanent, match="cannot change the ACL of"):
            await entry.check_apply(ctx, True)
    assert (USER, UID) not in acl(file)


async def test_undone_the_entry_is_as_before(file, ctx):
    """The former permissions of one or several entries are restored.

    If only some entries existed, no state describes that.
    """
    before = await declare(file, acl_name=UID, perms="rw").inverse(ctx)
    assert (before.kind, before.arguments["acl_name"]) == ("acl.absent", str(UID))
    await declare(file, acl_name=UID, perms="rw").check_apply(ctx, True)
    for kind in ("present", "absent"):
        before = await declare(file, kind, acl_name=UID, **({"perms": "r"} if kind == "present" else {})).inverse(ctx)
        assert (before.kind, before.arguments["perms"]) == ("acl.present", "rw-")
    assert (await declare(file, perms="r").inverse(ctx)).arguments["perms"] == "rw-"
    several = declare(file, "list_present", acl_names=[UID + 1, UID + 2], perms="r")
    before = await several.inverse(ctx)
    assert (before.kind, before.arguments["acl_names"]) == ("acl.list_absent", [str(UID + 1), str(UID + 2)])
    await several.check_apply(ctx, True)
    before = await declare(file, "list_absent", acl_names=[UID + 1, UID + 2]).inverse(ctx)
    assert (before.kind, before.arguments["perms"]) == ("acl.list_present", "r--")
    assert await declare(file, "list_present", acl_names=[UID + 1, 2], perms="r").inverse(ctx) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"acl_type": "users:x"},
        {"acl_type": "x:user"},
        {"acl_type": ""},
        {"acl_name": "-x"},
        {"acl_name": "a:b"},
        {"acl_name": "a", "perms": "rwz"},
        {"acl_name": "a", "perms": "8"},
        {"kind": "absent"},
        {"kind": "absent", "acl_type": "mask", "acl_name": "a"},
    ],
)
def test_what_is_no_entry_is_refused(arguments):
    """The error has the line of the argument."""
    with pytest.raises(ValidationError):
        declare("/x", **arguments)


ENTRIES = st.dictionaries(
    st.tuples(st.sampled_from([USER, GROUP]), st.integers(0, 5)), st.integers(0, 7), max_size=4
).flatmap(lambda named: st.integers(0, 0o777).map(lambda mode: _posix_acl.put(_posix_acl.of_mode(mode), named)))


@given(ENTRIES, st.integers(0, 5), st.integers(0, 7))
def test_lists_are_stored_exactly_and_nobody_gains_by_a_removal(entries, number, granted):
    """The kernel stores exactly the entries. After the removal of one, no other user has more rights than before."""
    assert _posix_acl.decoded(_posix_acl.encoded(entries)) == entries
    mask = entries.get(base(MASK), 7)
    left = _posix_acl.without(_posix_acl.put(entries, {(USER, number): granted}), [(USER, number)])
    assert (USER, number) not in left
    fewer = _posix_acl.without(entries, [key for key in entries if key[0] in {USER, GROUP}])
    assert base(MASK) not in fewer
    assert fewer[base(GROUP_OBJ)] & ~(entries[base(GROUP_OBJ)] & mask) == 0


@as_root
async def test_many_directories_of_a_user_are_not_open_at_once(tmp_path, file, ctx):
    """A user could otherwise use up the descriptors of the agent."""
    home = tmp_path / "home"
    for number in range(100):
        (home / str(number)).mkdir(parents=True)
        os.chown(home / str(number), UID, UID)
    os.chown(home, UID, UID)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (sum(1 for _ in Path("/proc/self/fd").iterdir()) + 30, hard))
    try:
        assert not await declare(home, acl_name=1, perms="rX", recurse=True).check_apply(ctx, True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert all(acl(path)[USER, 1] == 5 for path in (home, *home.iterdir()))


async def test_a_file_that_is_removed_during_the_walk_does_not_matter(tmp_path, file, ctx, monkeypatch):
    """The file may be removed before its ACL is read, or before it is changed."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in "abc":
        (tree / name).write_text("")

    def reading(place, attribute):
        if place.name == "a":
            (tree / "a").unlink(missing_ok=True)
        return read_acl(place, attribute)

    def putting(place, *more):
        if place.name == "b":
            (tree / "b").unlink(missing_ok=True)
        put_acl(place, *more)

    monkeypatch.setattr("holdfast.resources.kinds.acl.read_acl", reading)
    monkeypatch.setattr("holdfast.resources.kinds.acl.put_acl", putting)
    assert not await declare(tree, acl_name=UID, perms="r", recurse=True).check_apply(ctx, True)
    assert sorted(path.name for path in tree.iterdir()) == ["c"]
    assert acl(tree / "c")[USER, UID] == 4
