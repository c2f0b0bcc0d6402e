"""Mounts and swap space of a real kernel, with entries in fstab. The tests share one host.

Loop devices and swap space belong to the machine, so each test releases what it uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
from driver import Driver, Failed
from lab import Host
from repairs import repair_times

pytestmark = pytest.mark.lab

FILE = "/root/fstab"
"""A file like /etc/fstab that systemd does not read, which would take a second."""
FSTAB = "# mine\nproc /proc proc defaults\n\\odd line\n"
DISK = """
mknod /dev/loop-control c 10 237
for number in 0 1 2 3 4 5 6 7; do mknod /dev/loop$number b 7 $number; done
truncate -s 8M /root/disk; mkfs.ext4 -q -L lab-disk /root/disk
truncate -s 1M /root/swap; chmod 600 /root/swap; mkswap /root/swap >/dev/null
"""
STATES = """\
/srv/data:
  mount.mounted: [device: tmpfs, fstype: tmpfs, opts: 'size=4m,noexec,mode=750', mkmnt: true]
/srv/data/page:
  file.managed: [contents: right]
"""


@pytest.fixture(scope="module")
def disks(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host with loop devices, a disk and a swap space."""
    host = run.host("disks", layers=layers)
    try:
        host.sh(DISK)
        yield host
    finally:
        host.run("sh", "-c", "umount -a -t ext4; for d in $(losetup -n -O NAME -j /root/disk); do losetup -d $d; done")
        host.down()


@pytest.fixture(scope="module")
def shared_driver(disks: Host) -> Iterator[Driver]:
    """A driver of real kinds in this host."""
    with Driver(disks) as driver:
        yield driver


@pytest.fixture
def driver(disks: Host, shared_driver: Driver) -> Iterator[Driver]:
    """The driver; before each test, both files are as they were."""
    for file in ("/etc/fstab", FILE):
        disks.write(file, FSTAB)
    return shared_driver


def mounted(host: Host, point: str, column: str = "SOURCE") -> list[str]:
    """Return a column of findmnt for the mount at a path."""
    return host.run("findmnt", "-n", "-o", column, "--mountpoint", point, check=False).stdout.split()


def test_a_file_system_is_mounted_and_kept(disks: Host, driver: Driver):
    """Options are compared by meaning; the watch reports a remount, a mount over it, an unmount, and an edit."""
    wanted = {"device": "tmpfs", "fstype": "tmpfs", "opts": "size=4m,noexec,mode=0750", "mkmnt": True, "config": FILE}
    before = disks.contents()
    assert driver.plan("mount.mounted", "/srv/a b", **wanted).changes == {"mount": True, "persist": "new"}
    assert disks.contents() == before
    assert mounted(disks, "/srv/a b") == []
    assert driver.apply("mount.mounted", "/srv/a b", **wanted).changes == {"mount": True, "persist": "new"}
    assert disks.read(FILE) == FSTAB + "tmpfs\t/srv/a\\040b\ttmpfs\tsize=4m,noexec,mode=0750\t0\t0\n"
    assert driver.apply(
        "mount.mounted", "/srv/a b", **wanted | {"opts": ["mode=750", "noexec", "size=4096k"]}
    ).changes == {"persist": "update"}
    assert driver.apply("mount.mounted", "/srv/a b", **wanted).changes == {"persist": "update"}
    watch = driver.watch("mount.mounted", "/srv/a b", **wanted)
    for damage in (
        "mount -o remount,exec '/srv/a b'",
        "umount '/srv/a b'",
        "mount -t ramfs other '/srv/a b'",
        f"echo >{FILE}",
    ):
        watch.quiet()
        disks.sh(damage)
        watch.wait()
        assert not driver.apply("mount.mounted", "/srv/a b", **wanted).right, damage
        assert mounted(disks, "/srv/a b") == ["tmpfs"], damage
    assert driver.apply("mount.mounted", "/srv/a b", **wanted).right
    watch.quiet()
    disks.sh("mkdir -p /srv/else; mount -t tmpfs else /srv/else; umount /srv/else")
    with pytest.raises(TimeoutError):
        watch.wait(0.3)  # a mount at another place is not reported
    assert driver.apply("mount.unmounted", "/srv/a b", persist=True, config=FILE).changes == {
        "umount": True,
        "persist": "purged",
    }
    assert driver.apply("mount.unmounted", "/srv/a b", persist=True, config=FILE).right


def test_an_option_that_the_kernel_does_not_show_is_set_once(disks: Host, driver: Driver):
    """It is set again after another program has mounted the file system anew."""
    wanted = {"device": "tmpfs", "fstype": "tmpfs", "mkmnt": True, "opts": "nr_inodes=100,huge=never", "config": FILE}
    driver.apply("mount.mounted", "/srv/opts", **wanted)
    assert driver.apply("mount.mounted", "/srv/opts", **wanted).right
    disks.sh("umount /srv/opts; mount -t tmpfs tmpfs /srv/opts")
    assert driver.apply("mount.mounted", "/srv/opts", **wanted).changes["umount"].startswith("Forced remount because")
    assert driver.apply("mount.mounted", "/srv/opts", **wanted).right
    disks.sh("umount /srv/opts")


