"""Commands of templates and guards as another user: groups, environment and access to directories of that user."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from holdfast.states.helpers.commands import _run
from holdfast.states.view.host_view import HostView

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
NAME = "nobody"


def said(command: str, **options: object) -> str:
    """Return the output of a command."""
    view = HostView({}, {}, {"template_commands": True}, "x")
    done = _run(view, command, runas=NAME, **options)  # type: ignore[arg-type]
    return (done.stdout + done.stderr).strip()


def test_the_command_has_only_groups_of_the_user():
    """No group of root remains."""
    who = pwd.getpwnam(NAME)
    assert said("id -u; id -G").split() == [
        str(number) for number in (who.pw_uid, *sorted({who.pw_gid, *os.getgrouplist(NAME, who.pw_gid)}))
    ]


def test_the_command_does_not_inherit_the_environment_of_the_agent(monkeypatch):
    """That environment may contain secrets."""
    monkeypatch.setenv("DB_PASSWORD", "secret")
    assert "secret" not in said("env")
    assert said("echo $GIVEN", env={"GIVEN": "x"}) == "x"


def test_a_directory_that_the_user_cannot_enter_is_not_entered(tmp_path: Path):
    """Root could enter the directory."""
    tmp_path.chmod(0o700)
    assert "denied" in said("pwd", cwd=str(tmp_path)) or "can't cd" in said("pwd", cwd=str(tmp_path))
    assert said("pwd", cwd="/usr") == "/usr"


def test_an_unknown_user_is_an_error():
    """The message names the user."""
    with pytest.raises(ValueError, match="there is no user no-such"):
        _run(HostView({}, {}, {"template_commands": True}, "x"), "true", runas="no-such")


def test_a_command_of_the_agent_does_not_get_the_home_of_another_user(tmp_path: Path, monkeypatch):
    """Tools would obey the settings there as root."""
    os.chown(tmp_path, pwd.getpwnam(NAME).pw_uid, -1)
    monkeypatch.setenv("HOME", str(tmp_path))
    done = _run(HostView({}, {}, {"template_commands": True}, "x"), "echo $HOME")
    assert done.stdout.strip() == pwd.getpwuid(0).pw_dir
