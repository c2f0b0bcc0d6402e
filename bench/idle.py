"""Measures CPU and memory of an agent with 1 000 files while nothing happens. Prints one line of JSON."""

from __future__ import annotations

import json
import time

from harness import agent, declare_files, private_directory, process_figures

RESOURCES, SETTLE, WINDOW = 1000, 3.0, 30.0


def main() -> None:
    """Measure and print."""
    with private_directory() as base:
        declare_files(base, RESOURCES, 10)
        with agent(base) as process:
            time.sleep(SETTLE)
            before = process_figures(process.pid)
            time.sleep(WINDOW)
            after = process_figures(process.pid)
    print(
        json.dumps(
            {
                "idle_cpu_percent": round((after["cpu_s"] - before["cpu_s"]) / WINDOW * 100, 3),
                "idle_rss_mib": round(after["rss_mib"], 1),
                "idle_pss_mib": round(after["pss_mib"], 1),
                "idle_threads": int(after["threads"]),
            }
        )
    )


if __name__ == "__main__":
    main()
