"""Checks of home directories: whether it is safe for root's tools to work on them.

useradd works by path: it makes the directory, sets owner and mode, and follows a link that a user has put there
meanwhile. userdel and usermod work by path, too. So untrusted users must not be able to replace the home.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from holdfast.resources import paths

Locate = Callable[[Path], Path]
"""`ProviderHost.system_path`."""
DEFAULTS = Path("/etc/default/useradd")
HOME, SKELETON = "/home", "/etc/skel"
"""Directories that the tools use if no configuration names others."""


def demand_new(locate: Locate, what: str, home: str, skeleton: str) -> None:
    """Raise `Unsafe` if a tool must not create this home, or if untrusted users could write the files that it copies.

    `skeleton` is the directory of these files. Raises `OSError`.
    """
    _demand(what, home, _replaceable(str(locate(Path(home)))))
    try:
        _demand_trusted(paths.at(str(locate(Path(skeleton))), follow=True))
    except FileNotFoundError:
        return
    except paths.Unsafe as error:
        raise paths.Unsafe(f"cannot {what}: its home would be a copy of {skeleton}; {error}") from None


def demand_home(locate: Locate, what: str, home: str | None) -> None:
    """Raise `Unsafe` for an existing home that untrusted users could replace. Raises `OSError`."""
    if home is not None and home.startswith("/") and paths.exists(located := str(locate(Path(home)))):
        _demand(what, home, _replaceable(located))


def _demand(what: str, home: str, why: str) -> None:
    if why:
        raise paths.Unsafe(f"cannot {what}: other users could replace its home {home}: {why}")


def _replaceable(home: str) -> str:
    """Return why untrusted users could replace a home, or a directory on the way to it; empty if they cannot."""
    try:
        place = paths.at(home, follow=True)
        found, seen = place.directory, place.look()
    except (FileNotFoundError, NotADirectoryError):  # useradd makes the parents, or reports why it cannot
        found, seen = paths.nearest(home), None
    if found.holders:
        return found.reason
    if found.shared and (seen is None or seen.st_uid not in paths.trusted_uids()):
        return f"anyone may make entries of {found.path}"
    return ""


def _demand_trusted(place: paths.Place) -> None:
    """Raise `Unsafe` unless only trusted users could have written the entry, and all entries below it.

    The targets of links are not checked, because useradd copies links as links.
    """
    _, info = place.pin()
    if stat.S_ISLNK(info.st_mode):
        return
    paths.demand_trusted(place, info)
    if stat.S_ISDIR(info.st_mode):
        inside = place.enter()
        for name in inside.names():
            _demand_trusted(inside.entry(name))


def default(locate: Locate, name: str, otherwise: str) -> str:
    """Return one of useradd's own defaults, a path."""
    try:
        text = os.fsdecode(paths.read_trusted(str(locate(DEFAULTS))))
    except FileNotFoundError:
        return otherwise
    found = re.findall(rf"^{name}=(/.*\S)\s*$", text, re.MULTILINE)
    return str(found[-1]).rstrip("/") if found else otherwise
