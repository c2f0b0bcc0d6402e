"""Runs each `tests/remote/cases/<kind>/<behaviour>.yaml`, as `tests/cases` does, with the provider in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.resources.kind_testing import run_case
from holdfast.resources.plugin import Plugin
from remote_bench import notes_plugin

CASES = sorted(Path(__file__).parent.glob("cases/*/*.yaml"))


async def plugins(directory: Path) -> Mapping[str, Plugin]:
    """Return the plugin, whose notes are the files of the case."""
    return {"notes": await notes_plugin(directory)}


@pytest.mark.parametrize("case", CASES, ids=[f"{path.parent.name}-{path.stem}" for path in CASES])
@pytest.mark.usefixtures("note")
def test_case(case, tmp_path):
    """The result is as expected, nothing changes without `apply`, and the second run finds no difference."""
    tmp = tmp_path / "world"
    tmp.mkdir()

    run_case(case, tmp, plugins)


def test_there_are_cases():
    """The pattern finds them."""
    assert len(CASES) >= 6
