"""How much replaced content is kept. Separate from `host/kept`, so that reading the settings imports no services."""

from __future__ import annotations

from typing import NamedTuple


class KeptBounds(NamedTuple):
    """Bounds in bytes."""

    largest: int = 1 << 20
    """Of one file; 0: nothing is kept."""
    room: int = 64 << 20
    """Of all files."""


KEPT_BOUNDS = KeptBounds()
"""The default."""
