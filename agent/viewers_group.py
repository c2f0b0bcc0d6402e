"""The group of viewers of the agent: `holdfast install` makes it, `uninstall` removes it if it is empty."""

from __future__ import annotations

import grp
import subprocess

GROUP = "holdfast"
MAKING = (("groupadd", "--system", GROUP), ("addgroup", "-S", GROUP))
"""Alternative commands that make the group: one of the shadow tools, and one of busybox."""
REMOVING = (("groupdel", GROUP), ("delgroup", GROUP))
TIMEOUT = 30.0
"""Seconds that a command may take."""


def make() -> str:
    """Make the group; return a line about that. The agent works without it, so a failure is only reported."""
    if _members() is not None:
        return f"kept the group {GROUP}"
    why = _run(MAKING)
    if why:
        return f"cannot make the group {GROUP}, whose members may inspect the agent: {why}"
    return f"made the group {GROUP}, whose members may inspect the agent: adduser NAME {GROUP}"


def remove() -> str:
    """Remove the group unless it has members; return a line about that, which is empty if there is no group."""
    members = _members()
    if members is None:
        return ""
    if members:
        return f"kept the group {GROUP}, which has members: {', '.join(members)}"
    why = _run(REMOVING)
    return f"kept the group {GROUP}: {why}" if why else f"removed the group {GROUP}"


def _members() -> list[str] | None:
    """Return the members; None if there is no group."""
    try:
        return grp.getgrnam(GROUP).gr_mem
    except KeyError:
        return None


def _run(commands: tuple[tuple[str, ...], ...]) -> str:
    """Run the first of the commands that is installed; return why it failed, or an empty text."""
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except FileNotFoundError:
            continue
        except subprocess.TimeoutExpired:
            return f"{command[0]} has not ended within {TIMEOUT:g} s"
        return "" if done.returncode == 0 else done.stderr.strip() or f"{command[0]} ended with {done.returncode}"
    return f"there is neither {' nor '.join(command[0] for command in commands)}"
