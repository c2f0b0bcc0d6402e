"""Fixtures of the lab: a fresh host for each test, with or without Holdfast installed.

Where no host can be booted the tests are skipped, with the reason; on CI (`CI` in the environment) that is a failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the lab's own modules are no package

import installed
import lab
import outside
from driver import Driver


@pytest.fixture(scope="session")
def run() -> Iterator[lab.Run]:
    """The guests of this test process; all are gone at its end."""
    if why := outside.missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"the lab cannot be used: {why}")
    with lab.running() as run:
        yield run


@pytest.fixture(scope="session")
def layers(run: lab.Run) -> tuple[Path, ...]:
    """Layers with Holdfast installed from a wheel of this checkout."""
    return installed.layers(run)


@pytest.fixture
def host(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[lab.Host]:
    """A fresh host with Holdfast installed."""
    host = run.host(layers=layers)
    try:
        yield host
    finally:
        host.down()


@pytest.fixture
def driver(host: lab.Host) -> Iterator[Driver]:
    """Real kinds and providers at work in a fresh host."""
    with Driver(host) as driver:
        yield driver
