"""Errors for files that are not used: files that are not trusted, not text, too large, or cannot be read."""

from __future__ import annotations

import os
import re
from pathlib import Path

from holdfast.resources.paths.trust import Weakness, weakness
from holdfast.states.errors import CompileError, Location, Problem


def demand_trust(path: Path | str, info: os.stat_result, trusted: frozenset[int], acl: bytes = b"") -> None:
    """Raise `CompileError` for a file that untrusted users can write, or a directory in which they can replace entries.

    A group with the number of the owner counts as the owner. In a sticky directory only the owner of an entry can
    replace it. Users with write access by ACL count as well.
    """
    weak = weakness(str(path), info, acl, trusted)
    if weak is not None:
        raise distrusted(weak, weak.path)


def distrusted(weak: Weakness, asked: str) -> CompileError:
    """Return the error for a path that untrusted users can write; names the path that was requested if it differs."""
    code = "source-owner" if weak.code == "owner" else "source-writable"
    leads = "" if f"{asked}/".startswith(f"{weak.path.rstrip('/')}/") else f", and {asked} leads there"
    what = "directory" if weak.directory else "file"
    return refuse(weak.path, code, f"{weak.message}{leads}", weak.hint, what=what)


def display(path: Path | str) -> str:
    """Return a path as printable text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def decode(path: Path, content: bytes) -> str:
    """Return the text of bytes. Raises `CompileError` if they are not UTF-8 text."""
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise refuse(path, "source-binary", "this is a binary file: it contains a NUL byte", "", line)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise refuse(
            path,
            "source-encoding",
            f"the text is not UTF-8: byte 0x{content[error.start]:02x}",
            "save the file as UTF-8",
            line,
        ) from error
    # a lone carriage return ends a line for Jinja and YAML, so count it as a line here, too
    return re.sub("\r(?!\n)", "\n", text) if "\r" in text else text


def too_large(path: Path, limit: int) -> CompileError:
    """Return the error for a file beyond the size limit."""
    return refuse(
        path,
        "source-size",
        f"the file has more than {limit >> 20} MB",
        "split it, or make the states with a loop in a template",
    )


def closed(path: Path | str, failed: str, error: OSError) -> CompileError:
    """Return the error for a path that the system does not let Holdfast read."""
    mine = isinstance(error, PermissionError) and os.geteuid() != 0
    hint = "run Holdfast as root, or name directories that you may read: --states DIR, --pillar DIR" if mine else ""
    return refuse(path, "source-unreadable", f"{failed}: {error.strerror}", hint)


def refuse(path: Path | str, code: str, message: str, hint: str, line: int = 0, *, what: str = "file") -> CompileError:
    """Return the error for a file that is not read."""
    return CompileError([Problem(Location(display(path), line), code, f"cannot use this {what}: {message}", hint)])
