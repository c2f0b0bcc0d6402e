"""Mounts: lines of fstab, options, reversal, and refused arguments. tests/lab has tests with real mounts."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources.errors import ChangedMeanwhile, Permanent, Temporary
from holdfast.resources.kinds.mount import acting, fstab, lines, mounted, options, swap, table
from holdfast.resources.kinds.mount.devices import bare
from holdfast.resources.kinds.mount.lines import MountLine
from holdfast.resources.kinds.mount.table import Mount
from holdfast.resources.testing import FakeContext

WORDS = st.text(alphabet="/ab \t\\#=,\n0äß\udcff", min_size=1, max_size=8)
LINES = st.sampled_from(
    [
        "# mine",
        "",
        "  ",
        "/dev/a /srv ext4",
        "odd",
        "/dev/b\t/b  xfs ro,noatime 1 2",
        "a b c d x y",
        "1 2 3 4 5 6 7",
    ]
)
TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / {point} rw,noexec - tmpfs none rw,size=4096k
31 22 0:41 / {point} ro,relatime master:1 propagate_from:2 - fuse.sshfs u@host:/a\\040b rw,user_id=0
"""


@pytest.fixture
def ctx(tmp_path):
    """A context of its own."""
    return FakeContext(tmp_path)


@pytest.fixture
def point(tmp_path, monkeypatch):
    """A directory at which the table of the kernel has two mounts."""
    monkeypatch.setattr(table, "MOUNTS", str(tmp_path / "mountinfo"))
    (tmp_path / "m").mkdir()
    (tmp_path / "mountinfo").write_text(TABLE.format(point=tmp_path / "m"))
    return tmp_path / "m"


def tmpfs(options="rw", more="rw"):
    """Return a mount of a tmpfs."""
    return Mount(1, "0:1", "/m", tuple(options.split(",")), "tmpfs", "tmpfs", tuple(more.split(",")))


# -- fstab ------------------------------------------------------------------------------------------------------------


@given(WORDS.filter(lambda word: not word.startswith("#")), WORDS, WORDS, st.integers(0, 9))
def test_what_is_written_is_read_again(device, name, fstype, number):
    """Blanks, line ends, backslashes and all other characters are read as they were written."""
    entry = MountLine(device, name.rstrip("/") or name, fstype, ("a=b c", "x\\y"), number, 2)
    line = entry.line()
    assert "\n" not in line
    assert lines.parsed(line) == entry


@given(st.lists(LINES))
def test_other_lines_are_kept(given_lines):
    """Other lines keep each byte when an entry is added, changed or removed; a second edit changes nothing."""
    text, wanted = "\n".join(given_lines), MountLine("/dev/c", "/srv", "ext4")
    for entry in (wanted, None):
        new = lines.with_entry(text, entry, lambda seen: seen.name == "/srv")
        assert lines.with_entry(new, entry, lambda seen: seen.name == "/srv") == new
        others = [line for line in new.split("\n") if "/srv" not in line]
        before = [line for line in text.split("\n") if "/srv" not in line]
        assert [line for line in others if line] == [line for line in before if line]
        assert len(lines.found_in(new, lambda seen: seen.name == "/srv")) == (entry is not None)


@pytest.mark.parametrize("line", ["", "# /dev/a /a ext4", "/dev/a /a", "a b c d x 1", "a b c d 1 2 3", "   #x y z"])
def test_what_is_no_entry_is_left_alone(line):
    """Comments, and lines that mount(8) does not understand, stay."""
    assert lines.parsed(line) is None


def test_passwords_are_masked():
    """Passwords in the options of every line of fstab are masked."""
    text = "user=a,password=x,pass=y z\n-//s /m cifs PASSWD=q,keyfile=/k,key=k 0 0"
    assert lines.masked(text) == "user=a,password=***,pass=*** z\n-//s /m cifs PASSWD=***,keyfile=/k,key=*** 0 0"


