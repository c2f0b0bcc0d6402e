"""Measures `holdfast apply` of files that are already as declared, from the start of the process to its end.

If the environment variable `SALT` names the directory of Salt's programs, `salt-call` applies the same states for
comparison. Prints one line of JSON; times are in seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from harness import HOLDFAST, declare_files, median, private_directory

RUNS, SIZES = 3, (1000, 5000, 10_000)


def timed(argv: list[str]) -> float:
    """Return the median seconds of `RUNS` runs, after one that creates the files and fills the caches."""
    times = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{argv} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
        times.append(time.perf_counter() - began)
    return median(times[1:])


def ours(base: Path) -> float:
    """Return the seconds of `holdfast apply`."""
    states = ["--states", str(base / "states"), "--state-dir", str(base / "state")]
    return timed([*HOLDFAST, "apply", *states, "--format", "json"])


def salt(base: Path, program: str) -> float:
    """Return the seconds of `salt-call --local state.apply` of the same states."""
    (base / "minion").write_text(
        f"file_client: local\nid: bench\nroot_dir: {base}/root\ncachedir: {base}/cache\npki_dir: {base}/pki\n"
        f"sock_dir: {base}/sock\nlog_file: {base}/salt.log\n"
        f"file_roots: {{base: [{base}/states]}}\npillar_roots: {{base: [{base}/pillar]}}\n"
    )
    return timed([program, "--local", "--config-dir", str(base), "--out", "json", "state.apply", "files"])


def main() -> None:
    """Measure and print."""
    figures: dict[str, float] = {}
    programs = os.environ.get("SALT")
    for count in SIZES:
        with private_directory() as base:
            declare_files(base, count, 10)
            figures[f"apply_{count}_s"] = round(ours(base), 3)
            if programs and count < SIZES[-1]:
                figures[f"salt_{count}_s"] = round(salt(base, f"{programs}/salt-call"), 3)
                figures[f"ratio_{count}"] = round(figures[f"apply_{count}_s"] / figures[f"salt_{count}_s"], 2)
    *_, some, most = SIZES
    figures[f"ratio_{most}_to_{some}"] = round(figures[f"apply_{most}_s"] / figures[f"apply_{some}_s"], 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
