"""Finds who asked systemd to stop a unit, if a record of sudo or polkit in the journal shows it.

Nothing else records this: logind does not, and systemd records only that the stop begins. polkit records what a user
was allowed to do after giving a password, but not what its rules allow without a password.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.resources.accounts import user_name
from holdfast.resources.errors import HoldfastError
from holdfast.resources.visible import escaped

if TYPE_CHECKING:
    from holdfast.resources.context import Context

STOPPING = "de5b426a63be47a7b6ac3eaac82e2f6f"
"""MESSAGE_ID of systemd's record that a unit is being stopped."""
STARTED = "39f53479d3a045ac8e11786248231fbf"
"""MESSAGE_ID of systemd's record that a unit was started."""
LONGEST = 100.0
"""Greatest duration of a stop in seconds: somewhat more than systemd's own limit."""
SHORTLY = 2.0
"""Seconds within which systemd begins the stop after sudo has written its record."""
LINES, TIMEOUT = 200, 3.0
"""Most records that are read; seconds within which that must be done."""
SUDO = "/usr/bin/sudo"
"""The path of the program that wrote a record, which the kernel knows: anyone may have a program with the name
`sudo`."""
FIELDS = re.compile(r"(?:[A-Z]+=.* ; )?")
"""The text between the user and the command in sudo's record of a command that it runs; records of refused commands
differ. Users can choose parts of the text, so a match must take time in proportion to its length.
"""
POLKIT = "polkit.service"
"""The unit of polkit. journald asks the kernel for the control group of a writer; only polkit is in that of this
unit."""
AUTHENTICATED = re.compile(
    r"Operator of \S+ successfully authenticated as \S+ to gain \S+ authorization for action "
    r"org\.freedesktop\.systemd1\.manage-units for \S+ \[(?P<command>.*)\] \(owned by unix-user:(?P<user>[^()]+)\)"
)
"""polkit's record that a user may do something with units. The kernel knows the owner of the process, at the end of the
record; the process may have chosen its command line itself."""
ELSEWHERE = ("-H", "-M", "--host", "--machine", "--user", "--global", "--root", "--image")
"""Options with which systemctl does not ask the system manager of this host."""

Record = Mapping[str, Any]


async def stop_request(ctx: Context, unit: str, before: float) -> str:
    """Return who asked for the last stop of a unit before a Unix time, as the end of a sentence; empty if unknown.

    A user is named only if the journal shows that this user ran `systemctl stop UNIT`, or the like, through sudo, or
    gave a password to polkit for it, just before systemd began the stop.
    """
    argv = ("--output=json", "--no-pager", "--quiet", f"--lines={LINES}")
    span = (f"--since=@{before - LONGEST - SHORTLY:.6f}", f"--until=@{before:.6f}")
    by_systemd, by_sudo = (f"UNIT={unit}", "_PID=1"), ("SYSLOG_IDENTIFIER=sudo", f"_EXE={SUDO}")
    wanted = (*by_systemd, "+", *by_sudo, "+", f"_SYSTEMD_UNIT={POLKIT}")
    try:
        done = await ctx.run("journalctl", *argv, *span, *wanted, check=False, timeout=TIMEOUT)
    except (HoldfastError, OSError):
        return ""
    return asked(list(_records(done.stdout)), unit)


def asked(records: list[Record], unit: str) -> str:
    """Return who asked for the last stop of a unit in these records of the journal."""
    records = sorted(records, key=_time)  # journalctl prints them in the order in which they arrived
    events = [index for index, each in enumerate(records) if each.get("MESSAGE_ID") in (STOPPING, STARTED)]
    if not events or records[events[-1]]["MESSAGE_ID"] != STOPPING:
        return ""
    begun, since = _time(records[events[-1]]), events[-2] if len(events) > 1 else 0
    close = [each for each in records[since : events[-1]] if _time(each) >= begun - SHORTLY]
    found = {who[0]: (who[1], _time(each)) for each in close if (who := _who(each, unit))}
    if len(found) != 1:
        return ""
    ((name, (way, at)),) = found.items()
    return f"; {escaped(name)} asked for it by {way} at {time.strftime('%H:%M:%S', time.localtime(at))}"


def _records(text: str) -> Iterator[Record]:
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # cut off
            continue
        if isinstance(record, dict):
            yield record


def _time(record: Record) -> float:
    """Return the Unix time at which the kernel has taken a record or, if it is not known, at which it was written."""
    return int(record.get("_SOURCE_REALTIME_TIMESTAMP") or record.get("__REALTIME_TIMESTAMP", 0)) / 1e6


def _who(record: Record, unit: str) -> tuple[str, str] | None:
    """Return the user who asked for the stop, and by what; None if it is another record."""
    if record.get("_SYSTEMD_UNIT") == POLKIT:
        found = AUTHENTICATED.fullmatch(str(record.get("MESSAGE")))
        return (found["user"], "polkit") if found and stops(found["command"], unit) else None
    name = _by_sudo(record, unit)
    return (name, "sudo") if name else None


def _by_sudo(record: Record, unit: str) -> str:
    """Return the user who asked for the stop, by a record of sudo; empty if it is another record.

    The kernel knows the user that wrote the record, so no user can write it in the name of another. The record also
    contains names of directories and files, which other users may have chosen, so a record with two commands is
    ignored.
    """
    head, *commands = str(record.get("MESSAGE")).split("COMMAND=")
    name, _, fields = head.lstrip().partition(" : ")
    if record.get("MESSAGE_ID") or len(commands) != 1 or not FIELDS.fullmatch(fields):
        return ""
    uid = str(record.get("_UID"))
    return name if uid.isdecimal() and name == user_name(int(uid)) and stops(commands[0], unit) else ""


def stops(command: str, unit: str) -> bool:
    """Return whether a command line asks systemd to stop a unit."""
    try:
        program, *words = shlex.split(command)
    except ValueError:
        return False
    tool = program.rpartition("/")[2]
    plain = [word for word in words if not word.startswith("-")]
    if tool == "service":
        return plain[1:2] == ["stop"] and unit == f"{plain[0]}.service"
    if tool != "systemctl" or not plain or any(word.startswith(ELSEWHERE) for word in words):
        return False
    now = plain[0] in ("disable", "mask") and "--now" in words
    return (now or plain[0] == "stop") and bool({unit, unit.removesuffix(".service")} & {*plain[1:]})