async def test_no_diff_shows_a_password(ctx, tmp_path):
    """The diff shows neither the password of the entry nor those of the lines around it."""
    file = tmp_path / "fstab"
    file.write_text("//s/b /b cifs password=theirs 0 0\n")
    arguments = {
        "fs_file": "/a",
        "fs_vfstype": "cifs",
        "fs_mntops": "password=mine",
        "config": str(file),
        "mount": False,
    }
    assert not await fstab.FstabPresent.declare("//s/a", **arguments).check_apply(ctx, True)
    assert "password=***" in ctx.report.diff
    assert "mine" not in ctx.report.diff
    assert "theirs" not in ctx.report.diff
    assert "password=mine" in file.read_text()

    file.write_text("//s/b /b cifs password=theirs 0 0\n")
    failing = {**arguments, "fs_file": str(tmp_path / "none"), "mount": True}
    with pytest.raises(Permanent, match="the directory does not exist"):
        await fstab.FstabPresent.declare("//s/a", **failing).check_apply(ctx, True)
    assert "password=***" in ctx.report.diff
    assert "mine" not in ctx.report.diff
    assert "theirs" not in ctx.report.diff


@pytest.mark.parametrize("before", ["", "# mine\n/dev/z\t/srv\txfs\tro,nofail\t1\t2\n"])
@pytest.mark.parametrize("kind", [fstab.FstabPresent, fstab.FstabAbsent])
async def test_an_entry_is_undone(ctx, tmp_path, kind, before):
    """The reversal restores the file."""
    file = tmp_path / "fstab"
    file.write_text(before)
    more = {"fs_vfstype": "ext4", "mount": False} if kind is fstab.FstabPresent else {}
    wanted = kind.declare("/dev/a", fs_file="/srv", config=str(file), **more)
    inverse = await wanted.inverse(ctx)
    await wanted.check_apply(ctx, True)
    back = {"mount.fstab_present": fstab.FstabPresent, "mount.fstab_absent": fstab.FstabAbsent}[inverse.kind]
    await back.declare(**inverse.arguments).check_apply(ctx, True)
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (mounted.Mounted, {"name": "/a\nb", "device": "x", "fstype": "ext4"}),
        (mounted.Mounted, {"name": "a", "device": "x", "fstype": "ext4"}),
        (mounted.Mounted, {"name": "/a", "device": "-x", "fstype": "ext4"}),
        (mounted.Mounted, {"name": "/a", "device": "x\0", "fstype": "ext4"}),
        (mounted.Mounted, {"name": "/a", "device": "x", "fstype": "-t ext4"}),
        (mounted.Mounted, {"name": "/a", "device": "x", "fstype": "ext4", "opts": "a\nb"}),
        (mounted.Mounted, {"name": "/a", "device": "x", "fstype": "ext4", "pass_num": 10}),
        (mounted.Mounted, {"name": "/a", "device": "x", "fstype": "ext4", "match_on": "colour"}),
        (mounted.Mounted, {"name": "/a", "device": "x", "fstype": "ext4", "device_name_regex": "("}),
        (fstab.FstabPresent, {"name": "x", "fs_file": "a", "fs_vfstype": "ext4"}),
        (swap.Swap, {"name": "--all"}),
    ],
)
def test_what_cannot_be_mounted_is_refused(kind, arguments):
    """The error is raised before anything runs."""
    with pytest.raises(ValidationError):
        kind.declare(**arguments)


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ("size=4m", "size=4096k"),
        ("size=4M", "size=4194304"),
        ("mode=0750", "mode=750"),
        ("mode=1777,uid=0,gid=root", "rw"),
        ("uid=root", "uid=0"),
        ("exec,suid,dev,async,rw", "relatime"),
        ("nr_inodes=1k", "nr_inodes=1024"),
        ("subvol=@home", "subvol=/@home"),
    ],
)
def test_options_are_compared_by_meaning(wanted, seen):
    """The declared options equal those that the kernel shows."""
    assert options.missing(wanted.split(","), tmpfs("rw", seen)) == ()


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ("rw", "ro"),
        ("exec", "noexec"),
        ("noexec", "rw"),
        ("size=4m", "size=1024k"),
        ("uid=0", "uid=5"),
        ("mode=1777", "mode=755"),
    ],
)
def test_other_options_are_missing(wanted, seen):
    """A declared default is missing, too, if the kernel shows its opposite."""
    assert options.missing([wanted], tmpfs(seen)) == (wanted,)


