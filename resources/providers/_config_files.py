"""Reads and writes small configuration files of tools, such as lists of repositories. All functions block."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.errors import refused_call
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.temporaries import give_back, take_name


def read_config(file: Path) -> str | None:
    """Return the content of a file that only trusted users could have written; None if there is none.

    Raises `Permanent`, in the form of `Unsafe` if another user could have written the file.
    """
    try:
        return paths.read_trusted(str(file)).decode("utf-8", "surrogateescape")
    except ABSENT:
        return None
    except OSError as error:
        raise refused_call(f"cannot read {file}: {error.strerror}", error) from None


def list_config(directory: Path) -> list[str]:
    """Return the names of the entries of a directory; none if it does not exist. Raises `Permanent`."""
    try:
        return list(paths.directory(str(directory)).names())
    except ABSENT:
        return []
    except OSError as error:
        raise refused_call(f"cannot read {directory}: {error.strerror}", error) from None


def write_config(file: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file atomically, and flush it; missing directories are made. A link is replaced, not followed.

    Raises `Permanent`, in the form of `Unsafe` if another user can change what is in the directory, or `Temporary`.
    """
    try:
        paths.make_parents(str(file))
        target = paths.at(str(file))
        _demand_private(target)
        place = target.beside(take_name(target.name))
        handle = place.create(0o600)
        try:
            handle.write(text.encode("utf-8", "surrogateescape"))
            os.fchmod(handle.fd, mode)
            os.fsync(handle.fd)
            place.rename(target)
        except BaseException:
            place.unlink()
            raise
        finally:
            give_back(place.name)
        target.directory.sync()
    except OSError as error:
        raise refused_call(f"cannot write {file}: {error.strerror}", error) from None


def remove_config(file: Path) -> None:
    """Remove a file, if it exists. Raises the errors of `write_config`."""
    try:
        place = paths.at(str(file))
        _demand_private(place)
        place.unlink()
        place.directory.sync()
    except ABSENT:
        return
    except OSError as error:
        raise refused_call(f"cannot remove {file}: {error.strerror}", error) from None


def _demand_private(place: paths.Place) -> None:
    """Raise `Unsafe` if another user can change what is in the directory of a file."""
    if place.directory.shared or place.directory.holders:
        why = place.directory.reason or f"{place.directory.path} is open to all users"
        raise paths.Unsafe(f"cannot change {place.path}: other users could replace it, because {why}")
