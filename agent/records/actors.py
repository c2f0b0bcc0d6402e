"""Actors: the processes that requested something of the agent or changed something, as records and as text."""

from __future__ import annotations

import os
import pwd
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.resources.accounts import user_name
from holdfast.resources.author import NO_LOGIN, Author

if TYPE_CHECKING:
    from holdfast.agent.control.connection import Peer


NAME = "holdfast"
COMMAND = 400
"""Most characters of a command line."""


def actor_of(peer: Peer) -> dict[str, Any]:
    """Return the fields of an `Actor` for a client of the control socket.

    No name service is asked, because that may block: the login user of a client is then a number.
    """
    try:
        name = Path(f"/proc/{peer.pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # the process has ended
        name = ""
    return {"pid": peer.pid, "uid": peer.uid, "name": name, "login": _login(peer.pid, user_name), "way": "socket"}


def this_process(redact: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the fields of an `Actor` for this process, a one-shot run. `redact` masks secrets."""
    command = shlex.join([NAME, *map(redact, sys.argv[1:])])  # before quotes and a cut hide a part of a secret
    return {
        "pid": os.getpid(),
        "name": NAME,
        "command": redact(command)[:COMMAND],
        "uid": os.getuid(),
        "login": _login(os.getpid(), _user),
        "way": "apply",
    }


def described(by: Mapping[str, Any] | None) -> str:
    """Return the fields of an `Actor` as text: `vim /etc/motd, pid 4242, login user deploy`; empty without any."""
    if not by:
        return ""
    return str(Author.of({**by, "user": by.get("user") or ("" if by.get("uid") is None else _user(by["uid"]))}))


def _login(pid: int, name_of: Callable[[int], str]) -> str:
    """Return the name of the user who logged in and started a process, also through sudo; empty if that is unknown."""
    try:
        uid = int(Path(f"/proc/{pid}/loginuid").read_text(encoding="ascii"))
    except (OSError, ValueError):  # the process has ended, or the kernel does not keep its login user
        return ""
    return "" if uid == NO_LOGIN else name_of(uid)


def _user(uid: int) -> str:
    """Return the name of a user; the number if there is none. A name service may block."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
