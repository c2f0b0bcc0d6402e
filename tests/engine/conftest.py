"""Fixtures of the engine's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_bench import Commands
from engine_bench import Action, Bench, Machine, Setting


@pytest.fixture
def machine() -> Machine:
    """An empty machine, which the kinds of the bench manage."""
    machine = Machine()
    Setting.machine = Action.machine = machine
    return machine


@pytest.fixture
def bench(machine: Machine) -> Bench:
    """An engine bench with a journal in memory."""
    return Bench(machine)


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    """Real commands."""
    return Commands(tmp_path)