@pytest.mark.parametrize(
    "option", ["defaults", "nofail", "_netdev", "x-systemd.automount", "credentials=/c", "size=50%"]
)
def test_options_that_the_kernel_never_shows_are_not_compared(option):
    """Such options are for mount(8) or the boot, or are computed."""
    assert not options.is_visible(option, "ext4")


def test_further_options_may_be_declared_as_invisible():
    """As in Salt, they are given by name (also of options with values), by file system, or by their translation."""
    wanted = mounted.Mounted.declare(
        "/a",
        device="x",
        fstype="glusterfs",
        opts="one,two=2,three=3,four,five,noatime",
        extra_mount_invisible_options="one",
        extra_mount_invisible_keys=["two"],
        extra_mount_ignore_fs_keys={"glusterfs": ["three"]},
        extra_mount_translate_options={"four": "shown=4"},
        hidden_opts="five",
    )
    assert wanted.compared == ("shown=4", "noatime")


# -- what is mounted --------------------------------------------------------------------------------------------------


def test_the_table_of_the_kernel(point):
    """The table may lack fields, has escapes, and lists several mounts at one path in order."""
    first, second = [mount for mount in table.mounts() if mount.point == str(point)]
    assert (first.source, first.options, first.super_options) == ("none", ("rw", "noexec"), ("rw", "size=4096k"))
    assert (second.number, second.fstype, second.source) == (31, "fuse.sshfs", "u@host:/a b")
    assert bare("sshfs#u@host:/a b/") == second.source


async def test_the_server_of_a_mount_is_not_asked(ctx, point, monkeypatch):
    """A dead server would not answer, so the root of the file system is never read."""
    asked = []
    own = os.lstat

    def lstat(path, *args, **named):
        asked.append(str(path))
        return own(path, *args, **named)

    monkeypatch.setattr(os, "lstat", lstat)
    wanted = mounted.Mounted.declare(str(point), device="u@host:/a b", fstype="fuse.sshfs", persist=False)
    assert await wanted.check_apply(ctx, True)
    assert asked
    assert str(point) not in asked


async def test_a_device_by_a_regular_expression(ctx, point):
    """The expression is for devices with several servers, of which the kernel shows one."""
    wanted = {"device": "u@one,u@host:/a", "fstype": "fuse.sshfs", "persist": False}
    assert await mounted.Mounted.declare(str(point), device_name_regex="u@(one|host):/a", **wanted).check_apply(
        ctx, False
    )
    assert not await mounted.Mounted.declare(str(point), **wanted).check_apply(ctx, False)
    assert "current: u@host:/a b" in ctx.report.changes["umount"]


async def test_nothing_is_unmounted_for_a_device_that_does_not_exist(ctx, point):
    """A disk may have another name after a boot."""
    wanted = mounted.Mounted.declare(str(point), device="/dev/no-such-disk", fstype="ext4", persist=False)
    with pytest.raises(
        Permanent, match=r"cannot find the device /dev/no-such-disk: .* u@host:/a b is mounted .* stays"
    ):
        await wanted.check_apply(ctx, True)
    assert ctx.calls == []


@pytest.mark.parametrize("kind", [mounted.Mounted, mounted.Unmounted])
async def test_what_another_program_keeps_mounting_is_an_error(ctx, point, kind):
    """The attempt ends; another one follows later."""
    ctx.commands = {f"umount {point}": ""}
    more = {"device": "tmpfs", "fstype": "tmpfs", "persist": False} if kind is mounted.Mounted else {}
    with pytest.raises(Temporary, match="another program keeps mounting something"):
        await kind.declare(str(point), **more).check_apply(ctx, True)
    assert ctx.calls == [f"umount {point}"] * acting.MOST


