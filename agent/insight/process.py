"""Metrics of this process, under the names that all Prometheus client libraries use."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from holdfast.agent.insight.metrics import family

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def text() -> str:
    """Return the metrics in text form. Not for node_exporter's file: its own process exports the same names."""
    lines = (line for name, sort, about, value in _figures() for line in family(name, sort, about, [("", (), value)]))
    return "".join(f"{line}\n" for line in lines) + _python()


def _figures() -> Iterator[tuple[str, str, str, float]]:
    """Yield (name, type, help, value); values that the kernel does not provide are left out."""
    try:
        stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
        fields = stat.rpartition(")")[2].split()  # from the third field on: the program's name may contain anything
        descriptors = len([*Path("/proc/self/fd").iterdir()]) - 1  # without the descriptor that reads this
        booted = _booted()
    except (OSError, ValueError):
        return
    user, system, started, size, resident = (int(fields[number - 3]) for number in (14, 15, 22, 23, 24))
    yield (
        "process_cpu_seconds_total",
        "counter",
        "Total user and system CPU time spent in seconds.",
        (user + system) / TICKS,
    )
    yield "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", resident * PAGE
    yield "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", size
    yield (
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
        booted + started / TICKS,
    )
    yield "process_open_fds", "gauge", "Number of open file descriptors.", descriptors
    yield (
        "process_max_fds",
        "gauge",
        "Maximum number of open file descriptors.",
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


@cache
def _booted() -> float:
    """Return the Unix time at which the system was booted."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("btime ")))


@cache
def _python() -> str:
    major, minor, patch = platform.python_version_tuple()
    labels = (
        ("implementation", platform.python_implementation()),
        ("major", major),
        ("minor", minor),
        ("patchlevel", patch),
        ("version", platform.python_version()),
    )
    return "".join(
        f"{line}\n" for line in family("python_info", "gauge", "Python platform information.", [("", labels, 1)])
    )
