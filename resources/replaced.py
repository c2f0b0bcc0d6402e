"""A file that a run replaced, removed or changed, as the run reports it."""

from __future__ import annotations

from typing import NamedTuple


class ReplacedFile(NamedTuple):
    """An entry of a directory as it was before the run, and where its content is kept.

    If it has no hash, no target and no reason, the run changed only its owner or mode.
    """

    path: str
    """Empty for files that are only counted, in `lost`."""
    sha256: str = ""
    """Name of the kept content; empty if it was not kept."""
    size: int = 0
    """Bytes of the content."""
    mode: int = 0
    uid: int = 0
    gid: int = 0
    link: str = ""
    """Target, if it was a symbolic link."""
    lost: str = ""
    """Why the content was not kept; empty if it was."""
