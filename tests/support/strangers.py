"""Runs code of a test as another user of this machine, without rights. Only root can become that user."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

UID = 12345
"""The user; no account has this number."""


@contextmanager
def open_directory() -> Iterator[Path]:
    """Yield a new directory that all users can enter.

    Directories of pytest do not suffice: each start of pytest closes the directory above them to other users.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def as_a_stranger(
    action: Callable[[], object],
    expected: type[Exception] = OSError,
    *,
    groups: Sequence[int] = (),
    gid: int = UID,
    uid: int = UID,
) -> str:
    """Call a function as a user with these groups, and return the text that it returns.

    An expected exception is returned as its text, with its `code` if it has one.
    Any other exception makes the test fail with its traceback.
    """
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(here)
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            status, text = 0, _said(action, expected)
        except BaseException:  # noqa: BLE001 - the parent reports it
            status, text = 1, traceback.format_exc()
        finally:
            with os.fdopen(there, "w") as pipe:
                pipe.write(text)
            os._exit(status)
    os.close(there)
    with os.fdopen(here) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, said
    return said


def _said(action: Callable[[], object], expected: type[Exception]) -> str:
    try:
        return str(action())
    except expected as error:
        return f"{error.code}: {error}" if hasattr(error, "code") else str(error)
