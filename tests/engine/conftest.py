"""Fixtures of the engine's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_bench import Commands
from engine_bench import Bench
from fake_machine import Machine


@pytest.fixture
def bench(machine: Machine) -> Bench:
    """Return an engine bench with a journal in memory."""
    return Bench(machine)


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    """Return an engine bench whose engine runs real commands, in real time."""
    return Commands(tmp_path)
