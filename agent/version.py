"""The version of this Holdfast and the commit from which it was built.

Imports only the standard library: the build uses it, too.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

RECORD = "commit.txt"
"""The file of the package in which a build records its commit; empty if that was unknown. A checkout has no such
file."""
TIMEOUT = 5.0
"""Seconds that git may take."""
_DESCRIBE = ("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def version() -> str:
    """Return the version, with the commit if known: `0.1.0 (commit 9fa194a31ed7)`."""
    from holdfast import __version__  # noqa: PLC0415 - the build has this module alone

    found = commit(Path(__file__).parents[1])
    return f"{__version__} (commit {found})" if found else __version__


def commit(package: Path) -> str:
    """Return the commit of a package, with `-dirty` if files have changed since; empty if unknown.

    The commit that a build has recorded takes precedence. git is asked only for a package in a checkout, which has no
    record.
    """
    try:
        return (package / RECORD).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return _described(package.parents[1])
    except (OSError, ValueError):
        return ""


def _described(checkout: Path) -> str:
    """Return the commit of a checkout, from git; empty if it is not a checkout, git is missing, or git refuses."""
    # In a git hook, variables name another repository. Without a ceiling, git would search the parent directories.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
    }
    environment["GIT_CEILING_DIRECTORIES"] = str(checkout.parent)
    argv = ["git", "--no-optional-locks", "-C", str(checkout), *_DESCRIBE]
    try:
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
