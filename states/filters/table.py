"""The filters and tests that templates have beyond Jinja's own: two tables, put together of what each module here has.

An entry is a pure function, but for those of `files`, which look at this host.
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
