"""Who requested the stop of a unit, by records of the journal."""

from __future__ import annotations

import os
import pwd
from typing import Any

import pytest

from holdfast.resources.stop_requests import POLKIT, STARTED, STOPPING, asked, stops

ME, UID = pwd.getpwuid(os.getuid()).pw_name, str(os.getuid())
UNIT = "toy.service"
OTHER = next(each for each in pwd.getpwall() if each.pw_uid != os.getuid())


def by_sudo(at: float, command: str = "/usr/bin/systemctl stop toy", name: str = ME, **fields: str) -> dict[str, Any]:
    """Return sudo's record of a command."""
    text = f"{name:>8} : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND={command}"
    return {"__REALTIME_TIMESTAMP": str(int(at * 1e6)), "MESSAGE": text, "_UID": UID, **fields}


def by_polkit(at: float, command: str = "systemctl stop toy", owner: str = "ann", **fields: str) -> dict[str, Any]:
    """Return polkit's record that a user has given a password, as version 122 writes it."""
    text = (
        "Operator of unix-process:398:516628 successfully authenticated as unix-user:root to gain ONE-SHOT "
        "authorization for action org.freedesktop.systemd1.manage-units for system-bus-name::1.9 "
        f"[{command}] (owned by unix-user:{owner})"
    )
    return {"__REALTIME_TIMESTAMP": str(int(at * 1e6)), "MESSAGE": text, "_SYSTEMD_UNIT": POLKIT, "_UID": "9", **fields}


def by_systemd(at: float, message_id: str = STOPPING) -> dict[str, Any]:
    """Return systemd's record of a unit."""
    return {"__REALTIME_TIMESTAMP": str(int(at * 1e6)), "MESSAGE_ID": message_id, "MESSAGE": "x", "_UID": "0"}


def test_the_user_is_named_who_ran_the_command_just_before_the_stop() -> None:
    """The text has the time. Records before and after do not matter."""
    found = asked([by_systemd(1, STARTED), by_sudo(9.9), by_systemd(10), by_sudo(11)], UNIT)

    assert found.startswith(f"; {ME} asked for it by sudo at ")


@pytest.mark.parametrize("command", ["systemctl stop toy", "systemctl stop toy # ] (owned by unix-user:bob)"])
def test_the_user_is_named_who_gave_a_password_to_polkit(command: str) -> None:
    """The user is neither the owner of the password nor a user that the process names in its command line."""
    late = by_polkit(10.1, command, _SOURCE_REALTIME_TIMESTAMP="9900000")  # after systemd's record
    found = asked([by_systemd(1, STARTED), by_systemd(10), late], UNIT)

    assert found.startswith("; ann asked for it by polkit at ")


@pytest.mark.parametrize(
    "records",
    [
        [],
        [by_sudo(9.9)],
        [by_systemd(10)],
        [by_sudo(1), by_systemd(10)],
        [by_systemd(10), by_sudo(10.1)],
        [by_sudo(9.9), by_systemd(10), by_systemd(11, STARTED)],
        [by_sudo(8.5), by_systemd(8.6), by_systemd(9, STARTED), by_systemd(10)],
        [by_sudo(9.9, "/usr/bin/systemctl stop other"), by_systemd(10)],
        [by_sudo(9.9, name=OTHER.pw_name), by_systemd(10)],
        [by_sudo(9.9), by_sudo(9.95, name=OTHER.pw_name, _UID=str(OTHER.pw_uid)), by_systemd(10)],
        [by_sudo(9.9, MESSAGE=f"{ME} : command not allowed ; COMMAND=/usr/bin/systemctl stop toy"), by_systemd(10)],
        [by_sudo(9.9, MESSAGE=f"{ME} : PWD=/tmp/ ; COMMAND=systemctl stop toy ; COMMAND=/bin/ls"), by_systemd(10)],
        [by_sudo(9.9, "/bin/rm 1 ; COMMAND=systemctl stop toy"), by_systemd(10)],
        [by_sudo(9.9, _UID="x"), by_systemd(10)],
        [{**by_sudo(9.9), "MESSAGE": [1, 2]}, by_systemd(10)],
        [by_sudo(9.9, MESSAGE=f"{ME} : " + "A= ; " * 2000), by_systemd(10)],
        [by_polkit(9.9, _SYSTEMD_UNIT="session-1.scope"), by_systemd(10)],
        [by_polkit(9.9, "systemctl restart toy"), by_systemd(10)],
        [by_polkit(9.9, "gnome-control-center"), by_systemd(10)],
        [by_polkit(9.9, "systemctl 'stop toy"), by_systemd(10)],
        [by_polkit(9.9), by_polkit(9.95, owner="bob"), by_systemd(10)],
        [by_polkit(9.9), by_sudo(9.95), by_systemd(10)],
        [by_polkit(9.9, MESSAGE="Registered Authentication Agent for unix-process:398:516628"), by_systemd(10)],
    ],
    ids=[
        *("nothing", "no stop", "no sudo", "long before", "after", "started since", "an earlier stop", "another unit"),
        *("in the name of another", "two users", "refused"),
        *("a command in the name of a directory", "a command in the name of a file"),
        *("no number", "bytes", "made to take years"),
        *("in the name of polkit", "a restart", "another program", "no command line", "two users by polkit"),
        *("polkit and sudo", "another record of polkit"),
    ],
)
def test_otherwise_nobody_is_named(records: list[dict[str, Any]]) -> None:
    """A wrong name would be worse than none."""
    assert asked(records, UNIT) == ""


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("/usr/bin/systemctl stop toy", True),
        ("/bin/systemctl --no-block stop other toy.service", True),
        ("/usr/bin/systemctl disable --now toy", True),
        ("/usr/sbin/service toy stop", True),
        ("/usr/bin/systemctl --host=db1 stop toy", False),
        ("/usr/bin/systemctl stop toy -Mdb1", False),
        ("/usr/bin/systemctl --user stop toy", False),
        ("/usr/bin/systemctl disable toy", False),
        ("/usr/bin/systemctl status toy", False),
        ("/usr/sbin/service toy status", False),
        ("/usr/sbin/service stop", False),
        ("/usr/bin/systemctl", False),
        ("/bin/echo systemctl stop toy", False),
        ("/bin/sh -c 'systemctl stop toy", False),
        ("", False),
    ],
)
def test_commands_that_stop_a_unit_are_recognised(command: str, does: bool) -> None:
    """A command is recognised by its program and its arguments."""
    assert stops(command, UNIT) is does
