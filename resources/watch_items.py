"""Items that a watch reports besides None, which means "armed" or "may have changed"."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class Unwatched(NamedTuple):
    """Changes are not reported from now on until the next item. The watch recovers by itself."""

    why: str


class Missed(NamedTuple):
    """Changes may have been missed: the resource is checked at once, even if its last run has just failed."""


MISSED: Final = Missed()
WatchItem = Unwatched | Missed | None
KernelTopic = Literal["hostname", "modules", "mounts", "swaps"]
"""Things of the kernel that change and have no path to watch."""
