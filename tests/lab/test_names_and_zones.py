"""The name of a real host, its time zone and its locales. The tests share one host and leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import inits
import lab
import pytest
import tools
from driver import Driver, Failed
from lab import Host

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def named(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host with the sources of locales."""
    with tools.equipped(run, layers, "echo named >/etc/hostname; hostname named") as host:
        yield host


@pytest.fixture(scope="module")
def driver(named: Host) -> Iterator[Driver]:
    """A driver of real kinds in this host."""
    with Driver(named) as driver:
        yield driver


def test_the_name_of_the_host(named: Host, driver: Driver):
    """The name is set in the kernel and in the file. Changes of either are reported, also those by `hostnamectl`."""
    assert driver.apply("hostname.system", "web1.example.org").changes == {"hostname": "web1.example.org"}
    assert named.read("/etc/hostname") == "web1.example.org\n"
    assert named.read("/proc/sys/kernel/hostname") == "web1.example.org\n"
    assert named.run("hostnamectl", "--static").stdout == "web1.example.org\n"
    assert driver.apply("hostname.system", "web1.example.org").right
    watch = driver.watch("hostname.system", "web1.example.org")
    for damage in ("hostname x", "echo x >/etc/hostname", "hostnamectl hostname y", "rm /etc/hostname"):
        watch.quiet()
        named.sh(damage)
        watch.wait()
        assert not driver.apply("hostname.system", "web1.example.org").right, damage
    assert not driver.apply("hostname.system", "named").right


def test_files_that_a_container_is_given(named: Host, driver: Driver):
    """A mount point is written in place. The error for a read-only mount point, or for a link, says why this fails."""
    named.sh("echo given >/root/given; cp /usr/share/zoneinfo/UTC /root/zone")
    named.sh("rm /etc/localtime; touch /etc/localtime")
    named.sh("mount --bind /root/given /etc/hostname; mount --bind /root/zone /etc/localtime")
    try:
        driver.apply("hostname.system", "web2")
        assert named.read("/root/given") == "web2\n"
        assert driver.apply("hostname.system", "web2").right
        with pytest.raises(Failed, match="cannot link /etc/localtime: it is in use, or something is mounted there"):
            driver.apply("timezone.system", "Europe/Berlin")
        named.sh("mount -o remount,bind,ro /etc/hostname")
        with pytest.raises(Failed, match="cannot write /etc/hostname: the file system is read-only"):
            driver.apply("hostname.system", "web3")
    finally:
        named.sh("umount /etc/hostname /etc/localtime; ln -sf /usr/share/zoneinfo/Etc/UTC /etc/localtime")
        driver.apply("hostname.system", "named")


def test_the_time_zone(named: Host, driver: Driver):
    """The link and the file of the name are replaced; a copy of the zone's file is accepted."""
    assert driver.apply("timezone.system", "Europe/Berlin").changes == {"timezone": "Europe/Berlin"}
    assert named.run("timedatectl", "show", "--property=Timezone").stdout == "Timezone=Europe/Berlin\n"
    assert named.read("/etc/timezone") == "Europe/Berlin\n"
    assert driver.apply("timezone.system", "Europe/Berlin").right
    watch = driver.watch("timezone.system", "Europe/Berlin")
    for damage in (
        "ln -sfn /usr/share/zoneinfo/UTC /etc/localtime",
        "rm /etc/localtime",
        "echo UTC >/etc/timezone",
        "timedatectl set-timezone Asia/Tokyo",
        "cp --remove-destination /usr/share/zoneinfo/UTC /etc/localtime",
    ):
        watch.quiet()
        named.sh(damage)
        watch.wait()
        assert not driver.apply("timezone.system", "Europe/Berlin").right, damage
    named.sh("cp --remove-destination /usr/share/zoneinfo/Europe/Berlin /etc/localtime")
    assert driver.apply("timezone.system", "Europe/Berlin").right
    with pytest.raises(Failed, match="there is no time zone Europe/Berlim; did you mean Europe/Berlin"):
        driver.apply("timezone.system", "Europe/Berlim")


