"""Rules for the real sudo: a user may run exactly what is declared, and no wrong rule is ever put in place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import repairs
from driver import Driver, Failed
from lab import Host, Run

pytestmark = pytest.mark.lab

SOON = 1.0
"""Seconds for the best of several repairs."""
STATES = """
kept:
  sudoers.include:
    - contents: "alice ALL = (root) NOPASSWD: /bin/echo kept"
"""
FILE = "/etc/sudoers.d/kept"


@pytest.fixture(scope="module")
def kept(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """Return a host whose agent keeps one rule."""
    with repairs.kept(run, layers, STATES, "useradd -m alice") as host:
        yield host


def may(host: Host, command: str) -> bool:
    """Return whether alice may run a command as root, without a password."""
    return host.run("su", "alice", "-c", f"sudo -n {command}", check=False).returncode == 0


def test_a_user_may_run_what_is_declared(kept: Host):
    """From nothing, again without a change; a plan changes nothing."""
    rules = "alice ALL = (root) NOPASSWD: /bin/true"
    with Driver(kept) as driver:
        assert not driver.plan("sudoers.include", "operators", contents=rules).right
        assert not may(kept, "/bin/true")
        assert not driver.apply("sudoers.include", "operators", contents=rules).right
        assert kept.sh("stat -c '%U:%G %a' /etc/sudoers.d/operators") == "root:root 440\n"
        assert may(kept, "/bin/true")
        assert not may(kept, "/bin/cat /etc/shadow")
        assert driver.apply("sudoers.include", "operators", contents=rules).right


def test_wrong_rules_never_reach_sudo(kept: Host):
    """Neither by this kind, nor by `check_cmd` of file.managed, as formulas have it; the former file stays."""
    with Driver(kept) as driver:
        driver.apply("sudoers.include", "operators", contents="User_Alias A = alice")
        for contents in ("alice ALL = (root", "alice ALL = NOPASSWD /bin/x\n\0"):
            with pytest.raises(Failed, match=r"cannot put /etc/sudoers.d/operators in place: visudo: "):
                driver.apply("sudoers.include", "operators", contents=contents)
        with pytest.raises(Failed, match=r"cannot keep /etc/sudoers.d/second: visudo: .*already defined"):
            driver.apply("sudoers.include", "second", contents="User_Alias A = bob")
        with pytest.raises(Failed, match=r"check_cmd '/usr/sbin/visudo -c -f' refuses the new content"):
            driver.apply("file.managed", "/etc/sudoers", contents="nonsense here", check_cmd="/usr/sbin/visudo -c -f")
    assert kept.read("/etc/sudoers.d/operators") == "User_Alias A = alice\n"
    assert kept.sh("ls /etc/sudoers.d").split() == ["README", "kept", "operators"]
    assert kept.run("visudo", "-c").returncode == 0


def test_a_directory_that_sudo_does_not_include_is_told(kept: Host):
    """The file is put in place, and the log says that it has no effect."""
    kept.sh("mkdir /etc/other.d")
    with Driver(kept) as driver:
        assert not driver.apply("sudoers.include", "found", contents="# nothing").right
        driver.apply("sudoers.include", "lost", contents="alice ALL = ALL", directory="/etc/other.d")
        driver.logged("sudo does not read the file")
        assert [line for line in driver.log if "does not read" in line and "/etc/sudoers.d/found" in line] == []


def test_a_rule_is_put_back_at_once(kept: Host):
    """The agent repairs an edited rule, modes that sudo refuses, and a removed file, by inotify."""
    right = f"text({FILE!r}).endswith('/bin/echo kept\\n') and os.stat({FILE!r}).st_mode & 0o777 == 0o440"
    for damage in (f"echo 'alice ALL = NOPASSWD: ALL' >{FILE}", f"chmod 666 {FILE}", f"rm {FILE}"):
        assert repairs.repair_times(kept, damage, right)[0] < SOON, damage
    assert may(kept, "/bin/echo kept")
