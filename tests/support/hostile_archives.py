"""Archives of all kinds, honest and hostile, as bytes; and a generator of random ones."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

TIME = 1_700_000_000


class Entry(NamedTuple):
    """One member of an archive, which may be hostile in any way."""

    name: str
    data: bytes = b""
    type: bytes = tarfile.REGTYPE
    target: str = ""
    mode: int = 0o644


def directory(name: str, mode: int = 0o755) -> Entry:
    """Return a directory."""
    return Entry(name, type=tarfile.DIRTYPE, mode=mode)


def link(name: str, target: str) -> Entry:
    """Return a symbolic link."""
    return Entry(name, type=tarfile.SYMTYPE, target=target)


def hard(name: str, target: str) -> Entry:
    """Return a hard link."""
    return Entry(name, type=tarfile.LNKTYPE, target=target)


def tar(*entries: Entry, format: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a tar archive of these entries, exactly as they are given."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format, errors="surrogateescape") as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.type, info.linkname, info.mode, info.mtime = entry.type, entry.target, entry.mode, TIME
            info.size = len(entry.data)
            archive.addfile(info, io.BytesIO(entry.data))
    return out.getvalue()


def zipped(*entries: Entry, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive of these entries; hard links and special files are left out."""
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore", UserWarning)  # for names that occur twice
        for entry in entries:
            info = zipfile.ZipInfo(
                entry.name.rstrip("/") + "/" * (entry.type == tarfile.DIRTYPE), (2023, 11, 14, 22, 13, 20)
            )
            kinds = {tarfile.REGTYPE: stat.S_IFREG, tarfile.DIRTYPE: stat.S_IFDIR, tarfile.SYMTYPE: stat.S_IFLNK}
            if entry.type in kinds:
                info.create_system, info.compress_type = 3, method
                info.external_attr = (kinds[entry.type] | entry.mode) << 16
                archive.writestr(info, entry.target if entry.type == tarfile.SYMTYPE else entry.data)
    return out.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
}
"""Compressions of tar archives."""
SMALL = (directory("app"), Entry("app/a", b"one\n"), Entry("app/sub/b", b"two\n", mode=0o755), link("app/l", "sub/b"))
"""An honest archive."""

NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "A", "a/b", "a/b/c", "./a", "a/", "a//b", "/a", "../a", "a/../b", "a/../../b", "..", ".", "/", "",
         "a\nb", "a\x01", "ä", "a\u0301", "\udcff", "x" * 255, "x" * 256, "/".join("x" * 120), "a/./b", "~", "-rf",
         "a\\b", "C:\\a", "a\u202eb", ".archive.holdfast-1-1"]
    ),
    st.lists(st.sampled_from(["a", "b", "..", ".", "l"]), min_size=1, max_size=4).map("/".join),
)  # fmt: skip
TARGETS = st.one_of(
    NAMES,
    st.sampled_from(
        ["/etc", "/etc/passwd", "../outside", "../../outside", "a/../..", "l", "l/../..", "/proc/self/root"]
    ),
)
FILE, LINK = tarfile.REGTYPE, tarfile.SYMTYPE
SPECIAL = [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"Z"]
TYPES = st.sampled_from([FILE, FILE, tarfile.DIRTYPE, LINK, LINK, tarfile.LNKTYPE, *SPECIAL])
DATA, MODES = st.sampled_from([b"", b"data", b"x" * 2000]), st.integers(0, 0o7777)
ENTRIES = st.lists(st.builds(Entry, NAMES, DATA, TYPES, TARGETS, MODES), max_size=6)
"""Members with every kind of name, type and target; some of them depend on others."""


@st.composite
def archives(draw: Any) -> bytes:
    """Draw an archive of random members, with a random compression, sometimes damaged."""
    entries = draw(ENTRIES)
    if draw(st.booleans()):
        data = zipped(
            *[entry for entry in entries if "\0" not in entry.name and "\udcff" not in entry.name + entry.target]
        )
    else:
        style = draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
        data = PACKED[draw(st.sampled_from([*PACKED]))](tar(*entries, format=style))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
    return data[: draw(st.integers(0, len(data)))] if draw(st.sampled_from([False, False, True])) else data
