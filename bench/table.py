"""Runs every benchmark and prints one table: what was measured, what it should be, what it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROWS = (
    # script, what, unit, key, at most
    ("drift", "drift repaired, p50, 1 000 files in one directory", "us", "drift_us", None),
    ("drift", "the same system calls in a bare asyncio loop", "us", "bare_us", None),
    ("drift", "ratio of the two", "times", "ratio_to_bare", 1.5),
    ("drift", "one drift, 10 000 files in 1 000 directories against 100", "times", "ratio_10000_to_100", 1.5),
    ("drift", "threads at 10 000 files in 1 000 directories", "", "threads_10000", 4),
    ("drift", "inotify descriptors there: resources 1, configuration 1", "", "inotify_10000", 2),
    ("apply", "holdfast apply, 1 000 files already right", "s", "apply_1000_s", None),
    ("apply", "holdfast apply, 5 000 files already right", "s", "apply_5000_s", None),
    ("apply", "the same against salt-call, 1 000 files", "times", "ratio_1000", 0.4),
    ("apply", "the same against salt-call, 5 000 files", "times", "ratio_5000", 0.4),
    ("apply", "10 000 files against 5 000", "times", "ratio_10000_to_5000", 2.2),
    ("create", "from nothing, flushed, 1 000 files", "s", "create_flushed_1000_s", None),
    ("create", "the same in ten lines of Python", "s", "ten_lines_flushed_1000_s", None),
    ("create", "ratio of the two", "times", "ten_lines_ratio_flushed_1000", None),
    ("create", "from nothing, flushed, 5 000 files", "s", "create_flushed_5000_s", None),
    ("create", "the same in ten lines of Python", "s", "ten_lines_flushed_5000_s", None),
    ("create", "ratio of the two", "times", "ten_lines_ratio_flushed_5000", 2.5),
    ("create", "from nothing, not flushed, 1 000 files", "s", "create_unflushed_1000_s", None),
    ("create", "from nothing, not flushed, 5 000 files", "s", "create_unflushed_5000_s", None),
    ("create", "the same in ten lines of Python", "s", "ten_lines_unflushed_5000_s", None),
    ("create", "the same against CFEngine", "times", "cfengine_ratio_unflushed_5000", 1.0),
    ("cfengine", "holdfast apply, one file already right: CPU", "s", "holdfast_1_cpu_s", None),
    ("cfengine", "the same against imports and one model: CPU", "times", "floor_ratio_1_cpu_s", 1.5),
    ("cfengine", "the same: wall", "times", "floor_ratio_1_s", 1.5),
    ("cfengine", "1 000 files already right against CFEngine: wall", "times", "cfengine_ratio_1000_s", 1.5),
    ("cfengine", "the same: CPU", "times", "cfengine_ratio_1000_cpu_s", 1.5),
    ("cfengine", "5 000 files already right against CFEngine: wall", "times", "cfengine_ratio_5000_s", 1.0),
    ("cfengine", "the same: CPU", "times", "cfengine_ratio_5000_cpu_s", 1.0),
    ("compile", "compile 5 000 states against PyYAML's C loading", "times", "ratio", 2.0),
    ("compile", "compile 10 000 states, checks included, against Salt's compile", "times", "ratio_to_salt", 1.0),
    ("compile", "compile them again unchanged", "s", "unchanged_s", None),
    ("compile", "10 000 states of one line against the time of PyYAML's C loading", "times", "short_ratio", 5.0),
    ("change", "one of 1 000 state files edited (10 000 states): compile and swap", "ms", "edit_ms", 100),
    ("change", "the same against the first compilation", "times", "ratio_edit", 0.15),
    ("change", "a state more near the front, all after it move: compile and swap", "ms", "grow_ms", None),
    ("change", "swap of an equal graph, compiled anew, of 10 000 resources", "ms", "equal_swap_ms", 100),
    ("change", "memory for each file resource: what is kept of its state", "KiB", "states_kib", 7),
    ("change", "and what the engine and its watch need while idle", "KiB", "engine_kib", 4.6),
    ("engine", "one event, 100 000 resources, from the watch to the end of the pass", "us", "event_us_100000", None),
    ("engine", "the same against 100 resources", "times", "event_us_growth", 1.5),
    ("engine", "one event at the end of a chain of 100 000 against one of 100", "times", "chain_us_growth", 1.5),
    ("engine", "a run on the first pass, 100 000 resources against 100", "times", "first_us_growth", 2.0),
    ("edges", "graph and automatic edges of 10 000 files", "s", "graph_s", 0.5),
    ("edges", "automatic edges again when one of them has changed", "ms", "again_ms", 10),
    ("check", "holdfast check, 5 000 states in one file", "s", "plain_s", 3.0),
    ("check", "the same made by 500 templates", "s", "templates_s", 3.0),
    ("loop", "5 000 files in the running agent: longest callback of a recheck, CPU", "ms", "recheck_longest_ms", 5),
    ("loop", "the same of a status, by CPU time of the loop's thread", "ms", "status_longest_ms", 5),
    ("loop", "of a status for a terminal", "ms", "short_status_longest_ms", 5),
    ("loop", "of a frame of watch", "ms", "watch_longest_ms", 5),
    ("loop", "of why", "ms", "why_longest_ms", 5),
    ("loop", "of a scrape of the metrics", "ms", "metrics_longest_ms", 5),
    ("loop", "of a recheck, all of its callbacks", "s", "recheck_cpu_s", None),
    ("loop", "the same against the CPU time of `holdfast apply` of the same files", "times", "recheck_to_apply", 0.5),
    ("loop", "of a pause of everything: longest callback, CPU", "ms", "pause_longest_ms", 5),
    ("loop", "of its end", "ms", "resume_longest_ms", 5),
    ("loop", "of an edit: the swap", "ms", "edit_longest_ms", None),
    ("loop", "of the start", "ms", "start_longest_ms", None),
    ("loop", "a drift in the middle of a recheck, repaired", "ms", "drift_in_recheck_ms", 10),
    ("loop 50000 500", "50 000 files in 500 directories: from nothing until converged", "s", "start_s", None),
    ("loop 50000 500", "memory then", "MiB", "rss_mib", 300),
    ("loop 50000 500 --right", "the same files, right already: the first pass", "s", "first_pass_s", 8),
    ("loop 50000 500 --right", "from the start until converged", "s", "start_s", None),
    ("loop 50000 500 --right", "memory then", "MiB", "rss_mib", 300),
    ("loop 50000 500", "status for a terminal", "s", "short_status_s", 0.3),
    ("loop 50000 500", "a frame of watch", "s", "watch_s", 0.3),
    ("loop 50000 500", "why", "s", "why_s", 0.3),
    ("loop 50000 500", "metrics", "s", "metrics_s", 0.3),
    ("loop 50000 500", "longest callback of a recheck, CPU", "ms", "recheck_longest_ms", 5),
    ("idle", "idle agent, 1 000 resources: CPU", "%", "idle_cpu_percent", 0.1),
    ("idle", "idle agent, 1 000 resources: RSS", "MiB", "idle_rss_mib", 58.0),
)


def figures(script: str) -> dict[str, Any]:
    """The figures that one benchmark printed; empty if it failed, with its messages on standard error.

    `script` is the name of the benchmark with its arguments.
    """
    name, *arguments = script.split()
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        return {}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Run and print; the status is 1 when a figure is not reached."""
    results = {script: figures(script) for script in dict.fromkeys(row[0] for row in ROWS)}
    missed = False
    print(f"{'what':<58} {'at most':>8} {'measured':>10}")
    for script, what, unit, key, limit in ROWS:
        value = results[script].get(key)
        if value is None:
            continue
        wrong = limit is not None and value > limit
        missed = missed or wrong
        print(f"{what:<58} {'' if limit is None else limit:>8} {value:>10} {unit}{'   <-- missed' if wrong else ''}")
    sys.exit(missed)


if __name__ == "__main__":
    main()
