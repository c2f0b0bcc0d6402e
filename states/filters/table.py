"""The filters and tests of templates beyond Jinja's own, collected from the modules of this package.

All are pure functions, except those of `files`, which read this host.
"""

from __future__ import annotations

from typing import Any

from holdfast.states.filters import collections, files, formats, network, text

FILTERS: dict[str, Any] = {**formats.FILTERS, **text.FILTERS, **collections.FILTERS, **network.FILTERS, **files.FILTERS}
"""Name in templates -> function."""

TESTS: dict[str, Any] = {
    "match": text.matches,
    "list": lambda value: isinstance(value, list),
    "equalto": lambda value, other: value == other,
}
"""Tests of templates (`is match`) -> function."""
