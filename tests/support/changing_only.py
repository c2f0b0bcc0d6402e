"""Finds changes of the system outside of one directory, and processes, by Python's audit events."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROCESSES = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "socket.sethostname"})
"""Events that are never allowed."""
CHANGING: dict[str, tuple[tuple[int, int | None], ...]] = {
    "open": ((0, None),),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.truncate": ((0, None),),
}
"""Event -> positions of a changed path and of the descriptor of its directory."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
HARMLESS = ("/proc/self/fd/", "/dev/null")

_allowed: tuple[str, ...] = ()


@contextmanager
def changing_only_below(*paths: Path | str) -> Iterator[None]:
    """Raise `AssertionError` in the body at the first change of a path that is not below these.

    The event of `open` does not contain the directory of a relative path, so such paths pass. A file that is created by
    a relative path is found when it is renamed.
    """
    global _allowed  # noqa: PLW0603 - a hook cannot be removed, so it asks this
    _allowed = tuple(map(str, paths))
    try:
        yield
    finally:
        _allowed = ()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _allowed:
        return
    assert event not in PROCESSES, f"{event} {arguments}"
    if event == "open" and not (arguments[2] or 0) & WRITING:
        return
    for path, directory in CHANGING.get(event, ()):
        name = arguments[path]
        if isinstance(name, int):
            continue
        where = -1 if directory is None else arguments[directory]
        base = Path(f"/proc/self/fd/{where}").readlink() if where >= 0 else Path()
        whole = os.fspath(base / os.fsdecode(name))
        assert not whole.startswith("/") or whole.startswith((*_allowed, *HARMLESS)), f"{event} {whole}"


sys.addaudithook(_audit)
