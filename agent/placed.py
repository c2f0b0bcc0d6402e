"""Files that `holdfast install` writes, and renews or removes for as long as nobody else has edited or packaged them."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

from holdfast.agent.host.files import Replacement
from holdfast.resources import paths
from holdfast.states.source import is_there

FIRST = "#compdef"
"""A line of this sort must stay the first of its file; else the mark is the first."""
PATIENCE = 30.0
"""Seconds that dpkg may take to say who owns a file."""
_MARK = re.compile(r"""^(?:#|\.\\") Written by `holdfast install`.* Digest: (?P<digest>[0-9a-f]{16})\n""", re.MULTILINE)


def place(root: Path, path: Path, text: str, comment: str, advice: str = "") -> str | None:
    """Write a file, with a mark that says who wrote it; None when it is somebody else's. Raises `OSError` and `HoldfastError`."""
    if is_there(path) and not _ours(root, path):
        return None
    mark = f"{comment} Written by `holdfast install`{advice}. Digest: {_digest(text)}\n"
    at = text.index("\n") + 1 if text.startswith(FIRST) else 0
    paths.make_parents(str(path))
    write(path, text[:at] + mark + text[at:])
    return f"wrote {path}"


def remove(root: Path, path: Path) -> str | None:
    """Remove a file that is there; None when it is somebody else's. Raises `OSError` and `HoldfastError`."""
    if not _ours(root, path):
        return None
    paths.at(str(path)).unlink()
    return f"removed {path}"


def write(path: Path, text: str) -> None:
    """Put a file in place whole, readable by all."""
    Replacement(paths.at(str(path)), text.encode(), 0o644, -1, -1, durable=True).place()


def _ours(root: Path, path: Path) -> bool:
    """Whether a file is as we wrote it, and belongs to no package."""
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
    """Whether a Debian package below this root owns a file; also when dpkg does not answer. Where there is no dpkg, none does."""
    argv = ["dpkg-query", f"--admindir={root / 'var/lib/dpkg'}", "--search", f"/{path.relative_to(root)}"]
    try:
        return subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False).returncode == 0
    except FileNotFoundError:
        return False
    except subprocess.TimeoutExpired:
        return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
