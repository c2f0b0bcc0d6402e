"""A process that is killed between any two steps of a write to SQLite: whole transactions, and all acknowledged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import northbound_writer
from deadline import DEADLINE
from extent import sample
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver

STEPS = "pwrite64,ftruncate,fdatasync,fsync,rename,unlink"
"""System calls that are the steps of a write."""


def run(directory: Path, *options: str) -> tuple[list[str], str]:
    """Run the process under strace. Return what it printed, and the trace."""
    trace = directory / "trace"
    path = directory / "northbound.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", trace, "-e", f"trace={STEPS}", *options,
         sys.executable, northbound_writer.__file__, path],
        capture_output=True, text=True, check=False, env=environment, timeout=DEADLINE,
    )  # fmt: skip
    said = done.stdout.split()
    assert "Traceback" not in done.stderr, done.stderr
    return said, trace.read_text()


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Count the system calls of a process that is not killed."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    said, trace = run(tmp_path_factory.mktemp("whole"))
    assert said == [*map(str, range(northbound_writer.WRITES)), "closed"]
    return {step: len(re.findall(rf"\b{step}\(", trace)) for step in STEPS.split(",")}


def moments(steps: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield each system call by its name and number. strace counts for each thread, so some never happen."""
    for step, count in steps.items():
        for number in range(1, count + 1):
            yield step, number


async def test_a_killed_process_leaves_whole_transactions(steps: dict[str, int], tmp_path: Path) -> None:
    """Before each system call, also while the file is recreated; the next process finds all that was acknowledged."""
    every = list(moments(steps))
    assert steps["fdatasync"] + steps["fsync"] >= northbound_writer.WRITES
    for step, number in sample(every, 12):
        directory = tmp_path / f"{step}{number}"
        directory.mkdir()
        said, _ = run(directory, "-e", f"inject={step}:signal=SIGKILL:when={number}")
        last = max((int(each) for each in said if each != "closed"), default=-1)

        driver = SqliteDriver(directory / "northbound.db", agent=True)
        await driver.open()
        rows = {(row.table, row.id): row.data for row in (await driver.read()).rows}
        await driver.close()
        assert driver.renewed == "", (step, number)
        written = int(rows.get(("t", "a"), b"-1"))
        assert last <= written <= last + 1, (step, number)
        expected = {("u", str(each)): b"%d" % each for each in range(written + 1)}
        if written >= 0:
            expected |= {("t", "a"): b"%d" % written, ("t", "b"): b"%d" % written}
        assert rows == expected, (step, number)


def test_a_write_is_flushed_before_it_is_acknowledged(tmp_path: Path) -> None:
    """A loss of power keeps what was flushed: nothing of the log is written between the flush and the answer."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    _, trace = run(tmp_path, "-y", "-e", "trace=pwrite64,write,fdatasync,fsync")
    acknowledged, dirty = 0, set()
    for line in trace.splitlines():
        call, _, rest = line.split(maxsplit=1)[1].partition("(")
        name = rest[: rest.index(">")].rpartition("/")[2] if "<" in rest else ""
        if call == "pwrite64" and not name.endswith(("-shm", ".lock")):
            dirty.add(name)
        elif call in {"fdatasync", "fsync"}:
            dirty.discard(name)
        elif call == "write" and rest.startswith("1<"):
            acknowledged += 1
            assert dirty <= {"northbound.db"}, line  # it is in the log as well
    assert acknowledged == northbound_writer.WRITES + 1
