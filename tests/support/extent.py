"""How many cases the tests try: all of them on CI; elsewhere, in each run, a different part of the slow ones."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

CI = bool(os.environ.get("CI"))
SEEDS = int(os.environ.get("SEEDS", "20000" if CI else "300"))
"""Number of simulated lives; `SEEDS` in the environment sets it."""


def sample(cases: Sequence[T], one_in: int) -> Sequence[T]:
    """Return all cases on CI; elsewhere one of `one_in` cases, at equal distances from a random first one."""
    return cases if CI else cases[random.randrange(one_in) :: one_in]
