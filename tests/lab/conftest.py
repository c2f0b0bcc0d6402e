"""Fixtures of the lab: a fresh host for each test, with or without Holdfast.

If no host can be booted, the tests are skipped with a reason; on CI (`CI` in the environment) they fail.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the modules of the lab are not a package

import installed
import lab
import outside
from driver import Driver


@pytest.fixture(scope="session")
def run() -> Iterator[lab.Run]:
    """Create the run of this test process, and remove all its guests at the end."""
    if why := outside.missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"the lab cannot be used: {why}")
    with lab.running() as run:
        yield run


@pytest.fixture(scope="session")
def layers(run: lab.Run) -> tuple[Path, ...]:
    """Return layers with Holdfast installed from a wheel of this checkout."""
    return installed.layers(run)


@pytest.fixture
def host(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[lab.Host]:
    """Return a fresh host with Holdfast installed."""
    host = run.host(layers=layers)
    try:
        yield host
    finally:
        host.down()


@pytest.fixture
def driver(host: lab.Host) -> Iterator[Driver]:
    """Return a driver of real kinds and providers in a fresh host."""
    with Driver(host) as driver:
        yield driver