def test_a_disk_by_its_label_file_or_device(disks: Host, driver: Driver):
    """All of these names are the same device. A state with another device unmounts it."""
    wanted = {"fstype": "ext4", "mkmnt": True, "persist": False}
    driver.apply("mount.mounted", "/srv/disk", device="/root/disk", opts="loop,noatime", **wanted)
    (loop,) = mounted(disks, "/srv/disk")
    for device in ("/root/disk", "LABEL=lab-disk", 'label="lab-disk"', loop):
        assert driver.apply("mount.mounted", "/srv/disk", device=device, opts="noatime", **wanted).right, device
    for device in ("LABEL=no-such", "UUID=no-such"):
        with pytest.raises(Failed, match=f"cannot find the device {device}"):
            driver.apply("mount.mounted", "/srv/disk", device=device, **wanted)
    done = driver.apply("mount.mounted", "/srv/disk", device="tmpfs", **wanted | {"fstype": "tmpfs"})
    assert done.changes["umount"] == f"Forced unmount because devices don't match. Wanted: tmpfs, current: {loop}"
    disks.sh("umount /srv/disk")
    with pytest.raises(Failed, match=r"cannot mount /root/none at /srv/disk: .*"):
        driver.apply("mount.mounted", "/srv/disk", device="/root/none", **wanted)
    assert disks.read(FILE) == FSTAB


def test_a_bind_mount(disks: Host, driver: Driver):
    """A bind mount is recognised by its directory; it can be read-only although the original is not."""
    disks.sh("mkdir -p /srv/from; echo right >/srv/from/page")
    wanted = {"device": "/srv/from", "fstype": "none", "opts": "bind,ro", "mkmnt": True, "config": FILE}
    driver.apply("mount.mounted", "/srv/bound", **wanted)
    assert disks.read("/srv/bound/page") == "right\n"
    assert driver.apply("mount.mounted", "/srv/bound", **wanted).right
    disks.sh("mount -o remount,bind,rw /srv/bound")
    assert driver.apply("mount.mounted", "/srv/bound", **wanted).changes["umount"].endswith("(ro) changed")
    assert driver.refresh("mount.mounted", "/srv/bound", **wanted).changes == {"mount": True}
    driver.apply("mount.unmounted", "/srv/bound", persist=True, config=FILE)


def test_a_busy_mount_is_told_with_those_who_use_it(disks: Host, driver: Driver):
    """The error names a process that works in the directory, and another mount below it."""
    disks.sh("mkdir -p /srv/busy; mount -t tmpfs tmpfs /srv/busy")
    with disks.spawn("sh", "-c", "cd /srv/busy; echo; exec sleep 1000", stdout=-1) as busy:
        busy.stdout.readline()
        with pytest.raises(Failed, match=r"cannot unmount /srv/busy: it is used by sleep \(\d+\)") as error:
            driver.apply("mount.unmounted", "/srv/busy")
        assert error.value.kind == "Temporary"
        busy.kill()
    disks.sh("mkdir /srv/busy/low; mount -t tmpfs tmpfs /srv/busy/low")
    with pytest.raises(Failed, match="cannot unmount /srv/busy: /srv/busy/low is mounted below it"):
        driver.apply("mount.unmounted", "/srv/busy")
    disks.sh("umount /srv/busy/low; mount -t tmpfs two /srv/busy")
    assert driver.apply("mount.unmounted", "/srv/busy", device="no").right
    driver.apply("mount.unmounted", "/srv/busy")
    assert mounted(disks, "/srv/busy") == []


def test_a_mount_point_that_a_user_could_move_is_refused(disks: Host, driver: Driver):
    """A mount point below a user's home directory is refused.

    The home itself is safe, because its parent belongs to root.
    """
    disks.sh("useradd -m alice; install -d -o alice /home/alice/m")
    wanted = {"device": "tmpfs", "fstype": "tmpfs", "persist": False}
    with pytest.raises(Failed, match=r"cannot mount /home/alice/m: .*a user could move the mount point"):
        driver.apply("mount.mounted", "/home/alice/m", **wanted)
    with pytest.raises(Failed, match="cannot mount /srv/none: the directory does not exist"):
        driver.apply("mount.mounted", "/srv/none", **wanted)
    with pytest.raises(Failed, match=r"cannot mount /home/alice/m: .*a user could move the mount point"):
        driver.apply("mount.fstab_present", "x", fs_file="/home/alice/m", fs_vfstype="tmpfs", config=FILE)
    driver.apply("mount.mounted", "/home/alice", **wanted)
    driver.apply("mount.unmounted", "/home/alice")


