"""Members of zip archives; the code does not trust their directory."""

from __future__ import annotations

import os
import stat
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress

from holdfast.resources.kinds.archive.members import (
    PART,
    ArchiveMember,
    BadArchive,
    Content,
    ExtractionBudget,
    ExtractionRules,
    member_mode,
    readable,
    shown,
)
from holdfast.resources.kinds.archive.zip_directory import demand_apart, demand_honest
from holdfast.resources.paths.handle import Handle

UNREADABLE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, ValueError, OverflowError, IndexError, KeyError,
    NotImplementedError, RuntimeError, OSError, MemoryError,
)  # fmt: skip
"""Exceptions that zipfile raises for damaged archives and wrong passwords."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
UNIX, ENCRYPTED = 3, 1
TARGET = 4096
"""Maximum bytes of the target of a link."""


def zip_members(
    archive: Handle, rules: ExtractionRules, budget: ExtractionBudget, password: str | None
) -> Iterator[tuple[ArchiveMember, Content]]:
    """Yield each member with its content. Blocks. Raises `BadArchive`."""
    demand_honest(archive, budget)
    with (
        os.fdopen(os.dup(archive.fd), "rb") as file,
        readable("zip", UNREADABLE),
        zipfile.ZipFile(file) as opened,
    ):
        if password is not None:
            opened.setpassword(password.encode())
        demand_apart(opened.infolist())
        for info in opened.infolist():
            budget.count(info.file_size)
            member = _member(opened, info, rules, password)
            if member is not None:
                yield member, _content(opened, info, budget)


def _member(
    opened: zipfile.ZipFile, info: zipfile.ZipInfo, rules: ExtractionRules, password: str | None
) -> ArchiveMember | None:
    """Return a member as it is extracted; None if it is left out."""
    path = rules.path(info.orig_filename if "\0" in info.orig_filename else info.filename)
    mode = info.external_attr >> 16 if info.create_system == UNIX else 0
    kind = stat.S_IFMT(mode)
    if info.is_dir() or kind == stat.S_IFDIR:
        return None if path is None else ArchiveMember(path, "directory", rules.mode("directory", member_mode(mode)))
    if path is None:
        return None
    if kind not in {0, stat.S_IFREG, stat.S_IFLNK}:
        raise BadArchive(f"it has a member of an unknown type: {shown(info.filename)}")
    if info.compress_type not in METHODS:
        raise BadArchive(f"it is compressed by the method {info.compress_type} of zip, which is not supported")
    if info.flag_bits & ENCRYPTED and password is None:
        raise BadArchive("it is protected by a password: set password")
    if kind == stat.S_IFLNK:
        with opened.open(info) as file:
            read = file.read(TARGET)
        _demand_whole(info, min(info.file_size, TARGET) - len(read))
        target = os.fsdecode(read)
        rules.demand_inside(path, target)
        return ArchiveMember(path, "link", target=target)
    return ArchiveMember(path, "file", rules.mode("file", member_mode(mode)), _time(info), size=info.file_size)


def _demand_whole(info: zipfile.ZipInfo, left: int) -> None:
    """Raise `BadArchive` if a member has ended before its declared size."""
    if left:
        raise BadArchive(f"it has less content than its directory says: {shown(info.filename)}")


def _time(info: zipfile.ZipInfo) -> int:
    """Return the time of a member; zip archives store it without a time zone."""
    with suppress(ValueError, OverflowError):
        return max(0, int(time.mktime((*info.date_time, 0, 0, -1))))
    return 0


def _content(opened: zipfile.ZipFile, info: zipfile.ZipInfo, budget: ExtractionBudget) -> Content:
    def parts() -> Iterator[bytes]:
        left = info.file_size
        with readable("zip", UNREADABLE), opened.open(info) as file:
            while piece := file.read(PART):
                budget.spend(len(piece))
                left -= len(piece)
                yield piece
        _demand_whole(info, left)

    return parts
