"""Calls read other hosts, and names, alternatives and git checkouts of this host."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from holdfast.states.errors import CompileError
from holdfast.states.helpers import others
from holdfast.states.template.jinja import render_text


def render(expression: str, **grains: str) -> str:
    """Return the value of an expression as text."""
    return render_text(f"{{{{ {expression} }}}}", name="x", variables={}, grains={"id": "web1", **grains}, pillar={})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("salt['mine.get']('*', 'network.ip_addrs')", "{}"),
        ("salt['mine.get']('roles:db', 'x', tgt_type='grain', exclude_minion=true)", "{}"),
        ("salt['publish.publish']('*', 'test.ping')", "{}"),
        ("salt['publish.full_data']('*', 'test.ping', timeout=1)", "{}"),
        ("salt['publish.runner']('manage.up')", "No access to master. If using salt-call with --local, please remove."),
        ("salt['network.ip_in_subnet']('172.17.0.4', '172.16.0.0/12')", "True"),
        ("salt['network.ip_in_subnet']('10.0.0.1', '172.16.0.0/12')", "False"),
        ("salt['network.ip_in_subnet']('10.0.0.1', 'nonsense')", "False"),
        ("salt['dnsutil.serial']('example.org') | length", "10"),
        ("salt['alternatives.show_current']('nonesuch')", "False"),
    ],
)
def test_calls_to_other_hosts_return_what_masterless_salt_returns(expression, value):
    """The values are those of Salt's source."""
    assert render(expression) == value


def test_a_dns_serial_is_read_from_a_grain_and_not_stored():
    """Templates change nothing."""
    assert render("salt['dnsutil.serial']('example.org')", **{"dnsserial_example.org": "2020010107"}) == "2020010107"
    with pytest.raises(CompileError, match="templates change nothing"):
        render("salt['dnsutil.serial']('example.org', update=true)")


def test_an_alternative_is_the_target_of_its_link(tmp_path: Path, monkeypatch):
    """Only one link is read, as in Salt."""
    (tmp_path / "editor").symlink_to("/usr/bin/vim.basic")
    monkeypatch.setattr(others, "ALTERNATIVES", str(tmp_path))

    assert render("salt['alternatives.show_current']('editor')") == "/usr/bin/vim.basic"


def test_hosts_are_listed_in_the_form_of_salt(tmp_path: Path, monkeypatch):
    """The names of one address are in one list, with comments beside them."""
    file = tmp_path / "hosts"
    file.write_text("# first\n127.0.0.1 localhost\n\n10.0.0.1 db db.example.org # the one\n10.0.0.1 old\n")
    file.chmod(0o644)
    monkeypatch.setattr(others, "HOSTS", str(file))

    assert render("salt['hosts.list_hosts']()") == str(
        {
            "comment-0": ["# first"],
            "127.0.0.1": {"aliases": ["localhost"]},
            "10.0.0.1": {"aliases": ["db", "db.example.org", "old"], "comment": "the one"},
        }
    )
    assert render("salt['hosts.get_ip']('db')") == "10.0.0.1"
    assert render("salt['hosts.get_alias']('10.0.0.1')") == "['db', 'db.example.org', 'old']"
    assert render("salt['hosts.has_pair']('10.0.0.1', 'db')") == "True"
    assert render("salt['hosts.has_pair']('10.0.0.2', 'db')") == "False"


def test_the_branch_of_a_checkout(tmp_path: Path):
    """The branch is found from a subdirectory and in a worktree. A directory without a checkout is an error."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path / "repo")]
    subprocess.run(["git", "init", "-q", "-b", "fix/one", str(tmp_path / "repo")], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    (tmp_path / "repo" / "deep").mkdir()
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "second"), "-b", "two"], check=True)

    assert render(f"salt['git.current_branch']('{tmp_path}/repo/deep')") == "fix/one"
    assert render(f"salt['git.current_branch']('{tmp_path}/second')") == "two"
    subprocess.run([*git, "checkout", "-q", "--detach"], check=True)
    assert render(f"salt['git.current_branch']('{tmp_path}/repo', user='nobody')") == "HEAD"
    with pytest.raises(CompileError, match="not a checkout of git"):
        render("salt['git.current_branch']('/proc')")


@pytest.fixture
def dig(tmp_path: Path, monkeypatch) -> Path:
    """Install a `dig` in the PATH that records its arguments."""
    program = tmp_path / "dig"
    program.write_text('#!/bin/sh\necho "$@" >"$0.asked"\necho alias.example.org.\necho 192.0.2.7\necho 2001:db8::7\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


def test_dig_returns_only_addresses(dig: Path):
    """A name is passed as an argument, even if it looks like an option."""
    assert render("salt['dig.A']('-f/etc/shadow', '192.0.2.1')") == "['192.0.2.7', '2001:db8::7']"
    assert Path(f"{dig}.asked").read_text() == "+short -q -f/etc/shadow -t A @192.0.2.1\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_dig_does_not_read_the_settings_of_another_user(dig: Path, tmp_path: Path, monkeypatch):
    """The settings are in `HOME`, which may belong to the user who became root."""
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", 65534, -1)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    dig.write_text('#!/bin/sh\necho "$HOME" >"$0.asked"\n')

    render("salt['dig.A']('x')")

    assert Path(f"{dig}.asked").read_text().strip() == pwd.getpwuid(0).pw_dir


def test_a_dig_that_fails_or_hangs_returns_no_addresses(dig: Path, monkeypatch):
    """Salt returns the same, and the compiler waits for a limited time."""
    dig.write_text("#!/bin/sh\necho 192.0.2.7\nexit 9\n")
    assert render("salt['dig.AAAA']('x')") == "[]"
    monkeypatch.setattr(others, "TIMEOUT", 0.1)
    dig.write_text("#!/bin/sh\nexec sleep 60\n")
    assert render("salt['dig.A']('x')") == "[]"


def test_a_missing_dig_is_an_error_that_names_the_program(monkeypatch, tmp_path: Path):
    """Salt has no such call without the program."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(CompileError, match="needs the program dig, which is not installed"):
        render("salt['dig.A']('x')")


@pytest.mark.parametrize(("options", "name"), [({}, "HOLDFAST"), ({"salt_names": True}, "SALT")])
def test_a_banner_names_holdfast_or_salt(options, name):
    """A setting keeps Salt's names."""
    text = render_text("{{ salt['slsutil.banner']() }}", name="x", variables={}, grains={}, pillar={}, options=options)

    assert f"THIS FILE IS MANAGED BY {name} - DO NOT EDIT" in text
