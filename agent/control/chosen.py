"""Which entries of the log a client asks for."""

from __future__ import annotations

from fnmatch import fnmatchcase

from holdfast.agent.console import Entry
from holdfast.agent.control.schema import Request

WRONG = ("error", "critical")
"""Levels that say of themselves that something has failed."""
FAILURES = ("attempt-failed", "watch-failed")
"""Codes of notices of failures that are not final."""


class Chosen:
    """Tells of each entry whether the client wants it, whenever it was written."""

    def __init__(self, request: Request) -> None:
        self._resource, self._failed, self._cause = request.identity, request.failed, request.cause

    def __call__(self, entry: Entry) -> bool:
        """Whether it is one of them."""
        return (
            (not self._cause or entry.get("cause") == self._cause)
            and (not self._failed or _failed(entry))
            and (not self._resource or _names(self._resource, str(entry.get("resource") or "")))
        )


def _failed(entry: Entry) -> bool:
    return entry.get("result") == "failed" or entry.get("level") in WRONG or entry.get("code") in FAILURES


def _names(word: str, identity: str) -> bool:
    """Whether a word is an identity, its ID, the end of a path that is its ID, or a pattern of one of these."""
    name = identity.partition("[")[2].removesuffix("]")
    pattern = word.replace("[", "[[]")
    return any(fnmatchcase(each, pattern) for each in (identity, name)) or (
        name.startswith("/") and name.endswith(f"/{word}")
    )
