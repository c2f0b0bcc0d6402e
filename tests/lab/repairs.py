"""Measures in a host how long a running agent takes to repair a damage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lab
from installed import PYTHON
from lab import Host, Run

from deadline import DEADLINE

SCRIPT = """
import json, os, socket, subprocess, sys, time
damage, right, times, deadline, calm = json.loads(sys.argv[1])

def is_right():
    try:
        return bool(eval(right))
    except OSError:
        return False

def text(path):
    with open(path) as file:
        return file.read()

taken = []
for _ in range(times):
    subprocess.run(["sh", "-euc", damage], check=True)
    start = time.monotonic()
    while not is_right():
        if time.monotonic() - start > deadline:
            sys.exit(f"not repaired: {damage}")
        time.sleep(0.001)
    taken.append(time.monotonic() - start)
    time.sleep(calm)
print(json.dumps(taken))
"""


def repair_times(host: Host, damage: str, right: str, times: int = 3, calm: float = 0.3) -> Sequence[float]:
    """Do a damage several times and return the seconds from its end until `right`, an expression, holds again.

    `right` is Python and may call `text(path)`. `calm` is the number of seconds after each repair in which the agent
    ends its pass. The times are printed, sorted; `pytest -rP` shows them.
    """
    given = json.dumps([damage, right, times, DEADLINE, calm])
    done = host.run(PYTHON, "-c", SCRIPT, given, timeout=times * DEADLINE)
    taken = sorted(json.loads(done.stdout))
    told = ", ".join(f"{seconds * 1000:.0f} ms" for seconds in taken)
    print(f"{damage}: repaired after {told}")  # noqa: T201 - shown with -rP
    return taken


@contextmanager
def kept(run: Run, layers: tuple[Path, ...], states: str, prepare: str = "true") -> Iterator[Host]:
    """Yield a host on which an agent runs and has converged to these states; `prepare` is a script that runs before."""
    host = run.host("kept", layers=layers)
    try:
        host.sh(prepare, timeout=120)
        host.write("/etc/holdfast/states/site.sls", states)
        host.write(
            "/etc/holdfast/agent.yaml", "engine: {flap_limit: 1000}\n"
        )  # so many repairs in a minute are intended
        host.run("holdfast", "install")
        settled(host)
        yield host
    finally:
        host.down()


def settled(host: Host) -> None:
    """Wait until everything is as declared. Raises `TimeoutError` with what the agent tells otherwise."""
    try:
        lab.wait_for("converged", lambda: "converged" in host.run("holdfast", "status", check=False).stdout)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{host.run('holdfast', 'status', check=False).stdout}") from None
