"""Fixtures of the tests that look into an engine."""

from __future__ import annotations

import pytest

from engine_bench import Action, Machine, Setting
from watched_bench import Watched


@pytest.fixture
def bench() -> Watched:
    """An empty machine and an engine on it."""
    machine = Machine()
    Setting.machine = Action.machine = machine
    return Watched(machine)
