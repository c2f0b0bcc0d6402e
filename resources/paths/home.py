"""The home directory of the agent's own user, where tools read their settings and look for programs."""

from __future__ import annotations

import os
import pwd

from holdfast.resources.paths.handle import ABSENT, Unsafe
from holdfast.resources.paths.walk import directory, nearest


def own_home() -> str:
    """Return `HOME` of the agent's environment, or the home of its account if an untrusted user can write that one.

    Some ways to become root keep `HOME` of the user before, whose settings tools would then obey as root.
    """
    path = os.environ.get("HOME", "")
    if path.startswith("/") and _is_trusted(path):
        return path
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"


def _is_trusted(path: str) -> bool:
    """Return whether only trusted users can put something into a directory, or make it if it is missing."""
    try:
        try:
            found = directory(path)
        except ABSENT:
            found = nearest(path)
    except (OSError, Unsafe):
        return False
    return not found.holders and not found.shared
