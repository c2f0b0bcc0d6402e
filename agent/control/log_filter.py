"""Selects the entries of the log that a client has requested."""

from __future__ import annotations

from fnmatch import fnmatchcase

from holdfast.agent.console import LogEntry

WRONG = ("error", "critical")
"""Levels of entries that count as failures."""
FAILURES = ("attempt-failed", "watch-failed")
"""Codes of notices of failures that are not final."""


class LogFilter:
    """Decides for each entry whether the client wants it.

    `identity`: only entries of this resource, or of those that match a pattern; `cause`: only entries with this cause;
    `failed`: only failures. Empty or false means any entry.
    """

    def __init__(self, identity: str = "", cause: str = "", *, failed: bool = False) -> None:
        self._resource, self._cause, self._failed = identity, cause, failed

    def __call__(self, entry: LogEntry) -> bool:
        """Return whether the client wants this entry."""
        return (
            (not self._cause or entry.get("cause") == self._cause)
            and (not self._failed or _failed(entry))
            and (not self._resource or names(self._resource, str(entry.get("resource") or "")))
        )


def _failed(entry: LogEntry) -> bool:
    return entry.get("result") == "failed" or entry.get("level") in WRONG or entry.get("code") in FAILURES


def names(word: str, identity: str) -> bool:
    """Return whether a word is an identity, its ID, the end of a path that is its ID, or a pattern for one of these."""
    name = identity.partition("[")[2].removesuffix("]")
    pattern = word.replace("[", "[[]")
    return any(fnmatchcase(each, pattern) for each in (identity, name)) or (
        name.startswith("/") and name.endswith(f"/{word}")
    )
