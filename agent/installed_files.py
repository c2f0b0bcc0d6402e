"""Files that `holdfast install` writes. Later it renews or removes them unless they were edited or are a package's."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

from holdfast.agent.host.files import Replacement
from holdfast.resources import paths
from holdfast.states.source.files import is_there

FIRST = "#compdef"
"""Beginning of a line that must remain the first line of its file; the mark is then the second line."""
TIMEOUT = 30.0
"""Seconds that dpkg may take to name the owner of a file."""
_MARK = re.compile(r"""^(?:#|\.\\") Written by `holdfast install`.* Digest: (?P<digest>[0-9a-f]{16})\n""", re.MULTILINE)


def place(root: Path, path: Path, text: str, comment: str, advice: str = "") -> str | None:
    """Write a file with a mark; return None if the existing file is not ours. Raises `OSError` and `HoldfastError`."""
    if is_there(path) and not _ours(root, path):
        return None
    mark = f"{comment} Written by `holdfast install`{advice}. Digest: {_digest(text)}\n"
    at = text.index("\n") + 1 if text.startswith(FIRST) else 0
    paths.make_parents(str(path))
    write(path, text[:at] + mark + text[at:])
    return f"wrote {path}"


def remove(root: Path, path: Path) -> str | None:
    """Remove an existing file; return None if it is not ours. Raises `OSError` and `HoldfastError`."""
    if not _ours(root, path):
        return None
    paths.at(str(path)).unlink()
    return f"removed {path}"


def write(path: Path, text: str) -> None:
    """Write a file atomically, readable by all."""
    Replacement(paths.at(str(path)), text.encode(), 0o644, -1, -1, durable=True).place()


def _ours(root: Path, path: Path) -> bool:
    """Return whether a file is unchanged since `install` wrote it, and belongs to no package."""
    try:
        text = paths.read(str(path)).decode()
    except UnicodeDecodeError:
        return False
    mark = _MARK.search(text)
    return (
        mark is not None
        and mark["digest"] == _digest(text[: mark.start()] + text[mark.end() :])
        and not _packaged(root, path)
    )


def _packaged(root: Path, path: Path) -> bool:
    """Return whether a Debian package below this root owns a file.

    True if dpkg does not answer; false if there is no dpkg.
    """
    argv = ["dpkg-query", f"--admindir={root / 'var/lib/dpkg'}", "--search", f"/{path.relative_to(root)}"]
    try:
        return subprocess.run(argv, capture_output=True, timeout=TIMEOUT, check=False).returncode == 0
    except FileNotFoundError:
        return False
    except subprocess.TimeoutExpired:
        return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
