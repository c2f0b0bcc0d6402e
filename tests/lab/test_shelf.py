"""All kinds of the first shelf together on one host, with an agent that repairs each damage at its event.

The table is `shelf.yaml`. Tests of the peculiarities of a kind are in the module of its family.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import shelf
import tools
from lab import Host, Run
from packages import wheel
from repairs import Damage, all_repair_times, holds
from shelf import ROWS, STATES, configuration, differing, kernel

pytestmark = pytest.mark.lab

SOON = 1.0
"""Greatest seconds for the best of several repairs. Without an event, a repair would wait for a recheck, which is
off."""
OVERALL = 0.25
"""Greatest seconds for the median of all kinds. The goal is 50 ms, but other tests run at the same time."""
SLOW = 20.0
"""Greatest seconds for a repair by a slow tool."""

reversible = [row for row in ROWS if row.reversible]
removable = [row for row in ROWS if row.removed is not None]
watched = [row for row in ROWS if row.damages]


@pytest.fixture(scope="module")
def host(run: Run, layers: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with the tools of all kinds, and with a thing for each kind to change."""
    index = tmp_path_factory.mktemp("index")
    for version in ("1.10", "2.0"):
        wheel(index, "tiny", version)
    host = run.host("shelf", layers=(tools.layer(run), *layers), binds=[f"{index}:/srv/index"])
    try:
        host.sh(shelf.PREPARE)
        host.sh("holdfast install >/dev/null; systemctl stop holdfast")
        yield host
    finally:
        host.run("sh", "-c", "swapoff /dev/lab-swap; losetup -d /dev/lab-swap", check=False)
        host.down()


def agent(host: Host, states: str, *, noop: bool = False) -> None:
    """Give these states to an agent, and wait until it has converged."""
    settings = f"engine: {{recheck: 0, flap_limit: 1000, noop: {str(noop).lower()}}}\n"
    host.write(STATES, states)
    host.write("/etc/holdfast/agent.yaml", settings)
    host.sh("if systemctl is-active -q holdfast; then holdfast reload; else systemctl start holdfast; fi >/dev/null")
    told = host.run("holdfast", "status", "--wait", check=False)
    assert told.returncode == (1 if noop else 0), told.stdout


def wrong(host: Host, expected: Mapping[str, str]) -> Sequence[str]:
    """Return the kinds whose expression does not hold."""
    return [kind for kind, right in zip(expected, holds(host, *expected.values()), strict=True) if not right]


@pytest.fixture(scope="module")
def applied(host: Host) -> Sequence[Mapping[str, bool]]:
    """Results of `holdfast apply` on the fresh host, and of a second run: kind -> whether it succeeded."""
    host.run("systemctl", "stop", "holdfast")
    host.write(STATES, shelf.sls(row.states for row in ROWS))
    runs = [json.loads(host.run("holdfast", "apply", "--format=json", check=False).stdout) for _ in range(2)]
    return [
        {f"{each['state']}.{each['fun']}": each["result"] for each in run["results"] if each["changes"]} for run in runs
    ]


@pytest.fixture(scope="module")
def kept(host: Host, applied: Sequence[Mapping[str, bool]]) -> Host:
    """The host with an agent that keeps all states."""
    agent(host, shelf.sls(row.states for row in ROWS))
    return host


@pytest.fixture(scope="module")
def repaired(kept: Host) -> Mapping[str, Sequence[float | None]]:
    """The seconds that the repairs of each kind took."""
    most = max(len(row.damages) for row in watched)
    rows = watched[::-1]  # the content of a thing is damaged before the thing itself
    turns = [(row, row.damages[turn]) for turn in range(most) for row in rows if turn < len(row.damages)]
    taken = all_repair_times(kept, [Damage(damage, row.right, row.times, row.calm) for row, damage in turns])
    found: dict[str, list[float | None]] = {row.kind: [] for row in watched}
    for (row, _), seconds in zip(turns, taken, strict=True):
        found[row.kind] += seconds
    print(kept.run("holdfast", "log", "--failed", check=False).stdout)  # noqa: T201 - shown with -rP
    return found


def test_a_plan_and_an_agent_in_noop_change_nothing(host: Host):
    """The disk is the same, byte for byte, with all attributes and times, and so is the kernel."""
    host.write(STATES, shelf.sls(row.states for row in ROWS))
    before = host.contents(exact=True), kernel(host)
    planned = host.run("holdfast", "plan", check=False)
    assert planned.returncode == 2, planned.stdout
    assert (differing(before[0], host.contents(exact=True)), kernel(host)) == ({}, before[1])
    agent(host, host.read(STATES), noop=True)
    assert (differing(before[0], host.contents(exact=True)), kernel(host)) == ({}, before[1])


def test_removed_states_are_undone(host: Host):
    """With `reverse`, everything is as it was before the states, byte for byte."""
    before = configuration(host), kernel(host)
    agent(host, shelf.sls([row.states for row in reversible], reverse=True))
    assert wrong(host, {row.kind: row.right for row in reversible}) == []
    agent(host, "{}")
    assert (differing(before[0], configuration(host)), kernel(host)) == ({}, before[1])


def test_states_are_applied_from_nothing_and_again(host: Host, applied: Sequence[Mapping[str, bool]]):
    """The second apply finds nothing to do."""
    assert wrong(host, {row.kind: row.right for row in ROWS}) == [], applied[0]
    assert applied[1] == {row.kind: True for row in ROWS if row.action}


def test_an_agent_repairs_damage_at_its_event(repaired: Mapping[str, Sequence[float | None]]):
    """The table of the times is printed; `pytest -rP` shows it."""
    missing = {kind: taken for kind, taken in repaired.items() if None in taken}
    assert missing == {}
    slow = {row.kind for row in watched if row.slow}
    seconds = {kind: [each for each in taken if each is not None] for kind, taken in repaired.items()}
    print(f"{'kind':25} {'p50':>6} {'worst':>6} ms")  # noqa: T201 - shown with -rP
    for kind, taken in seconds.items():
        print(f"{kind:25} {statistics.median(taken) * 1000:6.0f} {max(taken) * 1000:6.0f}")  # noqa: T201 - the same
    late = {kind: taken for kind, taken in seconds.items() if min(taken) > (SLOW if kind in slow else SOON)}
    assert late == {}
    assert statistics.median(statistics.median(taken) for kind, taken in seconds.items() if kind not in slow) < OVERALL


def test_no_secret_is_told(kept: Host, repaired: Mapping[str, Sequence[float | None]]):
    """The declared answer to debconf's question, and the wrong one, are not in the log, the status or the history."""
    assert "hunter2" not in kept.sh("journalctl --no-pager --all; holdfast status --all; holdfast history")


def test_states_that_remove_something(kept: Host):
    """The agent removes the thing when the state file declares its absence."""
    agent(kept, shelf.sls(row.removed for row in removable))
    assert wrong(kept, {row.kind: row.gone for row in removable}) == []
