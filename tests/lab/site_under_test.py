"""A host with the three-tier example and some more states, for tests that damage it.

This module has the host, its expected content, and the reports that are expected from the agent.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from damages import LARGE, SETTINGS, Damage
from lab import Entry, Host, wait_for

from deadline import DEADLINE

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "config" / "examples" / "three-tier"
OURS = re.compile(r'File "[^"]*/holdfast/')
"""A line of a traceback in the agent's own code."""
CLOCK = """\
import os, time
_file, _time = os.open("/srv/clock/offset", os.O_RDONLY), time.time
time.time = lambda: _time() + int(os.pread(_file, 20, 0) or 0)
"""
"""A guest cannot set the clock of the machine, so the agent uses a simulated one."""
DROP_IN = "[Service]\nRestartSec=0.1\nEnvironment=PYTHONPATH=/srv/clock\n"
SETTINGS_OF_AGENT = "engine: {flap_limit: 1000, recheck: 0}\n"
"""Repeated damage does not count as flapping here, and there is no recheck, so that drift is found only by events."""
TOLD_FOR = (f"file.managed[{LARGE}]", f"file.managed[{SETTINGS}]")
"""Resources whose changes `cmd.wait[told]` records."""


class Site:
    """The host, its state before the damage, and observed errors."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.kills = self.rounds = 0
        self._began = self._mark = time.time()
        for path, size in (("/srv/small", "1m"), ("/var/lib/holdfast", "8m")):
            host.sh(f"mkdir -p {path}; mount -t tmpfs -o size={size},mode=0755 tmpfs {path}")
        self.clock(0)
        host.write("/srv/clock/sitecustomize.py", CLOCK)
        host.write("/etc/systemd/system/holdfast.service.d/chaos.conf", DROP_IN)
        host.write("/etc/holdfast/agent.yaml", SETTINGS_OF_AGENT)
        for path in sorted(path for path in EXAMPLE.rglob("*") if path.is_file()):
            host.write(f"/etc/holdfast/{path.relative_to(EXAMPLE)}", path.read_text())
        host.write("/etc/holdfast/states/large", "".join(f"line {number}\n" for number in range(20_000)))
        host.write("/etc/holdfast/states/extra.sls", (HERE / "chaos" / "extra.sls").read_text())
        host.run("holdfast", "install")
        wait_for("the agent has converged", self.converged, interval=0.2)
        wait_for("the service answers", lambda: "greeting" in self.looks(), interval=0.1)
        self.right = self.looks()
        self._observe()

    def _observe(self) -> None:
        """Start to observe files that are half-written."""
        self.host.write("/root/observe.py", (HERE / "chaos" / "observe.py").read_text())
        self._observer = self.host.spawn("python3", "/root/observe.py", stdout=subprocess.PIPE)
        assert self._observer.stdout.readline() == "ready\n"

    # -- damage ------------------------------------------------------------------------------------------------------

    def hurt(self, script: str) -> None:
        """Do some damage; try again if the agent or another program interferes."""
        end = time.monotonic() + DEADLINE
        while True:
            done = self.host.run("bash", "-uc", f"set -e; {script}", check=False)
            if done.returncode == 0:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"cannot do the damage: {script}\n{done.stdout}{done.stderr}")
            time.sleep(0.2)  # another program may need a moment

    def clock(self, offset: int) -> None:
        """Set the agent's clock, in seconds, in place: the agent reads it from an open file."""
        self.host.sh(f"mkdir -p /srv/clock; printf %-19s {offset} >/srv/clock/offset")

    def failing(self, identity: str) -> None:
        """Wait until the agent has reported in this round that it cannot repair a resource.

        The agent may also have repaired the resource before the damage was complete.
        """

        def told() -> bool:
            failed = (
                each
                for each in self.entries(self._mark)
                if each.get("RESOURCE") == identity and each.get("RESULT") == "failed"
            )
            return any(failed) or self.looks() == self.right

        wait_for(f"{identity} fails", told, interval=0.1)

    def kill(self) -> None:
        """Kill the agent with SIGKILL; systemd starts it again."""
        self.kills += 1
        self.host.run("systemctl", "kill", "-s", "KILL", "holdfast", check=False)

    # -- looks -------------------------------------------------------------------------------------------------------

    def looks(self) -> str:
        """Return the observable state of the host, independent of the agent's reports."""
        return self.host.run("bash", "-s", stdin=(HERE / "chaos" / "look.sh").read_text()).stdout

    def converged(self) -> bool:
        """Return whether the agent reports that the host has converged."""
        return self.host.run("holdfast", "status", check=False).returncode == 0

    def recover(self, what: str) -> None:
        """Wait until everything is as before and the agent says so. Raise `AssertionError` with the differences."""
        end = time.monotonic() + DEADLINE
        while True:
            looks = self.looks()
            if looks == self.right and self.converged() and self.looks() == self.right:
                return
            if time.monotonic() > end:
                break
            time.sleep(0.05)  # a pause between two checks
        wrong = sorted(set(looks.splitlines()) ^ set(self.right.splitlines()))
        raise AssertionError(f"{what} was not repaired within {DEADLINE} s:\n" + "\n".join(wrong))

    def entries(self, since: float) -> list[Entry]:
        """Return what the agent has logged since then."""
        return self.host.journal("holdfast", since=since)

    # -- one round ---------------------------------------------------------------------------------------------------

    def suffer(self, *damages: Damage, kill: float | None = None) -> None:
        """Do all this damage at once, and wait for the repairs and their reports.

        If given, the agent is killed this many seconds after the beginning.
        """
        what = " and ".join(damage.name for damage in damages) + (
            f", killed after {kill:.2f} s" if kill is not None else ""
        )
        self.rounds += 1
        self._mark = time.time()
        self.say(f"{self.rounds}. {what}")
        try:
            told = self.told()
            self._take(damages, kill)
            self.recover(what)
            quiet = kill is None and not any(damage.restarts for damage in damages)
            entries = self.entries(self._mark - 0.001)
            self.check_record(what, damages if len(damages) == 1 and quiet else (), entries)
            self.check_told(what, told, entries, exactly=quiet)
        except Exception as error:
            error.add_note(self.account(damages))
            raise

    def _take(self, damages: Sequence[Damage], kill: float | None) -> None:
        errors = []

        def run(do: object, *arguments: object) -> None:
            try:
                do(*arguments)
            except Exception as error:  # noqa: BLE001 - raised below in the waiting thread
                errors.append(error)

        threads = [threading.Thread(target=run, args=(damage.do, self)) for damage in damages]
        if kill is not None:
            threads.append(threading.Thread(target=run, args=(self._kill_after, kill)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _kill_after(self, seconds: float) -> None:
        time.sleep(seconds)  # the duration is an input of the test, not a wait for an event
        self.kill()

    def check_record(self, what: str, damages: tuple[Damage, ...], entries: list[Entry]) -> None:
        """Check that each repair is in the system journal with its fields, and that the agent wrote no traceback.

        The agent may quote a traceback of the guest book.
        """
        changed = [entry for entry in entries if entry.get("RESULT") == "changed"]
        assert all({"RESOURCE", "CAUSE", "PASS", "DURATION_MS"} <= entry.keys() for entry in changed), (
            f"{what}: fields are missing"
        )
        repaired = {entry["RESOURCE"] for entry in changed if entry.get("CHANGES")}
        for damage in damages:
            assert {*damage.repairs} <= repaired, f"{what}: not in the journal: {sorted({*damage.repairs} - repaired)}"
        text = "\n".join(str(entry.get("MESSAGE")) for entry in entries)
        assert not OURS.search(text), f"{what}:\n{text}"

    def told(self) -> list[float]:
        """Return the times at which `cmd.wait[told]` ran."""
        return [float(line) for line in self.host.run("cat", "/srv/told", check=False).stdout.split()]

    def check_told(self, what: str, before: list[float], entries: list[Entry], *, exactly: bool) -> None:
        """Check that subscribers ran after the last change, and without a crash at most once for each change."""
        changes = [
            entry
            for entry in entries
            if entry.get("RESOURCE") in TOLD_FOR and entry.get("CHANGES") and entry.get("RESULT") == "changed"
        ]
        told = self.told()
        if changes:
            last = int(changes[-1]["__REALTIME_TIMESTAMP"]) / 1e6
            assert told[-1:] > [last - 0.1], f"{what}: nobody was told of the change at {last}: {told[-3:]}"
        if exactly:
            assert len(told) - len(before) <= len(changes), (
                f"{what}: told {len(told) - len(before)} times of {len(changes)} changes"
            )

    def say(self, text: str) -> None:
        """Print an action with its time, for the analysis of failures."""
        sys.stdout.write(f"{self._mark - self._began:7.1f} s  {text}\n")
        sys.stdout.flush()

    def account(self, damages: Sequence[Damage]) -> str:
        """Return information about a failure: the status, `why`, and the log since shortly before this round."""
        told = [
            f"{int(entry['__REALTIME_TIMESTAMP']) / 1e6 - self._mark:+8.3f} s  {entry.get('MESSAGE')}"
            for entry in self.entries(self._mark - 5)
            if not str(entry.get("MESSAGE")).startswith("ok ")
        ]
        parts = {"the agent tells, from the beginning of the round": "\n".join(told[-80:])}
        status = self.host.run("holdfast", "status", check=False)
        parts["holdfast status"] = status.stdout + status.stderr
        answer = self.host.run("holdfast", "status", "--format", "json", check=False).stdout
        wrong = (
            [row["identity"] for row in json.loads(answer)["resources"] if row["state"] not in ("ok", "skipped")]
            if answer
            else []
        )
        for identity in dict.fromkeys([*(each for damage in damages for each in damage.repairs), *wrong]):
            parts[f"holdfast why {identity}"] = self.host.run("holdfast", "why", identity, check=False).stdout
        return "\n".join(f"-- {title}\n{text}" for title, text in parts.items())

    # -- the agent ---------------------------------------------------------------------------------------------------

    def footprint(self) -> dict[str, int]:
        """Return memory in KB, descriptors and threads of the idle agent."""
        script = (
            "pid=$(systemctl show -P MainPID holdfast); grep -E '^(VmRSS|Threads)' /proc/$pid/status | tr -d kB; "
            "echo fds: $(ls /proc/$pid/fd | wc -l)"
        )
        return {
            word.rstrip(":"): int(number)
            for word, number in (line.split() for line in self.host.sh(script).splitlines())
        }

    def half_written(self) -> str:
        """End the observation, and return what was seen of half-written files."""
        self.host.run("pkill", "-f", "observe.py", check=False)
        return self._observer.communicate()[0]

    def leftovers(self) -> str:
        """Return temporary files that were left behind."""
        return self.host.sh(
            "find / -xdev -name '.*.holdfast-*' -not -path '/proc/*' 2>/dev/null || true; "
            "find /srv/small -name '.*.holdfast-*'"
        )
