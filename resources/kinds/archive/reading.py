"""The members of an archive in order, for all formats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from holdfast.resources.downloads import slices
from holdfast.resources.kinds.archive.members import (
    ArchiveMember,
    BadArchive,
    Content,
    ExtractionBudget,
    ExtractionRules,
)
from holdfast.resources.kinds.archive.tar import tar_members
from holdfast.resources.kinds.archive.unpacked import Unpacked, decompressor
from holdfast.resources.kinds.archive.zipped import zip_members
from holdfast.resources.paths.handle import Handle

RAR = b"Rar!\x1a\x07"
ZIP = (b"PK\3\4", b"PK\5\6")
PROGRAMS = (b"MZ", b"\x7fELF", b"#!")
"""Beginnings of programs. A self-extracting zip archive is one; the agent reads it only if the state says so."""
TAR, TAR_AT = b"ustar", 257
"""What tar archives have at this position. They begin with the name of a member, which may be `#!`."""


def members_of(
    archive: Handle,
    rules: ExtractionRules,
    budget: ExtractionBudget,
    *,
    wanted: str | None = None,
    password: str | None = None,
) -> Iterator[tuple[ArchiveMember, Content]]:
    """Yield each member with its content. `wanted`: the declared format. Blocks. Raises `BadArchive` and `OSError`."""
    beginning = os.pread(archive.fd, 16, 0)
    if beginning.startswith(RAR) or wanted == "rar":
        raise BadArchive("Holdfast does not extract rar archives; repack it as tar or zip")
    program = beginning.startswith(PROGRAMS) and os.pread(archive.fd, len(TAR), TAR_AT) != TAR
    if program and wanted is None:
        raise BadArchive("it is a program; if it has a zip archive at its end, set `archive_format: zip`")
    zipped = beginning.startswith(ZIP) or (program and wanted == "zip")
    if wanted is not None and zipped != (wanted == "zip"):
        raise BadArchive(f"it is {'a zip' if zipped else 'no zip'} archive, but archive_format is {wanted}")
    if zipped:
        return zip_members(archive, rules, budget, password)
    make = decompressor(beginning)
    return tar_members(Unpacked(slices(archive), make, budget), replace(rules, modes=True), budget)
