"""Fixtures of the tests that inspect an engine."""

from __future__ import annotations

import pytest

from fake_machine import Machine
from watched_bench import Watched


@pytest.fixture
def bench(machine: Machine) -> Watched:
    """Return an engine without resources."""
    return Watched(machine)