def test_swap_space_is_used_and_kept(disks: Host, driver: Driver):
    """The watch reports when the swap space is turned off, and an edit of fstab."""
    loop = disks.run("losetup", "--show", "-f", "/root/swap").stdout.strip()
    try:
        assert driver.plan("mount.swap", loop, config=FILE).changes == {"active": True, "persist": "new"}
        changes = driver.apply("mount.swap", loop, config=FILE).changes
        assert (changes["type"], changes["persist"]) == ("partition", "new")
        assert disks.read(FILE) == f"{FSTAB}{loop}\tnone\tswap\tdefaults\t0\t0\n"
        assert driver.apply("mount.swap", loop, config=FILE).right
        watch = driver.watch("mount.swap", loop, config=FILE)
        for damage in (f"swapoff {loop}", f"echo >{FILE}"):
            watch.quiet()
            disks.sh(damage)
            watch.wait()
            assert not driver.apply("mount.swap", loop, config=FILE).right, damage
    finally:
        disks.run("sh", "-c", f"swapoff {loop}; losetup -d {loop}")
    with pytest.raises(Failed, match="cannot use swap space /root/disk: "):
        driver.apply("mount.swap", "/root/disk", config=FILE)


def test_entries_alone(disks: Host, driver: Driver):
    """The file system of a new entry is mounted at once; it stays mounted when the entry is removed."""
    wanted = {"fs_file": "/srv/entry", "fs_vfstype": "tmpfs", "fs_mntops": "size=1m"}
    disks.sh("mkdir -p /srv/entry")
    assert driver.apply("mount.fstab_present", "tmpfs", **wanted).changes == {"persist": "new"}
    assert mounted(disks, "/srv/entry") == ["tmpfs"]
    assert driver.apply("mount.fstab_present", "tmpfs", **wanted).right
    assert driver.apply("mount.fstab_present", "tmpfs", **wanted | {"fs_passno": 1}).changes == {"persist": "change"}
    assert driver.apply("mount.fstab_present", "tmpfs", **wanted | {"not_change": True}).right
    assert driver.apply("mount.fstab_absent", "tmpfs", fs_file="/srv/entry").changes == {"persist": "removed"}
    assert disks.read("/etc/fstab") == FSTAB
    assert mounted(disks, "/srv/entry") == ["tmpfs"]
    loop = disks.run("losetup", "--show", "-f", "/root/disk").stdout.strip()
    by_uuid = {"fs_file": "/srv/uuid", "fs_vfstype": "ext4", "mount_by": "uuid", "mount": False}
    driver.apply("mount.fstab_present", loop, **by_uuid)
    assert disks.read("/etc/fstab").splitlines()[-1].startswith("UUID=")
    assert driver.apply("mount.fstab_present", "LABEL=lab-disk", **by_uuid).right
    disks.run("losetup", "-d", loop)


def test_a_full_disk_leaves_fstab_whole(disks: Host, driver: Driver):
    """The mount stays meanwhile, and the entry is added as soon as there is room."""
    disks.sh("mkdir -p /srv/full; mount -t tmpfs -o size=32k tmpfs /srv/full; cp /etc/fstab /srv/full/fstab")
    disks.sh("dd if=/dev/zero of=/srv/full/rest bs=4k 2>/dev/null || true")
    wanted = {"device": "tmpfs", "fstype": "tmpfs", "mkmnt": True, "config": "/srv/full/fstab"}
    with pytest.raises(Failed, match="cannot write /srv/full/fstab: no space is left") as error:
        driver.apply("mount.mounted", "/srv/beside", **wanted)
    assert error.value.kind == "Temporary"
    assert disks.read("/srv/full/fstab") == FSTAB
    assert disks.sh("ls -A /srv/full") == "fstab\nrest\n"
    assert mounted(disks, "/srv/beside") == ["tmpfs"]
    disks.sh("rm /srv/full/rest")
    assert driver.apply("mount.mounted", "/srv/beside", **wanted).changes == {"persist": "new"}
    disks.sh("umount /srv/beside")
    driver.apply("mount.unmounted", "/srv/full")


def test_an_agent_repairs_mounts(disks: Host, driver: Driver):
    """A file in the file system is restored after the mount. A killed agent leaves nothing half done."""
    disks.run("holdfast", "install")
    disks.write("/etc/holdfast/agent.yaml", "engine: {recheck: 0}\n")
    disks.write("/etc/holdfast/states/site.sls", STATES)
    lab.wait_for("the page is there", lambda: disks.run("test", "-s", "/srv/data/page", check=False).returncode == 0)
    assert mounted(disks, "/srv/data") == ["tmpfs"]
    in_fstab = "'/srv/data' in text('/etc/fstab')"
    assert repair_times(disks, "sed -i /data/d /etc/fstab", in_fstab, times=1)  # systemd reads this file, too
    disks.sh("sed -i /data/d /etc/fstab; systemctl kill -s KILL holdfast; umount /srv/data || true")
    lab.wait_for("all is right again", lambda: disks.run("test", "-s", "/srv/data/page", check=False).returncode == 0)
    lab.wait_for("the entry is there", lambda: "/srv/data" in disks.read("/etc/fstab"))
