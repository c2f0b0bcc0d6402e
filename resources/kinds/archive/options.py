"""`options` of `archive.extracted`: the options of tar and unzip that select what is extracted."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

WITHOUT_EFFECT = frozenset(
    [
        "--auto-compress",
        "--bzip2",
        "--extract",
        "--get",
        "--gunzip",
        "--gzip",
        "--lzma",
        "--no-overwrite-dir",
        "--no-same-owner",
        "--no-same-permissions",
        "--overwrite",
        "--preserve-permissions",
        "--same-permissions",
        "--touch",
        "--ungzip",
        "--unlink-first",
        "--verbose",
        "--wildcards",
        "--xz",
        "--zstd",
    ]
)
"""Options without effect: those for compression and output, and those for what Holdfast always does in its own way."""
LETTERS = re.compile(r"-?[aefjJmnopqUvxzZ]+")
"""Matches such options of tar and unzip as letters."""
STRIP, EXCLUDE = re.compile(r"--strip(?:-components)?(?:=(.*))?"), re.compile(r"--exclude(?:=(.*))?")


class ArchiveOptions(NamedTuple):
    """The parsed options."""

    strip: int = 0
    exclude: tuple[str, ...] = ()


def parse_options(text: str) -> ArchiveOptions:
    """Parse options of tar or unzip. Raises `ValueError` for an unsupported option."""
    strip, exclude, words = 0, [], shlex.split(text)
    while words:
        word = words.pop(0)
        if found := STRIP.fullmatch(word):
            strip = _number(_value(found, words))
        elif found := EXCLUDE.fullmatch(word):
            exclude.append(_value(found, words))
        elif word not in WITHOUT_EFFECT and not LETTERS.fullmatch(word):
            raise ValueError(
                f"the option {word!r} is not supported: --strip-components and --exclude are, and options for "
                "compression or the output have no effect"
            )
    return ArchiveOptions(strip, tuple(exclude))


def _value(found: re.Match[str], words: list[str]) -> str:
    value = found[1] if found[1] is not None else words.pop(0) if words else ""
    if not value:
        raise ValueError(f"the option {found[0]!r} lacks its value")
    return value


def _number(value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 3:
        raise ValueError(f"--strip-components needs a number, not {value!r}")
    return int(value)
