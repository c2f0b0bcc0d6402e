"""Each benchmark runs, at its smallest size, so that a contract that changes breaks a test and not the next table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import etcd_server
from deadline import DEADLINE

BENCH = Path(__file__).parents[2] / "bench"
RUN = """
import importlib, json, sys
script = importlib.import_module(sys.argv[1])
vars(script).update(json.loads(sys.argv[2]))
del sys.argv[1:3]
script.main()
"""
"""Runs a script with other values for some of its constants."""


class Small(NamedTuple):
    """The smallest size of one benchmark."""

    constants: Mapping[str, Any] = {}
    arguments: tuple[str, ...] = ()
    sized: Mapping[str, str] = {}
    """Size in the keys of the table -> the size here."""


SMALL = {
    "apply": Small({"RUNS": 1, "SIZES": [1, 2, 3]}, sized={"10000": "3", "5000": "2", "1000": "1"}),
    "cfengine": Small({"RUNS": 1}),
    "archive": Small({"MEMBERS": 6, "EACH": 2}),
    "change": Small({"FILES": 8, "EACH": 2, "REPEAT": 1}),
    "check": Small({"STATES": 8, "TEMPLATES": 2}, ("--repeat", "1")),
    "compile": Small({"SHORT": 10}, ("--states", "8", "--repeat", "1")),
    "create": Small({"RUNS": 1, "SIZES": [1, 2]}, sized={"5000": "2", "1000": "1"}),
    "drift": Small({"COUNT": 3, "ROUNDS": 1, "WARM": 1, "FLAT": [4, 1], "LARGE": [4, 2], "SMALL": [2, 1]}),
    "edges": Small({"DIRECTORIES": 3, "REPEAT": 1}),
    "engine": Small({"EVENTS": 3, "REPEAT": 1}, ("10", "20"), sized={"100000": "20"}),
    "idl": Small({"MODULE": 2}, ("--resources", "4", "--repeat", "1")),
    "idle": Small({"RESOURCES": 10, "SETTLE": 0, "WINDOW": 0.1}),
    "loop": Small({"DRIFTS": 1, "QUIET": 0, "SELDOM": 0.05}, ("10", "2")),
    "records": Small({"FILES": 10, "COUNT": 1, "ROUNDS": 1}),
    "remote": Small({"WARM": 1}, ("--checks", "2", "--resources", "3", "--repeat", "1")),
    "redis": Small({"PAUSE": 0.0}, ("--keys", "2", "--repairs", "2")),
    "store": Small({"RECORDS": 40, "BATCH": 20, "REPEAT": 1}),
    "sqlite": Small({"BATCHES": 2, "EACH": 2, "CHANGES": 2}),
    "etcd": Small({"WRITERS": 2, "EACH": 2, "ROUNDS": 1, "CHANGES": 2}),
    "world": Small({"STRINGS": 4, "CHANGES": 2}),
    "who": Small({"COUNT": 1, "DIRECTORIES": 2, "EVENTS": 2, "RESTED": 1, "PROGRAMS": 2, "REPEAT": 1}),
    "paths": Small({"COUNT": 3, "SIZES": {"small": [4, 2]}}),
}
OTHERS = {
    "bare_loop": "drift runs it",
    "harness": "all others import it",
    "kind_loop": "drift runs it",
    "salt_compile": "it needs Salt",
    "table": "it runs all others at their full size",
}


@cache
def table() -> list[tuple[str, str]]:
    """Return (command, key) of each row of the table."""
    code = "import json, table; print(json.dumps([(row[0], row[3]) for row in table.ROWS]))"
    said = subprocess.run([sys.executable, "-c", code], cwd=BENCH, capture_output=True, text=True, check=True).stdout
    return [(name, key) for name, key in json.loads(said)]


def rows(script: str) -> set[str]:
    """Return the keys of one script in the table, without those that need Salt or CFEngine."""
    keys = {key for name, key in table() if name.split()[0] == script}
    return {key for key in keys if not key.startswith(("cfengine", "ratio_to_salt"))}


def test_each_benchmark_is_tested() -> None:
    """A new script needs an entry in this module."""
    scripts = {path.stem for path in BENCH.glob("*.py")}
    assert scripts == SMALL.keys() | OTHERS.keys(), "add the script to SMALL, or to OTHERS with the reason"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mount_of_another_program_does_not_end_the_bare_loop(tmp_path: Path) -> None:
    """Hosts mount file systems at any time, also while `drift` measures."""
    file, point = tmp_path / "files/file", tmp_path / "point"
    for directory in (file.parent, point):
        directory.mkdir()
    file.write_text("declared\n")
    command = ("unshare", "--mount", sys.executable, "bare_loop.py", str(file.parent))  # mounts are those of the loop
    with subprocess.Popen(command, cwd=BENCH, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        into = ("nsenter", "--mount", f"--target={process.pid}")
        subprocess.run([*into, "mount", "-t", "tmpfs", "none", str(point)], check=True)
        file.write_text("damaged\n")
        end = time.monotonic() + DEADLINE
        while file.read_text() != "declared\n" and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        ended = process.poll()
        process.kill()
    assert (ended, file.read_text()) == (None, "declared\n")


@pytest.mark.parametrize("script", SMALL)
def test_a_benchmark_prints_the_figures_of_its_rows(script: str) -> None:
    """The last line is JSON with a number for each row of the table."""
    small = SMALL[script]
    if script in ("etcd", "world") and not etcd_server.installed():
        pytest.skip("etcd is not installed (Debian: etcd-server)")
    done = subprocess.run(
        [sys.executable, "-c", RUN, script, json.dumps(small.constants), *small.arguments],
        cwd=BENCH,
        env={key: value for key, value in os.environ.items() if key not in {"SALT", "CFENGINE"}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    if not figures:
        pytest.skip(done.stderr.strip())
    wanted = rows(script)
    if script == "apply":
        wanted -= {"ratio_1000", "ratio_5000"}  # relative to Salt
    for size, smallest in small.sized.items():
        wanted = {"_".join(smallest if part == size else part for part in key.split("_")) for key in wanted}
    assert wanted <= figures.keys(), "the script must print each figure that bench/table.py names"
    assert all(isinstance(figures[key], int | float) for key in wanted)
