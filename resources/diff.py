"""Unified diffs of text content, bounded in size and in time."""

from __future__ import annotations

import io

LIMIT = 64 * 1024
"""Greatest length of a diff, in characters."""
LARGEST = 16 << 20
"""Bytes above which two texts are not compared: splitting them into lines takes many times as much memory."""
LINES = 4000
"""Lines above which two texts are not compared: the comparison takes quadratic time."""


UNENDED = "\n\\ No newline at end of file\n"
"""Follows a line that lacks its line feed."""

HIDDEN = "<show_changes=False>"
"""Shown instead of a diff that the state hides."""
PRIVATE = "<hidden: others may not read the file; show_changes: true shows it>"
"""Shown instead of a diff that the mode of the file hides."""


def hidden(show: bool | None, *modes: int | None) -> str:
    """Return the text to show instead of a diff, or an empty text if the diff may be shown.

    `show` is the state's `show_changes`; None shows the diffs of files that everybody may read. `modes` are the present
    and the declared mode of the file.
    """
    if show is None and any(mode is not None and not mode & 0o004 for mode in modes):
        return PRIVATE
    return HIDDEN if show is False else ""


def unified(old: bytes, new: bytes, path: str) -> str:
    """Return the unified diff from `old` to `new`, or one line that says why no diff is shown.

    Binary content (a NUL byte, or not UTF-8) and very long texts are summarised; the result has at most `LIMIT`
    characters.
    """
    if old == new:
        return ""
    if len(old) + len(new) > LARGEST:
        return f"content of {path} differs: {len(old)} bytes, now {len(new)}\n"
    try:
        before, after = _text(old), _text(new)
    except UnicodeDecodeError:
        return f"binary content of {path} differs: {len(old)} bytes, now {len(new)}\n"
    lines_before, lines_after = _lines(before), _lines(after)
    if lines_before + lines_after > LINES:
        return f"content of {path} differs: {lines_before} lines, now {lines_after}\n"
    diff = _unified(before, after, path) if before else _of_new(after, lines_after, path)
    return diff if len(diff) <= LIMIT else f"{diff[:LIMIT]}\n[diff cut at {LIMIT} characters]\n"


def _unified(before: str, after: str, path: str) -> str:
    import difflib  # noqa: PLC0415 - files that are new or as declared do not need it

    # Text is split only at line feeds; splitlines would split it at other characters, too.
    old, new = io.StringIO(before).readlines(), io.StringIO(after).readlines()
    lines = difflib.unified_diff(old, new, path, path)
    return "".join([line if line.endswith("\n") else f"{line}{UNENDED}" for line in lines])


def _of_new(text: str, lines: int, path: str) -> str:
    """Return the diff from an empty file, as `difflib` makes it, but in as little time as writing the file takes."""
    span = "1" if lines == 1 else f"1,{lines}"
    content = text[:-1].replace("\n", "\n+") + "\n" if text.endswith("\n") else text.replace("\n", "\n+") + UNENDED
    return f"--- {path}\n+++ {path}\n@@ -0,0 +{span} @@\n+{content}"


def _text(data: bytes) -> str:
    """Return UTF-8 text. Raises `UnicodeDecodeError` for binary content."""
    if b"\0" in data:
        raise UnicodeDecodeError("utf-8", data, data.index(b"\0"), data.index(b"\0") + 1, "NUL byte")
    return data.decode("utf-8")


def _lines(text: str) -> int:
    """Return the number of lines; the last one may lack its line feed."""
    return text.count("\n") + (0 if not text or text.endswith("\n") else 1)