async def test_a_mount_is_undone(ctx, point):
    """A mount is undone if nothing was mounted before, and there was no entry."""
    (point.parent / "mountinfo").write_text("")
    wanted = mounted.Mounted.declare(str(point), device="x", fstype="tmpfs", config=str(point.parent / "fstab"))
    assert await wanted.inverse(ctx) == (
        "mount.unmounted",
        {"name": str(point), "config": str(point.parent / "fstab"), "persist": True},
        "",
    )
    (point.parent / "fstab").write_text(f"y {point} tmpfs\n")
    assert await wanted.inverse(ctx) is None


@pytest.mark.parametrize(
    ("line", "opts"),
    [
        ("40 22 0:50 / {} rw,noexec - tmpfs x rw,seclabel,size=1024k", ["rw", "noexec", "size=1024k"]),
        ("40 22 0:50 / {} rw,relatime - tmpfs x ro", ["ro", "relatime"]),
        ("40 22 0:50 /@ {} rw - btrfs /dev/x rw,subvol=/@", ["rw", "subvol=/@"]),
        ("40 22 0:50 /srv {} rw - ext4 /dev/x rw", None),
    ],
)
async def test_what_is_unmounted_is_mounted_again(ctx, point, line, opts):
    """The options of the mount and of its file system are restored.

    A bind mount cannot be restored, as its directory is unknown.
    """
    (point.parent / "mountinfo").write_text(line.format(point) + "\n")
    inverse = await mounted.Unmounted.declare(str(point)).inverse(ctx)
    assert (inverse and inverse.arguments["opts"]) == opts


async def test_what_waits_to_mount_something_is_no_mount(ctx, point):
    """An automount of systemd stays, whether its file system is mounted or not."""
    (point.parent / "mountinfo").write_text(f"40 22 0:50 / {point} rw - autofs systemd-1 rw\n")
    assert await mounted.Unmounted.declare(str(point)).check_apply(ctx, True)
    assert not await mounted.Mounted.declare(str(point), device="x", fstype="tmpfs", persist=False).check_apply(
        ctx, False
    )


