"""Unified diffs of text content, bounded in size and in time."""

from __future__ import annotations

import io
from collections.abc import Iterable

LIMIT = 64 * 1024
"""Greatest length of a diff, in characters."""
LARGEST = 16 << 20
"""Bytes above which two texts are not compared: splitting them into lines takes many times as much memory."""
LINES = 4000
"""Lines above which two texts are not compared: the comparison takes quadratic time."""


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
        before, after = text_lines(old), text_lines(new)
    except UnicodeDecodeError:
        return f"binary content of {path} differs: {len(old)} bytes, now {len(new)}\n"
    if len(before) + len(after) > LINES:
        return f"content of {path} differs: {len(before)} lines, now {len(after)}\n"
    lines = _unified(before, after, path) if before else _of_new(after, path)
    diff = "".join([line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines])
    return diff if len(diff) <= LIMIT else f"{diff[:LIMIT]}\n[diff cut at {LIMIT} characters]\n"


def _unified(before: list[str], after: list[str], path: str) -> Iterable[str]:
    import difflib  # noqa: PLC0415 - files that are new or as declared do not need it

    return difflib.unified_diff(before, after, path, path)


def _of_new(lines: list[str], path: str) -> list[str]:
    """Return the diff from an empty file, as `difflib` makes it, but in as little time as writing the file takes."""
    span = "1" if len(lines) == 1 else f"1,{len(lines)}"
    return [f"--- {path}\n", f"+++ {path}\n", f"@@ -0,0 +{span} @@\n", *("+" + line for line in lines)]


def text_lines(data: bytes) -> list[str]:
    """Split UTF-8 text into lines, with their line ends. Raises `UnicodeDecodeError` for binary content."""
    if b"\0" in data:
        raise UnicodeDecodeError("utf-8", data, data.index(b"\0"), data.index(b"\0") + 1, "NUL byte")
    return io.StringIO(data.decode("utf-8")).readlines()  # split at line feeds alone, unlike splitlines
