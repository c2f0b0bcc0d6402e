"""Measures the costs of recording changes: an agent beside one that records nothing, in one run.

`first_ratio`: the first pass, which creates all files; `cpu_ratio`: its CPU time; `drift_ratio`: a repair. `first_s`
and `peak_mib` are those of the agent that records, `plain_first_s` and `plain_peak_mib` those of the other;
`database_mib` is the size of its database. Prints one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import harness
from harness import agent, declare_files, drifts, median, private_directory, process_figures

FILES, COUNT, ROUNDS = 50_000, 200, 3
WITHOUT = """
from holdfast.agent.records.recorder import Recorder
from holdfast.agent.cli.main import main
Recorder.tell = lambda self, event: None
main()
"""
"""Runs Holdfast without records of what its engine reports."""
UNITS = {"ms": 0.001, "s": 1.0}


@contextlib.contextmanager
def running(base: Path, *, recording: bool) -> Iterator[int]:
    """Run an agent that has created all files; yield its process ID."""
    command = harness.HOLDFAST if recording else [sys.executable, "-c", WITHOUT]
    with mock.patch.object(harness, "HOLDFAST", command), agent(base, timeout=300) as process:
        yield process.pid


def first_pass(base: Path) -> float:
    """Return the seconds of the first pass, from the log."""
    found = re.search(r"converged in (?:(\d+) min )?([\d.]+) (ms|s):", (base / "log").read_text())
    assert found is not None
    return int(found[1] or 0) * 60 + float(found[2]) * UNITS[found[3]]


def peak(process: int) -> float:
    """Return the peak memory of a process in MiB."""
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(kib) / 1024


def main() -> None:
    """Measure and print."""
    figures: dict[str, float] = {}
    with private_directory() as mine, private_directory() as plain:
        sites = {mine: declare_files(mine, FILES, 10), plain: declare_files(plain, FILES, 10)}
        with running(mine, recording=True) as first, running(plain, recording=False) as second:
            time.sleep(1)  # the last changes are written within a second
            figures |= {"first_s": first_pass(mine), "plain_first_s": first_pass(plain)}
            figures |= {"peak_mib": peak(first), "plain_peak_mib": peak(second)}
            figures["cpu_ratio"] = process_figures(first)["cpu_s"] / process_figures(second)["cpu_s"]
            rounds = [[median(drifts(paths, COUNT)) for paths in sites.values()] for _ in range(ROUNDS)]
            recorded, unrecorded = (min(times) for times in zip(*rounds, strict=True))
        size = sum(each.stat().st_size for each in (mine / "state").glob("records.db*"))
    figures["first_ratio"] = figures["first_s"] / figures["plain_first_s"]
    figures |= {"drift_us": recorded * 1e6, "drift_ratio": recorded / unrecorded, "database_mib": size / (1 << 20)}
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
