"""Fixtures of the tests that inspect an engine."""

from __future__ import annotations

import pytest

from engine_bench import Action, Machine, Setting
from watched_bench import Watched


@pytest.fixture
def bench() -> Watched:
    """Return an engine without resources."""
    machine = Machine()
    Setting.machine = Action.machine = machine
    return Watched(machine)
