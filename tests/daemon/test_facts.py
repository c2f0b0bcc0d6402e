"""Grains have Salt's names and values, and reading them needs no network."""

import json
import socket
from pathlib import Path

import pytest

from effort import effort
from holdfast.agent import facts
from holdfast.agent.settings import Settings
from holdfast.states.errors import CompileError

RELEASES = {
    "debian": (
        'NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n',
        ("Debian", "Debian", "Debian GNU/Linux", "12", 12, "bookworm", "Debian-12"),
    ),
    "ubuntu": (
        'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\nVERSION_CODENAME=jammy\n',
        ("Ubuntu", "Debian", "Ubuntu", "22.04", 22, "jammy", "Ubuntu-22.04"),
    ),
    "rocky": (
        (
            'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.3"\n'
            'PRETTY_NAME="Rocky Linux 9.3 (Blue Onyx)"\n'
        ),
        ("Rocky", "RedHat", "Rocky Linux", "9.3", 9, "Rocky Linux 9.3 (Blue Onyx)", "Rocky Linux-9"),
    ),
    "alpine": (
        'NAME="Alpine Linux"\nID=alpine\nVERSION_ID=3.19.1\nPRETTY_NAME="Alpine Linux v3.19"\n',
        ("Alpine", "Alpine", "Alpine Linux", "3.19.1", 3, "Alpine Linux v3.19", "Alpine Linux-3"),
    ),
}


@pytest.mark.parametrize("name", RELEASES)
def test_grains_of_a_distribution(tmp_path, name):
    """States written for Salt depend on these values."""
    text, expected = RELEASES[name]
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(text)

    found = facts.GrainParts(tmp_path).read()

    names = ("os", "os_family", "osfullname", "osrelease", "osmajorrelease", "oscodename", "osfinger")
    assert tuple(found[n] for n in names) == expected


@pytest.mark.parametrize(
    ("command", "init"),
    [("init", "sysvinit"), ("runit", "runit"), ("runsvdir", "runit"), ("openrc-init", "openrc"), ("tini", "tini")],
)
def test_init_is_named_as_in_salt(tmp_path, command, init):
    """By the command of PID 1; runsvdir is often the first process of a container."""
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/comm").write_text(f"{command}\n")

    assert facts.GrainParts(tmp_path).read()["init"] == init


def test_names_come_from_the_hosts_file(tmp_path):
    """The domain is read from /etc/hosts, not from the network."""
    (tmp_path / "etc").mkdir()
    short = socket.gethostname().partition(".")[0]
    (tmp_path / "etc/hosts").write_text(f"127.0.0.1 localhost\n10.0.0.9 {short}.example.org {short} # me\n")

    found = facts.GrainParts(tmp_path).read()

    assert (found["host"], found["fqdn"], found["domain"]) == (short, f"{short}.example.org", "example.org")


def test_the_version_of_systemd_is_read_from_a_file_name(tmp_path):
    """No command runs: the name of a library has the version."""
    (tmp_path / "usr/lib/systemd").mkdir(parents=True)
    (tmp_path / "usr/lib/systemd/libsystemd-shared-252.so").touch()

    assert facts.GrainParts(tmp_path).read()["systemd"]["version"] == "252"


def test_an_empty_root_has_grains(tmp_path):
    """A root without any of the files gives grains that are JSON."""
    assert json.loads(json.dumps(facts.GrainParts(tmp_path).read()))["os"] == "Linux"


def test_the_version_of_salt_is_that_of_the_language(tmp_path):
    """Formulas ask for it, as text and as a list of numbers."""
    found = facts.GrainParts(tmp_path).read()

    assert found["saltversion"] == "3007.17"
    assert found["saltversioninfo"] == [3007, 17]


def test_grains_take_little_cpu_time():
    """Each one-shot run reads them, so this takes milliseconds, imports aside."""
    facts.GrainParts(Path("/")).read()

    assert effort(lambda: facts.GrainParts(Path("/")).read(), 0.5) < 0.5


def test_grains_of_the_settings_take_precedence(tmp_path):
    """The order is: agent.yaml, the grains file, the host."""
    tmp_path.chmod(0o755)
    file = tmp_path / "grains"
    file.write_text("roles: [web]\nos: Mine\nsite: a\n")
    file.chmod(0o644)

    found = facts.gather(Settings(grains_file=file, grains={"site": "b"}, id="web1"))

    assert (found["roles"], found["os"], found["site"], found["id"]) == (["web"], "Mine", "b", "web1")


def test_id_is_the_full_name_by_default(tmp_path):
    """A host without settings has an ID."""
    found = facts.gather(Settings(grains_file=tmp_path / "none"))

    assert found["id"] == found["fqdn"]


def test_a_file_of_grains_replaces_all_grains_of_the_host(tmp_path):
    """States can be compiled for another host, without any fact of this one."""
    tmp_path.chmod(0o755)
    file = tmp_path / "grains.json"
    file.write_text('{"os": "Plan9", "fqdn": "far.example.org"}')

    assert facts.stand_in(file, Settings()) == {"os": "Plan9", "fqdn": "far.example.org", "id": "far.example.org"}
    assert facts.stand_in(file, Settings(id="near"))["id"] == "near"


def test_a_wrong_grains_file_is_an_error_with_its_line(tmp_path):
    """The error is like that of any other file."""
    tmp_path.chmod(0o755)
    file = tmp_path / "grains"
    file.write_text("a: 1\na: 2\n")

    with pytest.raises(CompileError) as caught:
        facts.gather(Settings(grains_file=file))

    assert (caught.value.problems[0].location.file, caught.value.problems[0].location.line) == (str(file), 2)
