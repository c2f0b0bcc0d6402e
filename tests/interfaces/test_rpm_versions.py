"""Versions are compared as rpm compares them; tests/conformance compares random ones with rpm itself."""

from __future__ import annotations

import pytest

from holdfast.resources.providers import _rpm

ORDERED = (
    ("1.0~rc1", "1.0"), ("1.0~~", "1.0~"), ("1.0", "1.0^git1"), ("1.0^git1", "1.0.1"), ("1.0^", "1.0.1"),
    ("1.0a", "1.0.1"), ("1.0", "1.0a"), ("a", "1"), ("1.9", "1.10"), ("1.0-9", "1.0-10"), ("1.0", "1.0-1"),
    ("9.9-9", "1:0.1-1"), ("1.fc9", "1.fc10"), ("2.0", "2.0.0"), ("A", "a"), ("", "0"), ("1.0~rc1-5", "1.0-1"),
)  # fmt: skip
"""Pairs of an older and a newer version."""
EQUAL = (("1.0", "1_0"), ("1.0", "01.000"), ("0:1.0-1", "1.0-1"), ("1.0.", "1.0"), ("1a2", "1.a.2"))


@pytest.mark.parametrize(("older", "newer"), ORDERED)
def test_the_older_version_is_smaller(older: str, newer: str):
    """The comparison is right in both directions."""
    assert (_rpm.compare(older, newer), _rpm.compare(newer, older)) == (-1, 1)


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_separators_and_leading_zeros_do_not_count(one: str, other: str):
    """An epoch of 0 does not count either."""
    assert _rpm.compare(one, other) == 0


def test_versions_are_sorted_once_each():
    """The newest version is first."""
    assert _rpm.newest_first(["1.9-1", "1:0.1-1", "1.10-1", "1.9-1"]) == ["1:0.1-1", "1.10-1", "1.9-1"]
