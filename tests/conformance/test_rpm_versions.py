"""The order of versions against rpm itself, in a host that has it."""

from __future__ import annotations

import random

import lab
import pytest
from rpm_sites import DnfSite

from holdfast.resources.providers import _rpm

pytestmark = pytest.mark.lab

SEED = 7
PAIRS = 2000
ALPHABET = "0019aAb~^.-_:+"
"""Characters of random versions; those with a meaning of their own are frequent."""
BATCH = 100
"""Pairs that one rpm compares."""


def random_pair(choice: random.Random) -> tuple[str, str]:
    """Return two versions that differ in at most one character."""
    one = "".join(choice.choices(ALPHABET, k=choice.randrange(1, 9)))
    place = choice.randrange(len(one))
    return one, one[:place] + choice.choice(ALPHABET) + one[place + 1 :]


def asked(host: lab.Host, pairs: list[tuple[str, str]]) -> list[int]:
    """Return how rpm compares pairs of versions."""
    program = "".join(f'print(rpm.vercmp("{one}", "{other}") .. " ");' for one, other in pairs)
    return [int(order) for order in host.run("rpm", "--eval", f"%{{lua:{program}}}").stdout.split()]


def test_random_versions_are_compared_as_by_rpm(run: lab.Run):
    """The versions contain all special characters; the pairs are the same in each run."""
    choice = random.Random(SEED)
    pairs = [random_pair(choice) for _ in range(PAIRS)]
    host = run.host("versions", layers=DnfSite.layers(run))
    try:
        orders = [order for at in range(0, PAIRS, BATCH) for order in asked(host, pairs[at : at + BATCH])]
    finally:
        host.down()

    wrong = [
        (pair, order, _rpm.compare(*pair))
        for pair, order in zip(pairs, orders, strict=True)
        if _rpm.compare(*pair) != order
    ]
    assert wrong == []
