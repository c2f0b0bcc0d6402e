"""Measures how long a drift lasts: in an agent, in a bare asyncio loop, and with the agent's kind but no engine.

Also compares many files with few. Prints one line of JSON; each latency is a median of the quietest round, in
microseconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from harness import CONTENT, agent, declare_files, drifts, median, private_directory, process_figures

COUNT, ROUNDS = 200, 3
WARM = 50
"""Repairs before the measured ones."""
REST = 2.0
"""Seconds after the last repair until threads are counted: threads that write records wait a second for more work."""
FLAT, LARGE, SMALL = (1000, 1), (10_000, 1000), (100, 10)
MINE, *OTHERS = sorted(os.sched_getaffinity(0))


def pin(process: int) -> None:
    """Keep the measured process off the CPU of this process, which busy-waits for the repair.

    Otherwise the placement by the kernel changes the result by a factor of up to three.
    """
    for task in os.listdir(f"/proc/{process}/task"):
        os.sched_setaffinity(int(task), OTHERS or [MINE])
    os.sched_setaffinity(0, [MINE])


@contextlib.contextmanager
def managed(files: int, directories: int) -> Iterator[tuple[list[Path], int]]:
    """Run an agent; yield the files that it manages, and its process ID."""
    with private_directory() as base:
        paths = declare_files(base, files, directories)
        with agent(base) as process:
            pin(process.pid)
            drifts(paths, WARM)
            yield paths, process.pid


@contextlib.contextmanager
def baseline(program: str, files: int) -> Iterator[list[Path]]:
    """Run `bare_loop.py` or `kind_loop.py`; yield the files in one directory that it restores."""
    with private_directory() as base:
        paths = declare_files(base, files, 1)
        for path in paths:
            path.write_text(CONTENT)
            path.chmod(0o644)
        where = paths[0].parent if program == "bare_loop.py" else base
        argv = [sys.executable, Path(__file__).with_name(program), where]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise SystemExit(f"{program} has ended with status {process.wait()}")
            pin(process.pid)
            try:
                yield paths
            finally:
                process.kill()


def latencies(*managed_files: list[Path]) -> list[float]:
    """Return for each list of files the median seconds of a repair, in the round with the least other load.

    The lists take turns.
    """
    rounds = [[median(drifts(paths, COUNT)) for paths in managed_files] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def main() -> None:
    """Measure and print."""
    loops = baseline("bare_loop.py", FLAT[0]), baseline("kind_loop.py", FLAT[0])
    with managed(*FLAT) as (ours, _), loops[0] as theirs, loops[1] as kinds:
        flat, floor, kind = latencies(ours, theirs, kinds)
    with managed(*SMALL) as (few, _), managed(*LARGE) as (many, process):
        small, large = latencies(few, many)
        time.sleep(REST)
        figures = process_figures(process)
    print(
        json.dumps(
            {
                "drift_us": round(flat * 1e6),
                "bare_us": round(floor * 1e6),
                "ratio_to_bare": round(flat / floor, 2),
                "kind_us": round(kind * 1e6),
                "ratio_of_kind_to_bare": round(kind / floor, 2),
                "drift_100_us": round(small * 1e6),
                "drift_10000_us": round(large * 1e6),
                "ratio_10000_to_100": round(large / small, 2),
                "threads_10000": int(figures["threads"]),
                "inotify_10000": int(figures["inotify"]),
                "rss_mib_10000": round(figures["rss_mib"], 1),
            }
        )
    )


if __name__ == "__main__":
    main()
