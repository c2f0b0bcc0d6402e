"""Fixtures with control groups for tests of commands."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.host import cgroups


def group_mount() -> Path | None:
    """Return the mount point of control groups of version 2."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    return next((Path(fields[1]) for fields in lines if fields[2] == "cgroup2"), None)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Create a control group for the groups of commands, and remove it with everything in it at the end."""
    top = group_mount()
    if top is None or not os.access(top, os.W_OK):
        pytest.skip("there are no control groups that can be written")
    path = top / f"holdfast-test-{os.getpid()}"
    path.mkdir()
    yield path
    cgroups.kill(path)
    for child in path.iterdir():
        if child.is_dir():
            wait_for_removal(child)
    path.rmdir()


def wait_for_removal(path: Path) -> None:
    """Remove a group as soon as it is empty."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            path.rmdir()
        except OSError:
            assert time.monotonic() < deadline
            os.sched_yield()
        else:
            return
