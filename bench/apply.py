"""One-shot runs of files that are already right: the whole process, compared with Salt.

`SALT` names the directory of Salt's programs; without it, Salt is left out. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from harness import HOLDFAST, declare_files, median, private_directory

RUNS = 3


def timed(argv: list[str]) -> float:
    """Median seconds of a few runs after one that warms up and converges."""
    times = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{argv} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
        times.append(time.perf_counter() - began)
    return median(times[1:])


def ours(base: Path) -> float:
    """Seconds of `holdfast apply`."""
    states = ["--states", str(base / "states"), "--state-dir", str(base / "state")]
    return timed([*HOLDFAST, "apply", *states, "--format", "json"])


def salt(base: Path, program: str) -> float:
    """Seconds of `salt-call --local state.apply` of the same states."""
    (base / "minion").write_text(
        f"file_client: local\nid: bench\nroot_dir: {base}/root\ncachedir: {base}/cache\n"
        f"pki_dir: {base}/pki\nsock_dir: {base}/sock\n"
        f"log_file: {base}/salt.log\nfile_roots: {{base: [{base}/states]}}\npillar_roots: {{base: [{base}/pillar]}}\n"
    )
    return timed([program, "--local", "--config-dir", str(base), "--out", "json", "state.apply", "files"])


def main() -> None:
    """Measure and print."""
    figures: dict[str, float] = {}
    programs = os.environ.get("SALT")
    for count in (1000, 5000, 10_000):
        with private_directory() as base:
            declare_files(base, count, 10)
            figures[f"apply_{count}_s"] = round(ours(base), 3)
            if programs and count < 10_000:
                figures[f"salt_{count}_s"] = round(salt(base, f"{programs}/salt-call"), 3)
                figures[f"ratio_{count}"] = round(figures[f"apply_{count}_s"] / figures[f"salt_{count}_s"], 2)
    figures["ratio_10000_to_5000"] = round(figures["apply_10000_s"] / figures["apply_5000_s"], 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
