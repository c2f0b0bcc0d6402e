"""One-shot runs that make all files, flushed to the disk and not, whole process, against ten lines of Python that do the same.

Both make the same flushes: each file before it is renamed, each directory once. Prints one line of JSON; each time is the least of a few
runs that take turns, for other programs on the machine only add to it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from harness import CONTENT, HOLDFAST, declare_files, private_directory

RUNS = 2
SIZES = (1000, 5000)
TEN_LINES = """
import os, sys
durable, *paths = sys.argv[1], *sys.stdin.read().split()
for path in paths:
    with open(path + ".new", "wb") as file:
        file.write(CONTENT)
        file.flush()
        durable == "true" and os.fsync(file.fileno())
    os.rename(path + ".new", path)
for directory in {os.path.dirname(path) for path in paths} if durable == "true" else ():
    os.fsync(os.open(directory, os.O_RDONLY))
""".replace("CONTENT", repr(CONTENT.encode()))


def timed(argv: list[str], paths: list[Path]) -> float:
    """Seconds of one run that finds none of the files."""
    for path in paths:
        path.unlink(missing_ok=True)
    began = time.perf_counter()
    done = subprocess.run(argv, input="\n".join(map(str, paths)), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode not in {0, 2} or not all(path.exists() for path in paths):
        raise SystemExit(f"{argv} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    return seconds


def compared(count: int, *, durable: bool) -> tuple[float, float]:
    """Seconds of `holdfast apply`, and of the ten lines."""
    flag = str(durable).lower()
    with private_directory(on_disk=True) as base:
        paths = declare_files(base, count, 10)
        config = base / "agent.yaml"
        config.write_text(f"states: {base}/states\npillar: {base}/pillar\nstate_dir: {base}/state\ndurable: {flag}\n")
        ours = [*HOLDFAST, "apply", "--config", str(config), "--format", "json"]
        theirs = [sys.executable, "-c", TEN_LINES, flag]
        both = [[timed(argv, paths) for argv in (ours, theirs)] for _ in range(RUNS)]
    first, second = (min(times) for times in zip(*both, strict=True))
    return first, second


def main() -> None:
    """Measure and print."""
    figures: dict[str, float] = {}
    for count in SIZES:
        for name, durable in (("flushed", True), ("unflushed", False)):
            ours, theirs = compared(count, durable=durable)
            figures[f"create_{name}_{count}_s"] = round(ours, 3)
            figures[f"ten_lines_{name}_{count}_s"] = round(theirs, 3)
            figures[f"ratio_{name}_{count}"] = round(ours / theirs, 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
