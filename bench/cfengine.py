"""Compares `holdfast apply` of files that are already as declared with CFEngine, and with a minimal Python program.

The Python program imports the libraries that every run needs, and builds one model. The environment variable `CFENGINE`
names the program cf-agent, which gets the same files as promises; without it, only the run with one file is measured.
The programs take turns, and each ratio is one of medians. Elapsed and CPU seconds are printed, because elapsed time
says little on a busy machine. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import CONTENT, HOLDFAST, declare_files, median, private_directory

RUNS = 7
FLOOR = """
import asyncio, yaml, pydantic
class Model(pydantic.BaseModel):
    name: str
    mode: int
Model(name="a", mode=1)
"""
"""A minimal program, with the imports that a run with one file needs."""


def promise_files(base: Path, paths: Sequence[Path]) -> Path:
    """Write promises of CFEngine for the files of `declare_files`, with the same content and mode."""
    content = CONTENT.rstrip("\n")
    lines = [
        "body common control { bundlesequence => { 'files' }; }",
        "body perms m(mode) { mode => '$(mode)'; rxdirs => 'false'; }",
        "bundle agent files {",
        "files:",
        *(f'  "{path}" create => "true", perms => m("0644"), content => "{content}\n";' for path in paths),
        "}",
    ]
    file = base / "promises.cf"
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)  # cf-agent refuses files that others can write
    return file


def timed(argv: Sequence[str]) -> tuple[float, float]:
    """Return elapsed and CPU seconds of one run. Raise SystemExit if it fails."""
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(argv, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"{argv} ended with {process.returncode}:\n{output.read()[-2000:].decode()}")
    return wall, usage.ru_utime + usage.ru_stime


def alternate(commands: Mapping[str, Sequence[str]]) -> dict[str, tuple[float, float]]:
    """Return median elapsed and CPU seconds of each command. The commands take turns, so other load affects all."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, argv in commands.items():
            runs[name].append(timed(argv))
    return {
        name: (median([wall for wall, _ in times]), median([cpu for _, cpu in times])) for name, times in runs.items()
    }


def compare(files: int, program: str | None) -> dict[str, float]:
    """Return all figures for this number of files."""
    with private_directory() as base:
        paths = declare_files(base, files, min(files, 10))
        ours = [*HOLDFAST, "apply", "--states", str(base / "states"), "--state-dir", str(base / "state")]
        subprocess.run(ours, stdout=subprocess.DEVNULL, check=False)  # creates the files
        commands = {"holdfast": ours}
        if files == 1:
            commands["floor"] = [sys.executable, "-c", FLOOR]
        if program:
            theirs = [program, "--no-lock", "--file", str(promise_files(base, paths))]
            changed = [path.stat().st_ctime_ns for path in paths]
            timed(theirs)
            if changed != [path.stat().st_ctime_ns for path in paths]:
                raise SystemExit("cf-agent has changed files that are as declared: the promises are not the same")
            commands["cfengine"] = theirs
        found = alternate(commands)
    figures = {
        f"{name}_{files}_{what}": round(value, 3)
        for name, pair in found.items()
        for what, value in zip(("s", "cpu_s"), pair, strict=True)
    }
    for other in found.keys() - {"holdfast"}:
        for which, what in enumerate(("s", "cpu_s")):
            figures[f"{other}_ratio_{files}_{what}"] = round(found["holdfast"][which] / found[other][which], 2)
    return figures


def main() -> None:
    """Measure and print."""
    program = os.environ.get("CFENGINE")
    figures: dict[str, float] = {}
    for files in (1, 1000, 5000) if program else (1,):
        figures |= compare(files, program)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
