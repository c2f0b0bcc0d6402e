"""Who may read a file: whether all users of the host may, by its mode and those of the directories above it."""

from __future__ import annotations

import os
import stat

from holdfast.resources.paths.place import Place


def everyone_reads(place: Place, *modes: int | None) -> bool:
    """Return whether all users may read the file at a place with each of these modes. A mode that is None is ignored.

    False also if an untrusted user can change the path, which may lead elsewhere at another time. Raises `OSError`.
    """
    directory = place.directory
    if directory.holders or directory.follower is not None:
        return False
    if any(mode is not None and not mode & stat.S_IROTH for mode in modes):
        return False
    path = directory.real
    while os.stat(path).st_mode & stat.S_IXOTH:  # noqa: PTH116 - through our own name `os`
        if path == "/":
            return True
        path = path.rpartition("/")[0] or "/"
    return False
