"""How long a drift lasts: the agent against a bare loop, and many files against few. Prints one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from harness import agent, declare_files, drifts, median, private_directory, process_figures

COUNT, ROUNDS = 200, 3
FLAT, LARGE, SMALL = (1000, 1), (10_000, 1000), (100, 10)


def latency(paths: list[Path]) -> float:
    """Median latency, seconds; of the quietest of a few rounds, for other machines' noise is not what is measured."""
    return min(median(drifts(paths, COUNT)) for _ in range(ROUNDS))


def bare(paths: list[Path]) -> float:
    """Median latency of the bare loop on these files, seconds."""
    folders = sorted({str(path.parent) for path in paths})
    process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("bare_loop.py")), *folders], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        return latency(paths)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def managed(files: int, directories: int) -> tuple[float, float, dict[str, float]]:
    """(median latency of the agent, of the bare loop on the same files, figures of the agent's process)."""
    with private_directory() as base:
        paths = declare_files(base, files, directories)
        with agent(base) as process:
            drifts(paths, 50)
            ours = latency(paths)
            figures = process_figures(process.pid)
        return ours, bare(paths), figures


def main() -> None:
    """Measure and print."""
    flat, floor, _ = managed(*FLAT)
    small, _, _ = managed(*SMALL)
    large, _, figures = managed(*LARGE)
    print(
        json.dumps(
            {
                "drift_us": round(flat * 1e6),
                "bare_us": round(floor * 1e6),
                "ratio_to_bare": round(flat / floor, 2),
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