def test_the_hardware_clock(named: Host, driver: Driver):
    """A setting for local time is corrected to UTC, unless the state says `utc: false`."""
    driver.apply("timezone.system", "Etc/UTC")
    named.sh("printf '0.0 0 0.0\\n0\\nLOCAL\\n' >/etc/adjtime")
    assert driver.apply("timezone.system", "Etc/UTC", utc=False).right
    assert driver.apply("timezone.system", "Etc/UTC").changes == {"utc": True}
    assert named.read("/etc/adjtime") == "0.0 0 0.0\n0\nUTC\n"
    assert driver.apply("timezone.system", "Etc/UTC").right


def test_a_locale_is_compiled_and_listed(named: Host, driver: Driver):
    """The line of the locale is uncommented, and the others stay.

    A locale that is missing in the archive is compiled again.
    """
    named.sh("cp -a /etc/locale.gen /root/locale.gen")
    assert driver.apply("locale.present", "de_DE.UTF-8").changes == {"locale": "de_DE.UTF-8"}
    assert "de_DE.utf8\n" in named.run("locale", "-a").stdout
    assert named.run("diff", "/root/locale.gen", "/etc/locale.gen", check=False).stdout.splitlines()[1:] == [
        "< # de_DE.UTF-8 UTF-8",
        "---",
        "> de_DE.UTF-8 UTF-8",
    ]
    assert driver.apply("locale.present", "de_DE.utf8 UTF-8").right
    watch = driver.watch("locale.present", "de_DE.UTF-8")
    for damage in ("rm /usr/lib/locale/locale-archive", "cp -a /root/locale.gen /etc/locale.gen"):
        watch.quiet()
        named.sh(damage)
        watch.wait()
        assert not driver.apply("locale.present", "de_DE.UTF-8").right, damage
    for name, told in (("xx_YY.UTF-8", "its source or character map is missing"), ("xx_YY", "character map of")):
        with pytest.raises(Failed, match=told):
            driver.apply("locale.present", name)


def test_the_default_locale(named: Host, driver: Driver):
    """Only LANG is set; services of systemd get the value at once."""
    named.sh("printf 'LC_TIME=C.UTF-8\\n' >/etc/default/locale")
    assert driver.apply("locale.system", "de_DE.UTF-8").changes == {"locale": "de_DE.UTF-8"}
    assert named.read("/etc/default/locale") == "LC_TIME=C.UTF-8\nLANG=de_DE.UTF-8\n"
    assert "LANG=de_DE.UTF-8" in named.run("systemctl", "show-environment").stdout
    assert driver.apply("locale.system", "de_DE.UTF-8").right
    watch = driver.watch("locale.system", "de_DE.UTF-8")
    watch.quiet()
    named.sh("localectl set-locale LANG=C.UTF-8")
    watch.wait()
    assert not driver.apply("locale.system", "de_DE.UTF-8").right


def test_without_systemd_and_its_bus(run: lab.Run, layers: tuple[Path, ...]):
    """With OpenRC, the same files are written and watched. A drop-in of systemd is refused with a clear error."""
    host = run.host("openrc", layers=(inits.layer(run, "openrc"), *layers), init=inits.INITS["openrc"].program)
    try:
        with Driver(host) as driver:
            names = {"hostname.system": "web1", "timezone.system": "Europe/Berlin", "locale.system": "C.UTF-8"}
            for kind, name in names.items():
                driver.apply(kind, name)
                assert driver.apply(kind, name).right, kind
            wanted = {"device": "tmpfs", "fstype": "tmpfs", "mkmnt": True}
            driver.apply("mount.mounted", "/srv/data", **wanted)
            assert driver.apply("mount.mounted", "/srv/data", **wanted).right
            watch = driver.watch("mount.mounted", "/srv/data", **wanted)
            watch.quiet()
            host.run("umount", "/srv/data")
            watch.wait()
            assert host.read("/etc/hostname") == "web1\n"
            assert host.read("/etc/timezone") == "Europe/Berlin\n"
            assert host.read("/etc/default/locale") == "LANG=C.UTF-8\n"
            assert "/srv/data" in host.read("/etc/fstab")
            with pytest.raises(Failed, match="cannot reload unit files: the init system is"):
                driver.apply("module.run", "x", **{"service.systemctl_reload": []})
    finally:
        host.down()
