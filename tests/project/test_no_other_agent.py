"""The tests do not depend on whether an agent runs on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from no_other_agent import hide_other_agent

PROGRAM = """
import pathlib, subprocess, sys
from no_other_agent import hide_other_agent
hide_other_agent([*map(pathlib.Path, sys.argv[1:])])
for directory in sys.argv[1:]:
    subprocess.run(["ls", directory], check=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_tests_and_what_they_start_do_not_see_the_agent_of_the_machine(tmp_path: Path) -> None:
    """The directories are as before for all others; one that does not exist or is empty stays as it is."""
    directories = [tmp_path / name for name in ("run", "etc", "empty")]
    for directory in directories:
        directory.mkdir()
    marks = [directory / "mark" for directory in directories[:2]]
    for mark in marks:
        mark.touch()
    argv = [sys.executable, "-c", PROGRAM, *map(str, directories)]
    support = {**os.environ, "PYTHONPATH": str(Path(hide_other_agent.__code__.co_filename).parent)}
    done = subprocess.run(argv, capture_output=True, text=True, env=support, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [mark.exists() for mark in marks] == [True, True]
