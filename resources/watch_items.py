"""What a watch reports apart from None, which stands for "armed" or "may have changed"."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class Unwatched(NamedTuple):
    """Changes are not reported from now on, until the next item. The watch goes on by itself."""

    why: str


class Missed(NamedTuple):
    """Changes may have been missed: the resource is checked at once, also if it has failed a moment ago."""


MISSED: Final = Missed()
WatchItem = Unwatched | Missed | None
KernelTopic = Literal["hostname", "modules", "mounts", "swaps"]
"""What changes without a path that could be watched."""
