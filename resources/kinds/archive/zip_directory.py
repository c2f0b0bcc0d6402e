"""Checks of the directory of a zip archive before zipfile reads it: it takes memory, and its end record may lie.

Programs differ in which of the records at the end they believe. An archive whose records contradict each other or the
directory is refused, because another program, such as a scanner, would see other members in it.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from holdfast.resources.kinds.archive.members import BadArchive, ExtractionBudget, shown
from holdfast.resources.paths.handle import Handle

END = struct.Struct("<4s6xHLLH")
"""The record at the end: signature, number of members, size and offset of the directory, length of the comment."""
LOCATOR = struct.Struct("<4s4xQ4x")
"""The locator of the record of large archives, right before the end record: signature, offset of the record."""
LARGE = struct.Struct("<4s28xQQQ")
"""The record of large archives, right before its locator: signature, number of members, size and offset."""
HEADER = struct.Struct("<4s24xHHH12x")
"""An entry of the directory: signature, lengths of name, extra fields and comment, which follow."""
LOCAL = 30
"""Length of the header before the content of a member, without its name and extra fields."""
COMMENT = (1 << 16) - 1
PER_MEMBER, MORE = 256, 1 << 20
"""Maximum bytes of the directory, for each member and in addition: zipfile reads the directory as a whole."""
MEMBERS = 1 << 16
"""Old programs write the number of members modulo this into the end record."""


class Directory(NamedTuple):
    """The directory as the records at the end describe it."""

    members: int
    start: int
    size: int


def demand_honest(archive: Handle, budget: ExtractionBudget) -> None:
    """Raise `BadArchive` for a directory that would take too much memory or contradicts the records at the end."""
    found = _directory(archive)
    if found is None:
        return  # zipfile reports the error
    if found.size > PER_MEMBER * budget.members + MORE:
        budget.demand(found.size)
    members = _counted(os.pread(archive.fd, found.size, found.start), budget)
    if members is not None and members % MEMBERS != found.members % MEMBERS:
        raise BadArchive(f"it has {members} members, and the record at its end says {found.members}")


def demand_apart(infos: Sequence[zipfile.ZipInfo]) -> None:
    """Raise `BadArchive` if the contents of two members overlap, which lets a small archive expand to a huge size."""
    ordered = sorted(infos, key=lambda info: info.header_offset)
    for info, following in pairwise(ordered):
        if info.header_offset + LOCAL + info.compress_size > following.header_offset:
            raise BadArchive(f"its members overlap: {shown(info.filename)} and {shown(following.filename)}")


def _directory(archive: Handle) -> Directory | None:
    """Return the directory that zipfile finds; None if it finds none. Raises `BadArchive`."""
    size = os.fstat(archive.fd).st_size
    first = max(0, size - END.size - COMMENT)
    tail = os.pread(archive.fd, size - first, first)
    own = tail[-END.size :]
    at = len(tail) - END.size if own[:4] == b"PK\5\6" and own[-2:] == b"\0\0" else tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + END.size:
        return None
    _, members, length, offset, _ = END.unpack_from(tail, at)
    end = first + at
    more = LARGE.size + LOCATOR.size
    before = os.pread(archive.fd, min(end, more), max(0, end - more)).rjust(more, b"\0")
    locator = before[LARGE.size :]
    if locator[:4] == b"PK\6\7":
        end -= more
        signature, members, length, offset = LARGE.unpack_from(before)
        prefix = end - length - offset
        if signature != b"PK\6\6" or LOCATOR.unpack(locator)[1] + prefix != end:
            raise BadArchive("its records at the end contradict each other")
    return Directory(members, end - length, length) if length <= end else None


def _counted(directory: bytes, budget: ExtractionBudget) -> int | None:
    """Return the number of entries of a directory; None if it is damaged. Raises `BadArchive` for too many."""
    members = at = 0
    while at < len(directory):
        if len(directory) < at + HEADER.size:
            return None
        signature, name, extra, comment = HEADER.unpack_from(directory, at)
        if signature != b"PK\1\2":
            return None
        at += HEADER.size + name + extra + comment
        members += 1
        budget.demand(members)
    return members
