"""Measures in a host how long a running agent takes to repair a damage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import lab
from installed import PYTHON
from lab import Host, Run

from deadline import DEADLINE

SCRIPT = """
import glob, json, os, socket, subprocess, sys, time
damages, deadline = json.loads(sys.argv[1])

def is_right(expression):
    try:
        return bool(eval(expression))
    except OSError:
        return False

def text(path):
    with open(path) as file:
        return file.read()

def out(command):
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True).stdout

def repaired(damage, right):
    subprocess.run(["sh", "-euc", damage], check=True)
    start = time.monotonic()
    while not is_right(right):
        if time.monotonic() - start > deadline:
            return None
        time.sleep(0.001)
    return time.monotonic() - start

taken = [[] for _ in damages]
for turn in range(max([times for _, _, times, _ in damages], default=0)):
    for (damage, right, times, calm), seconds in zip(damages, taken):
        if turn < times and None not in seconds:
            seconds.append(repaired(damage, right))
            time.sleep(calm)
print(json.dumps(taken))
"""
HOLDS = SCRIPT.partition("def repaired")[0] + "print(json.dumps([bool(is_right(each)) for each in damages]))"


def holds(host: Host, *rights: str) -> Sequence[bool]:
    """Return whether each of these expressions holds; see `Damage`."""
    given = json.dumps([rights, 0])
    return json.loads(host.run(PYTHON, "-c", HOLDS, given).stdout)  # type: ignore[no-any-return]


class Damage(NamedTuple):
    """A shell script that damages something, and the condition that holds after the repair."""

    script: str
    right: str
    """A Python expression that is true after the repair. It may call `text(path)` and `out(command)`."""
    times: int = 3
    calm: float = 0.3
    """Seconds to wait after each repair, in which the agent ends its pass."""


def all_repair_times(host: Host, damages: Sequence[Damage]) -> Sequence[Sequence[float | None]]:
    """Do each damage in turn, several times, and return the seconds that each repair took.

    None means that the damage was not repaired; it is then not done again.
    """
    done = host.run(PYTHON, "-c", SCRIPT, json.dumps([damages, DEADLINE]), timeout=3 * len(damages) * DEADLINE)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def repair_times(host: Host, damage: str, right: str, times: int = 3, calm: float = 0.3) -> Sequence[float]:
    """Do a damage several times, and return the seconds that the repairs took, sorted; see `Damage`.

    They are printed, too; `pytest -rP` shows them.
    """
    (taken,) = all_repair_times(host, [Damage(damage, right, times, calm)])
    repaired = sorted(seconds for seconds in taken if seconds is not None)
    assert len(repaired) == len(taken), f"not repaired: {damage}"
    told = ", ".join(f"{seconds * 1000:.0f} ms" for seconds in repaired)
    print(f"{damage}: repaired after {told}")  # noqa: T201 - shown with -rP
    return repaired


@contextmanager
def kept(run: Run, layers: tuple[Path, ...], states: str, prepare: str = "true") -> Iterator[Host]:
    """Yield a host on which an agent runs and has converged to these states; `prepare` is a script that runs before."""
    host = run.host("kept", layers=layers)
    try:
        host.sh(prepare, timeout=120)
        host.write("/etc/holdfast/states/site.sls", states)
        host.write(
            "/etc/holdfast/agent.yaml", "engine: {flap_limit: 1000}\n"
        )  # this many repairs in a minute are intended
        host.run("holdfast", "install")
        settled(host)
        yield host
    finally:
        host.down()


def settled(host: Host) -> None:
    """Wait until everything is as declared. Raises `TimeoutError` with the agent's status otherwise."""
    try:
        lab.wait_for("converged", lambda: "converged" in host.run("holdfast", "status", check=False).stdout)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{host.run('holdfast', 'status', check=False).stdout}") from None
