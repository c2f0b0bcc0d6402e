"""The packages that are part of Holdfast: the paths of their schemas, and the commands of their providers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "resources/remote"
PROGRAMS = {".py": sys.executable, ".js": "node"}
"""Ending of a provider's program -> the interpreter that executes it."""


def packages() -> list[str]:
    """Return the names of the packages."""
    return sorted(each.parents[1].name for each in FOLDER.glob("*/provider/schema.json"))


def ready() -> list[str]:
    """Return the names of the packages whose providers are ready to run, so that a plugin needs neither setting."""
    return [name for name in packages() if _program(name)]


def completed(plugins: Any) -> Any:
    """Return the setting `plugins`, with schema and command of the packages of Holdfast where they are not given."""
    if not isinstance(plugins, Mapping):
        return plugins
    return {name: _completed(str(name), given) for name, given in plugins.items()}


def _completed(name: str, given: Any) -> Any:
    """Return the settings of one plugin."""
    program = _program(name)
    if program is None or not isinstance(given, Mapping | None):
        return given
    found = {"schema": str(program.with_name("schema.json")), **(given or {})}
    if not found.keys() & {"command", "address"}:
        found["command"] = [PROGRAMS[program.suffix], str(program)]
    return found


def _program(name: str) -> Path | None:
    """Return the program of a package's provider; None if Holdfast has none, or if it must be compiled first."""
    folder = FOLDER / name / "provider"
    return next((path for end in PROGRAMS if (path := folder / f"{name}_plugin{end}").is_file()), None)
