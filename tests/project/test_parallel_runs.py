"""Tests run in several processes, as `scripts/test` does it."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ONE_IN, left_out

ROOT = Path(__file__).parents[2]
CONFTEST = ROOT / "tests" / "conftest.py"
MODULE = """
import os, pytest

def test_first(): print("process", os.getpid())
def test_second(): print("process", os.getpid())
"""
SKIPPED = """
import pytest

def test_third(): pytest.skip("something is missing")
"""


def test_a_skipped_test_fails_the_run_on_ci_and_a_module_stays_in_one_process(tmp_path: Path) -> None:
    """The options are those of `scripts/test`, but for the number of processes: two show as much as five.

    The test starts pytest three times, which takes two seconds.
    """
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "test_a.py").write_text(MODULE)
    (tmp_path / "test_b.py").write_text(SKIPPED)
    (options,) = re.findall(r"-m pytest (--num.*) \$sample \"\$@\"", (ROOT / "scripts/test").read_text())

    command = [
        sys.executable,
        "-m",
        "pytest",
        *options.replace("=auto", "=2").split(),
        "--rootdir",
        tmp_path,
        "-p",
        "no:cacheprovider",
        "-pno:schemathesis",
        "-o",
        f"pythonpath={ROOT / 'src'} {ROOT / 'tests/support'}",
        "-rP",
        tmp_path,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "CI": "1"}, cwd=tmp_path
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "skipped on CI: a failure" in done.stdout
    assert "test_b.py::test_third: Skipped: something is missing" in done.stdout
    assert len(re.findall(r"^process", done.stdout, re.MULTILINE)) == 2
    assert len(set(re.findall(r"^process \d+", done.stdout, re.MULTILINE))) == 1


def test_tests_that_measure_time_run_alone() -> None:
    """`--timing=alone` selects only these tests, `--timing=without` all others."""
    module = "tests/lint/test_inspect.py"
    found = {}
    for timing in ("with", "without", "alone"):
        command = [sys.executable, "-m", "pytest", module, "--collect-only", "-q", f"--timing={timing}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        found[timing] = {line for line in done.stdout.splitlines() if line.startswith(module)}

    assert len(found["alone"]) == 1
    assert found["alone"] | found["without"] == found["with"]
    assert not found["alone"] & found["without"]


def test_each_test_that_boots_hosts_is_in_one_sample() -> None:
    """Consecutive numbers select all tests in turn; tests that boot no host are in each sample."""
    module, other = "tests/lab/test_packages.py", "tests/project/test_extent.py"
    command = [sys.executable, "-m", "pytest", module, other, "--collect-only", "-q", "--sample=7"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    numbers = range(10)
    samples = [{*numbers} - left_out(numbers, number) for number in range(7, 7 + ONE_IN)]

    assert sorted(number for sample in samples for number in sample) == [*numbers]
    assert done.stdout.count(other) == Path(ROOT / other).read_text().count("def test_")
    assert 0 < done.stdout.count(module) < Path(ROOT / module).read_text().count("def test_")


def test_the_longest_modules_exist() -> None:
    """`scripts/test` starts them first; a renamed module would lose its place."""
    tree = ast.parse(CONFTEST.read_text())
    (longest,) = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LONGEST"
    ]

    assert [name for name in ast.literal_eval(longest) if not (ROOT / name).is_file()] == []