async def test_the_root_is_a_mount_point(ctx, tmp_path, monkeypatch):
    """The options of the root can be changed; other options of its entry in fstab are not added."""
    monkeypatch.setattr(table, "MOUNTS", str(tmp_path / "mountinfo"))
    (tmp_path / "mountinfo").write_text(TABLE.split("\n", maxsplit=1)[0] + "\n")

    def remounted():
        (tmp_path / "mountinfo").write_text("22 1 8:1 / / rw,noatime - ext4 /dev/sda1 rw\n")
        return ""

    ctx.commands = {"mount -o remount,noatime /dev/sda1 /": remounted}
    wanted = mounted.Mounted.declare("/", device="/dev/sda1", fstype="ext4", opts="noatime", persist=False)
    assert not await wanted.check_apply(ctx, True)
    assert ctx.report.changes == {"umount": "Forced remount because options (noatime) changed"}
    assert await wanted.check_apply(ctx, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("inside", ["data", "link", "image"])
async def test_what_a_user_could_exchange_is_not_mounted(ctx, point, inside):
    """A user's link could lead to a directory that the user cannot reach.

    The home itself is safe, because only root can rename it.
    """
    (point.parent / "mountinfo").write_text("")
    point.parent.chmod(0o755)
    home, secret = point.parent / "home", point.parent / "secret"
    secret.mkdir(mode=0o700)
    (secret / "inner").mkdir()
    (home / "data").mkdir(parents=True)
    (home / "image").write_text("")
    (home / "link").symlink_to(secret / "inner")
    for path in (home, *home.iterdir()):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    config = {"config": str(point.parent / "fstab")}
    bind = {"device": str(home / inside), "fstype": "none", "opts": ["bind"], "persist": False, **config}
    with pytest.raises(Permanent, match=r"a user could redirect this path|cannot follow"):
        await mounted.Mounted.declare(str(point), **bind).check_apply(ctx, True)
    with pytest.raises(Permanent, match=r"a user could redirect this path|cannot follow"):
        await mounted.Mounted.declare(str(point), **{**bind, "persist": True, "mount": False}).check_apply(ctx, True)
    listed = fstab.FstabPresent.declare(str(home / inside), fs_file=str(point), fs_vfstype="none", **config)
    with pytest.raises(Permanent, match=r"a user could redirect this path|cannot follow"):
        await listed.check_apply(ctx, True)
    assert not [line for line in ctx.calls if line.startswith("mount")]
    assert not (point.parent / "fstab").exists(), "the next boot would follow it, too"
    ctx.commands = {f"mount -t none -o bind {home} {point}": ""}
    await acting.mount(ctx, acting.MountCall(str(home), "none", ["bind"]), str(point))


async def test_several_mounts_are_not_undone(ctx, point):
    """No declaration describes several mounts. One mount is described with its entry, if that is removed, too."""
    gone = mounted.Unmounted.declare(str(point), persist=True, config=str(point.parent / "fstab"))
    assert await gone.inverse(ctx) is None
    (point.parent / "mountinfo").write_text("\n".join(TABLE.format(point=point).split("\n")[:2]))
    assert (await gone.inverse(ctx)).arguments["opts"] == ["rw", "noexec", "size=4096k"]
    (point.parent / "fstab").write_text(f"LABEL=x {point} tmpfs size=4m 0 0\n")
    assert (await gone.inverse(ctx)).arguments == {
        "name": str(point),
        "device": "LABEL=x",
        "fstype": "tmpfs",
        "opts": ["size=4m"],
        "persist": True,
        "config": str(point.parent / "fstab"),
    }


def test_a_mount_and_its_absence_contradict_each_other():
    """They do not contradict each other if they name different devices."""
    there = mounted.Mounted.declare("/a", device="x", fstype="ext4")
    assert mounted.Unmounted.declare("/a").contradicts(there)
    assert mounted.Unmounted.declare("/a", device="y").contradicts(there) is None
    assert there.contradicts(mounted.Mounted.declare("/a", device="y", fstype="ext4")) == "device differs"


async def test_a_password_reaches_the_program_by_its_environment(ctx, point):
    """No other user can read the environment of the program."""
    seen = []

    async def run(*argv, env=None, **_):
        seen.append((argv, env))
        return await FakeContext.run(ctx, *argv)

    ctx.commands = {f"mount -t cifs -o user=a //s/x {point}": ""}
    ctx.run = run
    await acting.mount(ctx, acting.MountCall("//s/x", "cifs", ("user=a", "password=hidden")), str(point))
    assert seen == [(("mount", "-t", "cifs", "-o", "user=a", "//s/x", str(point)), {"PASSWD": "hidden"})]


async def test_a_swap_file_of_a_user_is_refused(ctx, tmp_path, monkeypatch):
    """The kernel would write memory into a file of that user."""
    if os.geteuid():
        pytest.skip("giving files away needs root")
    (tmp_path / "swap").write_text("")
    os.chown(tmp_path / "swap", 12345, 12345)
    with pytest.raises(Permanent, match=r"cannot use swap space .*: it belongs to another user than root"):
        await swap.Swap.declare(str(tmp_path / "swap"), persist=False).check_apply(ctx, True)


async def test_a_mount_point_that_is_removed_during_the_repair_is_made_again(ctx, tmp_path, monkeypatch):
    """The agent is told that something else has changed it, so that it repairs it at once."""
    monkeypatch.setattr(acting, "_followed", lambda _: (None, None))
    with pytest.raises(ChangedMeanwhile, match=f"cannot mount {tmp_path}/m: the directory was removed meanwhile"):
        await acting.make_point(ctx, str(tmp_path / "m"), make=True)
