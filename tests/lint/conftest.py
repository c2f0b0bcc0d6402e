"""Fixtures that inspect a mapping of file names to texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.states.data import CompilerInputs
from holdfast.states.errors import Problem
from holdfast.states.lint.inspect import LintReport, inspect

HOST = {"id": "web1", "os": "Debian", "os_family": "Debian"}
"""Grains of the host for which trees are checked."""


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write files below a directory that only their owner can write."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
    for directory in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)


@pytest.fixture
def look(tmp_path: Path) -> Callable[..., LintReport]:
    """Return the report about a mapping of file names to texts, or about one text as `site.sls`."""

    def run(files: Mapping[str, str] | str, *sls: str, ignore: tuple[str, ...] = (), **more: Any) -> LintReport:
        root = tmp_path / "states"
        root.mkdir(exist_ok=True)
        write(root, {"site.sls": files} if isinstance(files, str) else files)
        values = {
            "grains": HOST,
            "pillar": {"password": "$6$salt$hash"},
            "minion_id": "web1",
            "trusted_uids": frozenset({os.getuid()}),
        }
        return inspect(CompilerInputs(root, sls, **(values | more)), ignore)

    return run


@pytest.fixture
def warnings(look) -> Callable[..., list[Problem]]:
    """Return the warnings about a tree that has no errors."""

    def run(*args: Any, **more: Any) -> list[Problem]:
        report = look(*args, **more)
        assert report.errors == ()
        return list(report.warnings)

    return run
