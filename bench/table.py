"""Runs every benchmark and prints one table: what is measured, its limit, and the measured value.

A title with a slash is a ratio, "a / b". Rows without a value are left out: their comparison was not requested.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROWS = (
    # script and its arguments, title, unit, key of the script's output, limit
    ("drift", "repair of a drifted file, median; 1 000 files in one directory", "us", "drift_us", None),
    ("drift", "the same system calls in a bare asyncio loop, median", "us", "bare_us", None),
    ("drift", "repair / bare asyncio loop", "times", "ratio_to_bare", 1.5),
    ("drift", "the same by the kind without an engine / bare asyncio loop", "times", "ratio_of_kind_to_bare", None),
    ("drift", "repair, 10 000 files in 1 000 directories / 100 files in 10", "times", "ratio_10000_to_100", 1.5),
    ("drift", "threads of an idle agent with 10 000 files in 1 000 directories", "", "threads_10000", 5),
    ("drift", "its inotify descriptors (two for resources, one for the configuration)", "", "inotify_10000", 3),
    ("apply", "apply, 1 000 files as declared", "s", "apply_1000_s", None),
    ("apply", "apply, 5 000 files as declared", "s", "apply_5000_s", None),
    ("apply", "apply / salt-call, 1 000 files as declared", "times", "ratio_1000", 0.4),
    ("apply", "apply / salt-call, 5 000 files as declared", "times", "ratio_5000", 0.4),
    ("apply", "apply, 10 000 files / 5 000 files, as declared", "times", "ratio_10000_to_5000", 2.2),
    ("create", "apply creates 1 000 files, flushed to the disk", "s", "create_flushed_1000_s", None),
    ("create", "ten lines of Python create them, flushed", "s", "ten_lines_flushed_1000_s", None),
    ("create", "apply / ten lines, 1 000 files created, flushed", "times", "ten_lines_ratio_flushed_1000", None),
    ("create", "apply creates 5 000 files, flushed to the disk", "s", "create_flushed_5000_s", None),
    ("create", "ten lines of Python create them, flushed", "s", "ten_lines_flushed_5000_s", None),
    ("create", "apply / ten lines, 5 000 files created, flushed", "times", "ten_lines_ratio_flushed_5000", 2.5),
    ("create", "apply creates 1 000 files, not flushed", "s", "create_unflushed_1000_s", None),
    ("create", "apply creates 5 000 files, not flushed", "s", "create_unflushed_5000_s", None),
    ("create", "ten lines of Python create 5 000 files, not flushed", "s", "ten_lines_unflushed_5000_s", None),
    ("create", "apply / CFEngine, 5 000 files created, not flushed", "times", "cfengine_ratio_unflushed_5000", 1.0),
    ("cfengine", "apply, one file as declared: CPU", "s", "holdfast_1_cpu_s", None),
    ("cfengine", "apply, one file / Python that imports the libraries: CPU", "times", "floor_ratio_1_cpu_s", 1.5),
    ("cfengine", "apply, one file / Python that imports the libraries: elapsed", "times", "floor_ratio_1_s", 1.5),
    ("cfengine", "apply / CFEngine, 1 000 files as declared: elapsed", "times", "cfengine_ratio_1000_s", 1.5),
    ("cfengine", "apply / CFEngine, 1 000 files as declared: CPU", "times", "cfengine_ratio_1000_cpu_s", 1.5),
    ("cfengine", "apply / CFEngine, 5 000 files as declared: elapsed", "times", "cfengine_ratio_5000_s", 1.0),
    ("cfengine", "apply / CFEngine, 5 000 files as declared: CPU", "times", "cfengine_ratio_5000_cpu_s", 1.0),
    ("compile", "compiling 5 000 states / loading the same YAML with libyaml", "times", "ratio", 2.0),
    ("compile", "compiling 10 000 states, with all checks / Salt's compiler", "times", "ratio_to_salt", 1.0),
    ("compile", "compiling 5 000 unchanged states again", "s", "unchanged_s", None),
    ("compile", "compiling 10 000 one-line states / loading the same YAML with libyaml", "times", "short_ratio", 5.0),
    ("change", "edit of one of 1 000 state files (10 000 states): compile and swap", "ms", "edit_ms", 100),
    ("change", "that edit / the first compilation", "times", "ratio_edit", 0.15),
    ("change", "an added state, which shifts all states after it: compile and swap", "ms", "grow_ms", None),
    ("change", "swap to an equal, newly compiled graph of 10 000 resources", "ms", "equal_swap_ms", 100),
    ("change", "memory per file: its compiled state", "KiB", "states_kib", 7),
    ("change", "memory per file: engine and watch, while idle", "KiB", "engine_kib", 4.6),
    ("engine", "one event in a graph of 100 000, from the watch to the end of the pass", "us", "event_us_100000", None),
    ("engine", "one event in a graph of 100 000 / of 100", "times", "event_us_growth", 1.5),
    ("engine", "one event at the end of a chain of 100 000 / of 100", "times", "chain_us_growth", 1.5),
    ("engine", "one run of the first pass in a graph of 100 000 / of 100", "times", "first_us_growth", 2.0),
    ("edges", "building the graph of 10 000 files, with automatic edges", "s", "graph_s", 0.5),
    ("edges", "finding its automatic edges again after one file has changed", "ms", "again_ms", 10),
    ("check", "check of 5 000 states in one file", "s", "plain_s", 3.0),
    ("check", "check of 5 000 states from 500 templates", "s", "templates_s", 3.0),
    ("loop", "5 000 files: longest callback during a recheck, CPU time", "ms", "recheck_longest_ms", 5),
    ("loop", "5 000 files: longest callback during `status --all`", "ms", "status_longest_ms", 5),
    ("loop", "5 000 files: longest callback during `status` on a terminal", "ms", "short_status_longest_ms", 5),
    ("loop", "5 000 files: longest callback during one frame of `watch`", "ms", "watch_longest_ms", 5),
    ("loop", "5 000 files: longest callback during `why`", "ms", "why_longest_ms", 5),
    ("loop", "5 000 files: longest callback during `metrics`", "ms", "metrics_longest_ms", 5),
    ("loop", "5 000 files: recheck, CPU time of all callbacks", "s", "recheck_cpu_s", None),
    ("loop", "5 000 files: recheck / `apply` of the same files, CPU time", "times", "recheck_to_apply", 0.5),
    ("loop", "5 000 files: longest callback during `pause`", "ms", "pause_longest_ms", 5),
    ("loop", "5 000 files: longest callback during `resume`", "ms", "resume_longest_ms", 5),
    ("loop", "5 000 files: longest callback while edited states are swapped in", "ms", "edit_longest_ms", None),
    ("loop", "5 000 files: longest callback during the start", "ms", "start_longest_ms", None),
    ("loop", "5 000 files: repair of a drift in the middle of a recheck (median)", "ms", "drift_in_recheck_ms", 10),
    ("loop", "5 000 files: the slowest of nine such repairs", "ms", "slowest_drift_in_recheck_ms", None),
    ("loop 50000 500", "50 000 files, none of them present: from the start until converged", "s", "start_s", None),
    ("loop 50000 500", "50 000 files, after that: memory (RSS)", "MiB", "rss_mib", 300),
    ("loop 50000 500 --right", "50 000 files as declared: first pass", "s", "first_pass_s", 8),
    ("loop 50000 500 --right", "50 000 files as declared: from the start until converged", "s", "start_s", None),
    ("loop 50000 500 --right", "50 000 files as declared, after that: memory (RSS)", "MiB", "rss_mib", 300),
    ("loop 50000 500", "50 000 files: `status` on a terminal", "s", "short_status_s", 0.3),
    ("loop 50000 500", "50 000 files: one frame of `watch`", "s", "watch_s", 0.3),
    ("loop 50000 500", "50 000 files: `why`", "s", "why_s", 0.3),
    ("loop 50000 500", "50 000 files: `metrics`", "s", "metrics_s", 0.3),
    ("loop 50000 500", "50 000 files: longest callback during a recheck, CPU time", "ms", "recheck_longest_ms", 5),
    ("store", "northbound cache, 100 000 records, 4 indexes: get by ID, median", "us", "get_us", 2.0),
    ("store", "the same: get by an index", "us", "index_us", 5.0),
    ("store", "the same: get by an index of two paths", "us", "tuple_us", 10.0),
    ("store", "the same: one update that changes all indexes", "us", "update_us", 100),
    ("store", "the same, while a reader holds an older view", "us", "held_update_us", 100),
    ("store", "the same: a batch of 1 000 updates", "ms", "batch_ms", 20),
    ("store", "the same: memory per record, without the record", "bytes", "record_bytes", 2048),
    ("store", "import of the cache, after its models", "ms", "import_ms", None),
    ("sqlite", "SQLite: rows created durably, 100 at a time, per second", "", "create_per_s", None),
    ("sqlite", "SQLite: 100 rows created at once / by plain sqlite3", "times", "create_to_plain", 3.0),
    ("sqlite", "SQLite: from the end of a commit to a handler of the same process", "us", "watch_us", 1000),
    ("etcd", "etcd: `mutate` by 16 writers on 16 keys, per second", "", "mutate_per_s", None),
    ("etcd", "the same / bare transactions of the same client", "times", "mutate_to_bare", 1.5),
    ("etcd", "etcd: from the start of a write to the handler of another client", "ms", "watch_ms", 5),
    ("world", "shared strings: reading one of 1 000", "us", "read_us", None),
    ("world", "shared strings: from the start of a change to another resource of the host", "ms", "local_ms", None),
    ("world", "shared strings: from the start of a change to a resource of another host, by etcd", "ms", "etcd_ms", 5),
    (
        "who",
        "drift whose process is named: the redirect of a shell that keeps running",
        "%",
        "named_running_shell",
        None,
    ),
    ("who", "the same: the redirect of a shell that ends", "%", "named_new_shell", None),
    ("who", "the same: sed -i", "%", "named_sed", None),
    ("who", "the same: cp", "%", "named_cp", None),
    ("who", "the same: mv", "%", "named_mv", None),
    ("who", "with watch.programs: the redirect of a shell that ends", "%", "programs_named_new_shell", None),
    ("who", "the same: sed -i", "%", "programs_named_sed", None),
    ("who", "the same: cp", "%", "programs_named_cp", None),
    ("who", "the same: mv", "%", "programs_named_mv", None),
    ("who", "one event of a watched path, alone: CPU", "us", "event_us_alone", None),
    ("who", "one event, with the process that has caused it: CPU", "us", "event_us_named", None),
    ("who", "one such event after a rest: CPU", "us", "rested_us_named", None),
    ("who", "arming one directory of 10 000, alone", "us", "arm_us_alone", None),
    ("who", "arming one directory of 10 000, with names", "us", "arm_us_named", None),
    ("who", "one program that another process executes, with watch.programs: CPU", "us", "program_us", None),
    ("records", "first pass that creates 50 000 files, with records / without: CPU", "times", "cpu_ratio", 1.4),
    ("records", "repair of a drifted file, with records / without", "times", "drift_ratio", 1.15),
    ("records", "most memory of that first pass, with records", "MiB", "peak_mib", None),
    ("records", "most memory of that first pass, without", "MiB", "plain_peak_mib", None),
    ("archive", "archive of 10 000 members: extraction", "s", "extract_s", None),
    ("archive", "archive of 10 000 members: extraction / tar -x", "times", "ratio", None),
    ("archive", "archive of 10 000 members, all in place: check", "s", "again_s", 1.0),
    ("archive", "archive of 10 000 members: repair of a removed one", "s", "repair_s", None),
    ("archive", "archive of 10 000 members: longest callback during these runs, CPU time", "ms", "callback_ms", 20),
    ("idl", "`idl compile` of 500 resources to all targets", "s", "compile_s", 3.0),
    ("idl", "the same with --check", "s", "check_s", None),
    ("idl", "hand-written lines of a provider, with the generator / without", "times", "lines_ratio", 0.333),
    ("remote", "check of a remote resource, one call to a plugin, median", "us", "remote_us", None),
    ("remote", "the same check with its provider in the same process, median", "us", "in_process_us", None),
    ("remote", "overhead of the plugin's process", "us", "overhead_us", 1000),
    ("remote", "apply, 1 000 remote resources as declared", "s", "apply_s", 2.0),
    ("remote", "recheck of 1 000 remote resources as declared, by an agent", "s", "recheck_s", 2.0),
    ("remote", "memory of an agent with 1 000 remote resources, more than with one", "MiB", "more_mib", 50),
    ("redis", "repair of a damaged key of a Redis server, by its event, median", "ms", "repair_ms", 20),
    ("redis", "the slowest of 200 such repairs", "ms", "slowest_ms", None),
    ("idle", "idle agent with 1 000 files: CPU", "%", "idle_cpu_percent", 0.1),
    ("idle", "idle agent with 1 000 files: memory (RSS)", "MiB", "idle_rss_mib", 58.0),
)

TIMEOUT = 600
"""Seconds after which a benchmark has failed: the longest one takes three minutes."""
LAST_LINES = 20
"""Lines of a failed benchmark's stderr that are printed: an agent that runs in it writes its log there."""


def figures(script: str) -> dict[str, Any] | None:
    """Run one benchmark, given with its arguments. Return its figures; None if it failed, with its errors on stderr."""
    name, *arguments = script.split()
    began = time.monotonic()
    print(f"{script} ... ", end="", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        print(f"failed: no result after {TIMEOUT} s", file=sys.stderr)
        return None
    if done.returncode:
        print("failed", *done.stderr.splitlines()[-LAST_LINES:], sep="\n", file=sys.stderr)
        return None
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Run all benchmarks and print the table. The exit code is 1 if a value exceeds its limit or a benchmark failed."""
    results = {script: figures(script) for script in dict.fromkeys(row[0] for row in ROWS)}
    failed = None in results.values()
    width = max(len(row[1]) for row in ROWS)
    print(f"{'what is measured':<{width}} {'limit':>6} {'measured':>9}")
    for script, title, unit, key, limit in ROWS:
        value = (results[script] or {}).get(key)
        if value is None:
            continue
        exceeded = limit is not None and value > limit
        failed = failed or exceeded
        mark = "   over the limit" if exceeded else ""
        print(f"{title:<{width}} {'' if limit is None else limit:>6} {value:>9} {unit}{mark}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
