"""Members of tar archives in their order; the code does not trust the headers."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO, cast

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
from holdfast.resources.kinds.archive.unpacked import Unpacked

UNREADABLE = (tarfile.TarError, ValueError, OverflowError, IndexError, KeyError, TypeError, EOFError, MemoryError)
"""Exceptions that tarfile raises for damaged archives."""
ZEROS = bytes(512)


def tar_members(
    data: Unpacked, rules: ExtractionRules, budget: ExtractionBudget
) -> Iterator[tuple[ArchiveMember, Content]]:
    """Yield each member with its content. Blocks. Raises `BadArchive`."""
    files: set[str] = set()
    file = cast("IO[bytes]", data)
    with (
        readable("tar", UNREADABLE),
        tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape") as tar,
    ):
        while (info := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined] # tarfile keeps all members in memory
            budget.count(info.size if info.isreg() else 0)
            member = _member(info, rules, files)
            if member is not None:
                yield member, _content(tar, info, budget)
        if data.block not in {b"", ZEROS}:
            raise BadArchive("it is damaged: a header cannot be read")
        data.drain()


def _member(info: tarfile.TarInfo, rules: ExtractionRules, files: set[str]) -> ArchiveMember | None:
    """Return a member as it is extracted; None if it is left out. `files` are the paths of the earlier files."""
    path = rules.path(info.name)
    if info.isdir():
        return None if path is None else ArchiveMember(path, "directory", rules.mode("directory", info.mode))
    if path is None:
        return None
    mode, mtime = rules.mode("file", member_mode(info.mode)), max(0, int(info.mtime))
    if info.islnk():
        origin = rules.path(info.linkname)
        if origin not in files or origin is None:
            raise BadArchive(f"it has a hard link whose target is not an earlier file: {shown(info.name)}")
        files.add(path)
        return ArchiveMember(path, "file", mode, mtime, origin)
    if info.issym():
        rules.demand_inside(path, info.linkname)
        return ArchiveMember(path, "link", target=info.linkname)
    if not info.isreg():
        what = (
            "a device"
            if info.isdev() and not info.isfifo()
            else "a fifo"
            if info.isfifo()
            else "an entry of an unknown type"
        )
        raise BadArchive(f"it has {what} as a member: {shown(info.name)}")
    files.add(path)
    return ArchiveMember(path, "file", mode, mtime, size=info.size)


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo, budget: ExtractionBudget) -> Content:
    def parts() -> Iterator[bytes]:
        with readable("tar", UNREADABLE):
            file, left = tar.extractfile(info), info.size
            while file is not None and left:
                piece = file.read(min(left, PART))
                if not piece:
                    raise BadArchive(f"it ends too early, in {shown(info.name)}")
                if info.issparse():
                    budget.spend(len(piece))
                left -= len(piece)
                yield piece

    return parts
