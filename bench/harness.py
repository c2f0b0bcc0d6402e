"""What the benchmarks share: a private agent, managed files, and readings of time and memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HOLDFAST = [sys.executable, "-m", "holdfast.agent.cli.main"]
CONTENT = "the content that is declared, sixty-four bytes long with newline\n"


@contextlib.contextmanager
def private_directory(*, on_disk: bool = False) -> Iterator[Path]:
    """Create a directory on a tmpfs (if there is one), so that the disk is not measured, or else in /var/tmp."""
    shm = Path("/dev/shm")
    path = Path(
        tempfile.mkdtemp(prefix="holdfast-bench-", dir="/var/tmp" if on_disk else shm if shm.is_dir() else None)
    )
    try:
        (path / "states").mkdir()
        (path / "pillar").mkdir()
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


IN_ONE = 10_000
"""States in one state file: a much longer file would be refused."""


def declare_files(base: Path, files: int, directories: int) -> list[Path]:
    """Write state files that manage `files` files in `directories` directories; the first run creates the files."""
    paths = []
    per = max(1, files // directories)
    lines: list[str] = []
    for index in range(files):
        if index and index % IN_ONE == 0:
            (base / "states" / f"more{index // IN_ONE}.sls").write_text("\n".join(lines))
            lines = []
        folder = base / "managed" / f"d{index // per:04}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"f{index:05}"
        lines += [f"{path}:", "  file.managed:", "    - mode: '0644'", f"    - contents: {CONTENT.strip()}", ""]
        paths.append(path)
    (base / "states" / "files.sls").write_text("\n".join(lines))
    return paths


def settings(base: Path, extra: str = "") -> Path:
    """Write the agent.yaml of a private agent, for which repeated drift is never flapping."""
    file = base / "agent.yaml"
    file.write_text(
        f"state_dir: {base}/state\ndurable: false\nlog: {{format: console}}\n"
        f"engine: {{flap_limit: 1000000, recheck: 0}}\n{extra}"
    )
    return file


@contextlib.contextmanager
def agent(base: Path, timeout: float = 120, extra: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run an agent that has converged once; its log is in `base`/log. `extra`: more settings."""
    log = base / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*HOLDFAST, "run", "--config", str(settings(base, extra))], stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + timeout
        while b"converged" not in log.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the agent did not converge:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait(20)


def corrupt_and_wait(path: Path, give_up: float = 10.0) -> float:
    """Overwrite one file, and return the seconds until its declared content can be read again."""
    wanted = path.read_bytes()
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(descriptor, b"damaged\n")
    began = time.perf_counter()
    os.close(descriptor)
    while True:
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == wanted:
                return time.perf_counter() - began
        if time.perf_counter() - began > give_up:
            raise SystemExit(f"{path} was not repaired within {give_up} s")


def drifts(paths: list[Path], count: int, pause: float = 0.002) -> list[float]:
    """Overwrite `count` files, one after the other, with a pause between; return the seconds of each repair."""
    times = []
    for index in range(count):
        times.append(corrupt_and_wait(paths[index * 7919 % len(paths)]))
        time.sleep(pause)
    return times


def median(values: list[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def process_figures(pid: int | str = "self") -> dict[str, float]:
    """Return resident and proportional memory in MiB, counts of threads and inotify descriptors, CPU seconds."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines() if line.endswith("kB")}
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    inotify = sum("inotify" in os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink())
    return {
        "rss_mib": kib["Rss"] / 1024,
        "pss_mib": kib["Pss"] / 1024,
        "threads": float(stat[17]),
        "inotify": float(inotify),
        "cpu_s": (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
    }
