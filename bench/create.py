"""Compares `holdfast apply`, when it creates all files, with ten lines of Python that create the same files.

Both are measured with and without flushing to the disk, from the start of the process to its end. They flush alike:
each file before its rename, and each directory once. Without flushing, the files are on a tmpfs, and the environment
variable `CFENGINE` may name the program cf-agent, which never flushes, for comparison. The programs take turns, and the
fastest run counts, because other load only adds to the time. Prints one line of JSON; times are in seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from cfengine import promise_files
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
    """Remove the files, and return the seconds of one run that creates them."""
    for path in paths:
        path.unlink(missing_ok=True)
    began = time.perf_counter()
    done = subprocess.run(argv, input="\n".join(map(str, paths)), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode not in {0, 2} or not all(path.exists() for path in paths):
        raise SystemExit(f"{argv} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    return seconds


def compared(count: int, *, durable: bool) -> dict[str, float]:
    """Return the seconds of `holdfast apply` ("create"), of the ten lines, and of CFEngine if it takes part."""
    flag, program = str(durable).lower(), os.environ.get("CFENGINE")
    with private_directory(on_disk=durable) as base:
        paths = declare_files(base, count, 10)
        config = base / "agent.yaml"
        config.write_text(f"states: {base}/states\npillar: {base}/pillar\nstate_dir: {base}/state\ndurable: {flag}\n")
        commands = {
            "create": [*HOLDFAST, "apply", "--config", str(config), "--format", "json"],
            "ten_lines": [sys.executable, "-c", TEN_LINES, flag],
        }
        if program and not durable:
            commands["cfengine"] = [program, "--no-lock", "--file", str(promise_files(base, paths))]
        rounds = [[timed(argv, paths) for argv in commands.values()] for _ in range(RUNS)]
    return {name: min(times) for name, times in zip(commands, zip(*rounds, strict=True), strict=True)}


def main() -> None:
    """Measure and print."""
    figures: dict[str, float] = {}
    for count in SIZES:
        for name, durable in (("flushed", True), ("unflushed", False)):
            found = compared(count, durable=durable)
            for who, seconds in found.items():
                figures[f"{who}_{name}_{count}_s"] = round(seconds, 3)
                if who != "create":
                    figures[f"{who}_ratio_{name}_{count}"] = round(found["create"] / seconds, 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
