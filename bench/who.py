"""Measures how often the process that has changed a file is named, for each tool, and what the names cost.

A shell that does not belong to the agent changes a managed file with one tool after the other, and reaps each process
at once. `named` counts the changes whose process was named, `told` those with its command line, in per cent. Keys that
begin with `programs_` are for the setting `watch.programs`.

The costs compare a path watcher with a namer to one without: processor time per event of a program that keeps running,
the time that arming takes per directory, and the memory of this process. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from harness import CONTENT, agent, median, private_directory, process_figures

from holdfast.agent.host.namer import Namer
from holdfast.agent.host.path_watcher import PathWatcher

COUNT = 40
"""Changes by each tool."""
DIRECTORIES, EVENTS, RESTED, PROGRAMS, REPEAT = 10_000, 2000, 50, 150, 3
"""Watched directories; events as fast as possible, and with a pause before each; programs; repetitions."""
PAUSE = 0.1
"""Seconds between two changes: drift is rare."""
TOOLS = {
    "running_shell": "echo damage > {file}",
    "new_shell": "sh -c 'echo damage > {file}'",
    "script": "sh {script}",
    "tee": "echo damage | tee {file} > {sink}",
    "sed": "sed -i s/the/damage/ {file}",
    "cp": "cp {other} {file}",
    "mv": "cp {other} {new}; mv {new} {file}",
    "install": "install -m 644 {other} {file}",
    "rm": "rm {file}",
    "chmod": "chmod 600 {file}",
    "truncate": "truncate -s 3 {file}",
    "vim": "vim -u NONE -es -c s/the/damage/ -c wq {file}",
    "rsync": "rsync -I {other} {file}",
    "python": 'python3 -c \'open("{file}", "w").write("damage")\'',
}
"""Tool -> the line of the shell. The first word, if not installed, leaves the tool out."""
SHELL = 'while read -r line; do eval "$line"; echo done; done'
FOLLOWED = "watch: {programs: true}\n"
REPAIRED = re.compile(r"repaired file\.managed.*\(drift(?:; changed by (.*))?\)$", re.MULTILINE)
WRITER = "import sys\nfor line in sys.stdin:\n    open(line.rstrip(), 'w').close()\n    print(flush=True)\n"


def shares(base: Path, prefix: str, extra: str = "") -> dict[str, float]:
    """Return for each tool, in per cent, how often its process and its command line were named."""
    places = {name: base / "managed" / name for name in ("file", "new")} | {
        name: base / name for name in ("other", "script", "sink")
    }
    places["file"].parent.mkdir(exist_ok=True)
    places["other"].write_text("damage\n")
    places["script"].write_text(f"true; echo damage > {places['file']}; true\n")
    state = f"{places['file']}:\n  file.managed:\n    - mode: '0644'\n    - contents: {CONTENT.strip()}\n"
    (base / "states" / "files.sls").write_text(state)
    found: dict[str, float] = {}
    shell = subprocess.Popen(["sh", "-c", SHELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with agent(base, extra=extra), shell:
        for tool, line in TOOLS.items():
            if shutil.which(line.split()[0]) is not None:
                said = [change(base, shell, line.format(**places)) for _ in range(COUNT)]
                known = [each.partition(", pid")[0] for each in said if each and not each.startswith("unknown")]
                found[f"{prefix}named_{tool}"] = 100 * len(known) / COUNT
                found[f"{prefix}told_{tool}"] = 100 * sum(" " in each for each in known) / COUNT
        assert shell.stdin is not None
        shell.stdin.close()
    return found


def change(base: Path, shell: subprocess.Popen[str], line: str) -> str:
    """Run a line in the shell, wait for the repair, and return the named author of the change.

    Empty if none is named.
    """
    log = base / "log"
    before = log.stat().st_size
    assert shell.stdin is not None
    assert shell.stdout is not None
    print(line, file=shell.stdin, flush=True)
    shell.stdout.readline()
    deadline = time.monotonic() + 10
    while True:
        new = log.read_bytes()[before:].decode()
        if (repaired := REPAIRED.search(new)) and " converged in " in new[repaired.end() :]:
            time.sleep(PAUSE)
            return repaired[1] or ""
        if time.monotonic() > deadline:
            raise SystemExit(f"{line!r} was not repaired:\n{new}")
        time.sleep(0.002)


async def cost(base: Path, namer: Namer | None) -> dict[str, float]:
    """Return microseconds of processor time of events, microseconds of arming a directory, and MiB of memory."""
    paths = [str(base / "many" / f"d{number}" / "file") for number in range(DIRECTORIES)]
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    watcher, rung = PathWatcher(None, namer), asyncio.Event()
    before, began = process_figures()["pss_mib"], time.perf_counter()
    for path in paths:
        watcher.subscribe([path], rung.set)
    armed = time.perf_counter() - began
    memory = process_figures()["pss_mib"] - before
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )

    async def events(number: int, pause: float) -> float:
        spent = time.process_time()
        for each in range(number):
            await asyncio.sleep(pause)
            rung.clear()
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write(f"{paths[each % DIRECTORIES]}\n".encode())
            await writer.stdout.readline()
            await rung.wait()
        return (time.process_time() - spent) / number * 1e6

    rested, flood = await events(RESTED, 0.1), await events(EVENTS, 0)
    assert writer.stdin is not None
    writer.stdin.close()
    await writer.wait()
    watcher.close()
    return {"event_us": flood, "rested_us": rested, "arm_us": armed / DIRECTORIES * 1e6, "memory_mib": memory}


async def program_cost(base: Path) -> float:
    """Return microseconds of CPU time for each program that another process executes, up to a flood."""
    watcher = PathWatcher(None, Namer(programs=True))
    watcher.subscribe([str(base / "quiet")], lambda: None)
    spent = time.process_time()
    shell = await asyncio.create_subprocess_exec("sh", "-c", f"for i in $(seq {PROGRAMS}); do /bin/true; done")
    await shell.wait()
    watcher.close()
    return (time.process_time() - spent) / PROGRAMS * 1e6


def costs(base: Path) -> dict[str, float]:
    """Return the costs of the namer: the median difference of several measurements with and without it."""
    found: dict[str, list[float]] = {}
    for _ in range(REPEAT):
        for key in ("alone", "named"):
            for what, value in asyncio.run(cost(base, Namer() if key == "named" else None)).items():
                found.setdefault(f"{what}_{key}", []).append(value)
        found.setdefault("program_us", []).append(asyncio.run(program_cost(base)))
    return {key: median(values) for key, values in found.items()}


def main() -> None:
    """Measure, and print the figures."""
    with private_directory() as base:
        found = shares(base, "") | shares(base, "programs_", FOLLOWED) | costs(base)
        print(json.dumps({key: round(value, 1) for key, value in found.items()}))


if __name__ == "__main__":
    main()
