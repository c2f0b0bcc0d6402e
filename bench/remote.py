"""Measures remote resources, with the notes of the tests: one check, and runs of many.

    python bench/remote.py [--checks 2000] [--resources 1000] [--repeat 3]

prints one line of JSON: medians of a check that finds nothing to do, with the provider in another process (`remote_us`)
and in this one (`in_process_us`), and their difference (`overhead_us`); the seconds of `holdfast apply` with that many
notes as declared (`apply_s`, the fastest repetition); those of a recheck of all in a running agent (`recheck_s`, the
same); and how much more memory the agent has than with one note (`more_mib`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pwd
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parent.parent / "tests" / "support"
sys.path.insert(0, str(SUPPORT))

# ruff: noqa: E402 - the modules of the tests are found from here on
from harness import HOLDFAST, agent, private_directory, process_figures, settings

from holdfast.agent.health import Health
from holdfast.agent.plugins.declared import PluginLoader
from holdfast.agent.plugins.plugin_settings import PluginSettings
from holdfast.agent.plugins.plugins import Plugins
from holdfast.resources.plugin import RemoteRecord
from holdfast.resources.testing import FakeContext
from notes_package import HOME, SCHEMA
from remote_bench import note_kind, notes_plugin

WARM = 50


class Memory:
    """The records of remote resources, in memory."""

    def __init__(self) -> None:
        self.records: dict[str, RemoteRecord] = {}

    async def get(self, _: str, name: str) -> RemoteRecord | None:
        """Return a record."""
        return self.records.get(name)

    async def put(self, _: str, name: str, record: RemoteRecord | None) -> None:
        """Store a record."""
        if record is not None:
            self.records[name] = record


def plugin(base: Path) -> dict[str, Any]:
    """Return the plugin of the notes for agent.yaml; their directory is `base`/notes."""
    (base / "notes").mkdir(exist_ok=True)
    (base / "schema.json").write_text(SCHEMA)
    for name in ("provider.py", "notes_stub.py"):
        (base / name).write_text((HOME / name).read_text())
    return {
        "schema": str(base / "schema.json"),
        "command": [sys.executable, str(base / "provider.py")],
        "user": pwd.getpwuid(os.geteuid()).pw_name,
        "environment": {"PYTHONPATH": os.pathsep.join(sys.path)},
        "config": {"directory": str(base / "notes")},
    }


async def checked(used: Any, base: Path, checks: int) -> float:
    """Return the median of a check that finds nothing to do, in microseconds."""
    ctx = FakeContext(base, identity="notes.note[web]", plugins={"notes": used})
    note = note_kind().declare(name="web", owner="me", lines=[{"text": "hello"}])
    times = []
    for _ in range(checks + WARM):
        before = time.perf_counter()
        await note.check_apply(ctx, apply=True)
        times.append(time.perf_counter() - before)
    return statistics.median(times[WARM:]) * 1e6


async def overhead(base: Path, checks: int) -> dict[str, float]:
    """Measure one check with the provider in another process and in this one."""
    (base / "sockets").mkdir(mode=0o755)
    plugins = Plugins(Health(), Memory(), base / "sockets")
    declared = PluginLoader().load({"notes": PluginSettings.model_validate(plugin(base))})
    await plugins.use(declared)
    try:
        plugins.keep({"notes"})
        remote = await checked(plugins.get("notes"), base, checks)
    finally:
        await plugins.stop()
    local = await checked(await notes_plugin(base / "notes"), base, checks)
    return {"remote_us": remote, "in_process_us": local, "overhead_us": remote - local}


def declare(base: Path, number: int) -> None:
    """Write the states of that many notes."""
    text = "note {0}:\n  notes.note:\n    - name: note-{0}\n    - owner: me\n    - lines: [{{text: hello}}]\n\n"
    (base / "states/notes.sls").write_text("".join(text.format(each) for each in range(number)))


def apply(base: Path, extra: str) -> float:
    """Apply the states; return the seconds."""
    before = time.perf_counter()
    command = [*HOLDFAST, "apply", "--config", str(settings(base, extra))]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"holdfast apply failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - before


def rechecked(base: Path, done: int, number: int) -> float:
    """Let the agent check all notes; return the duration of the pass in seconds, from the agent's log."""
    subprocess.run([*HOLDFAST, "recheck", "--config", str(base / "agent.yaml")], check=True, capture_output=True)
    deadline = time.monotonic() + 120
    ended = re.compile(rf"converged in ([0-9.]+) (m?s): {number} checked \(pass \d+, command\)")
    while len(found := ended.findall((base / "log").read_text())) <= done:
        if time.monotonic() > deadline:
            raise SystemExit("the agent did not check its resources")
        time.sleep(0.1)
    value, unit = found[done]
    return float(value) / (1000 if unit == "ms" else 1)


def many(base: Path, number: int, repeat: int) -> dict[str, float]:
    """Measure runs with this number of notes as declared, and the memory of an agent."""
    extra = json.dumps({"plugins": {"notes": plugin(base)}})[1:-1] + "\n"
    memory = {}
    for count in (1, number):
        declare(base, count)
        apply(base, extra)
        with agent(base, extra=extra) as process:
            recheck = min(rechecked(base, done, count) for done in range(repeat))
            memory[count] = process_figures(process.pid)["rss_mib"]
    seconds = min(apply(base, extra) for _ in range(repeat))
    return {"apply_s": seconds, "recheck_s": recheck, "more_mib": memory[number] - memory[1]}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checks", type=int, default=2000)
    parser.add_argument("--resources", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with private_directory() as base:
        base.chmod(0o755)
        figures = asyncio.run(overhead(base, options.checks))
    with private_directory() as base:
        base.chmod(0o755)
        figures |= many(base, options.resources, options.repeat)
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
