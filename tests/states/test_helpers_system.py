"""Calls of templates that read the running system, or search for files and lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.states.errors import CompileError
from holdfast.states.helpers import system
from holdfast.states.template.jinja import render_text

GRAINS = {"id": "web1", "os_family": "Debian", "init": "systemd", "saltversion": "3007.1"}


def render(expression: str, **grains: str) -> str:
    """Return the value of an expression as text."""
    return render_text(f"{{{{ {expression} }}}}", name="x", variables={}, grains={**GRAINS, **grains}, pillar={})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("salt['timezone.get_offset']() | length", "5"),
        ("salt['timezone.get_zonecode']() != ''", "True"),
        ("salt['status.time']('%Y') | int > 2000", "True"),
        ("salt['status.nproc']() > 0", "True"),
        ("salt['status.loadavg']() | list | sort", "['1-min', '15-min', '5-min']"),
        ("salt['status.uptime']().seconds > 0", "True"),
        ("salt['mount.active']()['/proc'].fstype", "proc"),
        ("salt['mount.is_mounted']('/proc')", "True"),
        ("salt['mount.is_mounted']('/nonesuch')", "False"),
        ("salt['sysctl.get']('kernel.ostype')", "Linux"),
        ("salt['sysctl.get']('no.such')", ""),
        ("salt['sysctl.get']('../../etc/hostname')", ""),
        ("salt['network.interfaces']().lo.inet[0].netmask", "255.0.0.0"),
        ("salt['network.hw_addr']('lo')", "00:00:00:00:00:00"),
        ("salt['network.hw_addr']('nonesuch')", ""),
        ("salt['test.provider']('service')", "systemd_service"),
        ("salt['test.provider']('pkg')", "aptpkg"),
        ("salt['test.provider']('user')", "useradd"),
        ("salt['test.provider']('test')", "test"),
        ("salt['test.version']()", "3007.1"),
    ],
)
def test_calls_about_the_system_return_values_like_salt(expression, value):
    """The keys and the texts are those of Salt."""
    assert render(expression) == value


def test_the_provider_depends_on_the_grains():
    """The grains may be those of another host."""
    assert render("salt['test.provider']('pkg')", os_family="Alpine") == "apkpkg"
    assert render("salt['test.provider']('service')", init="openrc", os_family="Alpine") == "gentoo_service"


def test_the_time_zone_is_read_from_a_link_or_a_file(tmp_path, monkeypatch):
    """Distributions differ. Without both, the zone is UTC."""
    monkeypatch.setattr(system, "LOCALTIME", tmp_path / "localtime")
    monkeypatch.setattr(system, "TIMEZONE", tmp_path / "timezone")
    assert render("salt['timezone.get_zone']()") == "UTC"

    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert render("salt['timezone.get_zone']()") == "Asia/Tokyo"

    (tmp_path / "localtime").symlink_to("/nonesuch/zoneinfo/Europe/Berlin")
    assert render("salt['timezone.get_zone']()") == "Europe/Berlin"


def test_fstab_is_read_without_its_comments(tmp_path):
    """A space in a path is an octal escape."""
    (tmp_path / "fstab").write_text(
        "# all of it\n/dev/sda1 / ext4 rw,noatime 0 1\n/dev/sdb /my\\040data xfs defaults # more\nbroken\n"
    )
    table = f"salt['mount.fstab']('{tmp_path}/fstab')"

    assert render(f"{table} | list") == "['/', '/my data']"
    assert (
        render(f"{table}['/'] | json")
        == '{"device": "/dev/sda1", "dump": "0", "fstype": "ext4", "opts": ["rw", "noatime"], "pass": "1"}'
    )
    assert render("salt['mount.fstab']('/nonesuch')") == "{}"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a directory with some files, and a link to one of them."""
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("x.conf", "a/Y.conf", "a/b/z"):
        (tmp_path / name).write_text("A=1\nb=2\n")
    (tmp_path / "link").symlink_to("x.conf")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", ". a a/Y.conf a/b a/b/z link x.conf"),
        (", type='f'", "a/Y.conf a/b/z link x.conf"),
        (", type='l'", "link"),
        (", type='d', mindepth=1", "a a/b"),
        (", name='*.conf'", "a/Y.conf x.conf"),
        (", iname='y*'", "a/Y.conf"),
        (", regex='[xz]'", "a/b/z x.conf"),
        (", iregex='Z'", "a/b/z"),
        (", maxdepth=1", ". a link x.conf"),
        (", maxdepth=0", "."),
        (", mindepth=2, maxdepth=2", "a/Y.conf a/b"),
    ],
)
def test_find_returns_the_paths_that_match_all_options(files, options, found):
    """The paths are sorted; the start path has depth 0."""
    wanted = [str(files / name) for name in found.split()]

    assert render(f"salt['file.find']('{files}'{options})") == str(wanted)


def test_find_returns_paths_names_or_both(files):
    """A glob may match several start paths."""
    assert render(f"salt['file.find']('{files}/*.conf', print='name')") == "['x.conf']"
    assert render(f"salt['file.find']('{files}/x*', print='name,path')") == str([["x.conf", f"{files}/x.conf"]])
    assert render("salt['file.find']('/nonesuch')") == "[]"


@pytest.mark.parametrize(
    "use",
    [
        "salt['file.find']('/tmp', delete='f')",
        "salt['file.find']('/tmp', exec='rm {}')",
        "salt['file.grep']('/x', 'a', '-i -E')",
    ],
)
def test_options_that_find_and_grep_lack_are_refused(use):
    """Options that change files are the most important ones."""
    with pytest.raises(CompileError, match=r"file\.find has no option|an argument of its own"):
        render(use)


def test_grep_returns_the_output_of_the_program(files):
    """The result has the lines and the exit code."""
    path = f"{files}/x.conf"

    assert render(f"salt['file.grep']('{path}', '^b=').stdout") == "b=2"
    assert render(f"salt['file.grep']('{path}', '^a=', '-i').stdout") == "A=1"
    assert render(f"salt['file.grep']('{path}', '-z').retcode") == "1"
    assert "No such file" in render("salt['file.grep']('/nonesuch', 'x').stderr")


def test_a_missing_grep_is_an_error_that_names_the_program(files, monkeypatch):
    """The message is not that of the system."""
    monkeypatch.setenv("PATH", "/nonesuch")

    with pytest.raises(CompileError, match="needs the program grep"):
        render(f"salt['file.grep']('{files}/x.conf', 'a')")
