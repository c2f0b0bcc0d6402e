"""Compares with Salt: a worker for each version of Salt computes its answers while the tests read them.

`scripts/test --salt` creates the environments, and so does CI. Without them the tests are skipped with a reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # these modules are not a package: Salt's interpreter runs one of them

import ours
from asking import Asking
from stage import Job, plain_umask

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def jobs() -> list[Job]:
    """Return the jobs for all trees."""
    from trees import TREES

    return [tree.job() for tree in TREES]


@pytest.fixture(scope="session")
def pythons() -> dict[str, Path]:
    """Return the interpreter of each version of Salt."""
    if os.environ.get("HOLDFAST_SALT") == "no":
        pytest.skip("scripts/test compares with Salt if it is called with --salt")
    found = {version: ROOT / f".venv-salt-{version}" / "bin" / "python" for version in ("3007", "3008")}
    if missing := [str(path) for path in found.values() if not path.exists()]:
        pytest.skip(f"no Salt to compare with: {' and '.join(missing)} missing; scripts/test --salt installs it")
    return found


@pytest.fixture(scope="session")
def _workers(
    jobs: list[Job], pythons: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Asking]]:
    """Start the workers of both versions."""
    asked = {"3007": jobs, "3008": [{**job, "modes": ()} for job in jobs]}  # Salt 3008 only compiles
    workers = {
        version: Asking(python, tmp_path_factory.mktemp(version), asked[version]) for version, python in pythons.items()
    }
    yield workers
    for worker in workers.values():
        worker.close()


@pytest.fixture
def salt_3007(_workers: dict[str, Asking]) -> Callable[[str], dict[str, Any]]:
    """Return a function that answers for a tree with Salt 3007."""
    return _workers["3007"].answer


@pytest.fixture
def salt_3008(_workers: dict[str, Asking]) -> Callable[[str], dict[str, Any]]:
    """Return a function that compiles a tree with Salt 3008, without running it."""
    return _workers["3008"].answer


@pytest.fixture
def holdfast(tmp_path: Path) -> Iterator[Callable[[Job], dict[str, Any]]]:
    """Return a function that answers for a tree with Holdfast."""
    before = os.umask(0)
    plain_umask()
    yield lambda job: ours.answer(tmp_path / "ours", job)
    os.umask(before)
