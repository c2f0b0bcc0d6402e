"""Measures how long callbacks block the event loop of an agent with many files, and how fast the agent answers.

The agent runs in this process; another thread sends requests through its control socket. Every callback of the event
loop is timed by the CPU time of its thread, garbage collection included. With `--names` the longest callbacks of each
phase are printed to stderr. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness import (
    CONTENT,
    HOLDFAST,
    corrupt_and_wait,
    declare_files,
    median,
    private_directory,
    process_figures,
    settings,
)

from holdfast.agent.control.client import ask, converse
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import ControlError
from holdfast.agent.daemon import run
from holdfast.agent.verbs.metrics import Metrics
from holdfast.agent.verbs.pause import Pause
from holdfast.agent.verbs.recheck import Recheck
from holdfast.agent.verbs.reload import Reload
from holdfast.agent.verbs.resume import Resume
from holdfast.agent.verbs.status import LISTED, Status
from holdfast.agent.verbs.watch import LiveView
from holdfast.agent.verbs.why import Why

FILES, DIRECTORIES = 5000, 50
TIMEOUT = 120.0
"""Seconds after which an unanswered request is an error."""
AGAIN = ("_2", "_3")
"""Further rechecks. The cheapest one counts, because other processes use the same CPUs."""
SELDOM = 0.25
"""Seconds between two requests that ask whether a recheck has ended: each costs the agent more than a millisecond."""
DRIFTS = 9
"""Rechecks with one drift each. One latency says little, because other processes use the same CPUs."""
QUIET = 0.3
"""Seconds before and after each phase, so that later effects of a phase do not count for another."""
LONGEST = 8
"""The number of callbacks that `--names` prints for each phase."""


class Timer:
    """Times every callback of the loop, and every garbage collection, by phase."""

    def __init__(self) -> None:
        self.phase = "start"
        self.found: dict[str, list[tuple[float, float, str]]] = {}
        """Phase -> its longest callbacks: CPU seconds, CPU seconds of garbage collection in them, name."""
        self.spent: dict[str, float] = {}
        """Phase -> CPU seconds of all callbacks."""
        self._loop_thread = threading.get_ident()
        self._collecting = self._collected = 0.0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Time all callbacks within this context."""
        original = asyncio.events.Handle._run  # noqa: SLF001 - asyncio has no public hook

        def timed(handle: asyncio.Handle) -> None:
            name = describe(handle)
            began, before = time.thread_time(), self._collected
            original(handle)
            self._note(time.thread_time() - began, self._collected - before, name)

        asyncio.events.Handle._run = timed  # type: ignore[method-assign]  # noqa: SLF001
        gc.callbacks.append(self._collection)
        try:
            yield
        finally:
            asyncio.events.Handle._run = original  # type: ignore[method-assign]  # noqa: SLF001
            gc.callbacks.remove(self._collection)

    def _collection(self, phase: str, _: dict[str, int]) -> None:
        if threading.get_ident() != self._loop_thread:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._collected += time.thread_time() - self._collecting

    def _note(self, seconds: float, collecting: float, name: str) -> None:
        self.spent[self.phase] = self.spent.get(self.phase, 0.0) + seconds
        longest = self.found.setdefault(self.phase, [])
        if len(longest) < LONGEST or seconds > longest[-1][0]:
            longest.append((seconds, collecting, name))
            longest.sort(reverse=True)
            del longest[LONGEST:]

    def longest(self, phase: str) -> float:
        """Return the CPU milliseconds of the longest callback of a phase."""
        return round(1000 * self.found.get(phase, [(0.0,)])[0][0], 2)


def describe(handle: asyncio.Handle) -> str:
    """Return the coroutines of the task that this callback resumes, or the name of the function that it calls."""
    callback = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        function = getattr(callback, "func", callback)
        return str(getattr(function, "__qualname__", function))
    coroutine: Any = task.get_coro()
    frames = []
    while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
        frames.append(f"{coroutine.__qualname__}:{coroutine.cr_frame.f_lineno}")
        coroutine = coroutine.cr_await
    return " > ".join(frames) or task.get_name()


class Driver:
    """Sends the requests of all phases, one after the other."""

    def __init__(self, timer: Timer, base: Path, middle: Path) -> None:
        self.timer, self.base, self.middle = timer, base, middle
        self.figures: dict[str, float] = {}
        self.socket = base / "state" / "control.sock"

    def drive(self) -> None:
        """Run all phases, then end the agent, also after an error."""
        try:
            self._drive()
        finally:
            self.timer.phase = "stop"
            os.kill(os.getpid(), signal.SIGTERM)

    def _drive(self) -> None:
        began = time.monotonic()
        self._until_converged()
        self.figures["start_s"] = round(time.monotonic() - began, 2)
        self.figures["rss_mib"] = round(process_figures()["rss_mib"], 1)
        self.figures["first_pass_s"] = round(self._last_pass(), 2)
        middle = self.middle
        identity = f"file.managed[{middle}]"
        self._timed("drift", lambda: corrupt_and_wait(middle))
        for number in ("", *AGAIN):
            self._timed(f"recheck{number}", lambda: (self._ask(Recheck()), self._until_converged(SELDOM)))
        self._timed("drift_in_recheck", lambda: self._drifts_in_rechecks(middle))
        self._timed("short_status", lambda: self._ask(Status(number=LISTED)))
        self._timed("status", lambda: self._ask(Status()))
        self._timed("metrics", lambda: self._ask(Metrics()))
        self._timed("why", lambda: self._ask(Why(identity)))
        self._timed("why_name", lambda: self._ask(Why(middle.name)))
        self._timed("watch", lambda: next(iter(converse(self.socket, LiveView(), TIMEOUT))))
        self._timed("pause", lambda: self._ask(Pause()))
        self._timed("resume", lambda: self._ask(Resume()))
        self._timed("edit", self._edit)
        self._timed("equal", lambda: self._ask(Reload()))

    def _ask(self, request: ControlRequest) -> Any:
        return ask(self.socket, request, TIMEOUT)

    def _last_pass(self) -> float:
        """Return the seconds that the last pass took."""
        lines = str(self._ask(Metrics())).splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("holdfast_last_pass_duration_seconds "))

    def _until_converged(self, interval: float = 0.05) -> None:
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            with suppress(ControlError):  # the socket does not exist yet
                if next(iter(converse(self.socket, LiveView(), TIMEOUT)))["frame"]["converged"]:
                    return
            time.sleep(interval)
        raise TimeoutError("the agent has not converged")

    def _drifts_in_rechecks(self, path: Path) -> None:
        """Cause the drifts from another process: a thread of this one would compete with the event loop for the GIL."""
        code = (
            "import sys, pathlib, harness\n"
            "for _ in sys.stdin: print(harness.corrupt_and_wait(pathlib.Path(sys.argv[1])), flush=True)"
        )
        command = [sys.executable, "-c", code, str(path)]
        found: list[float] = []
        with subprocess.Popen(
            command, cwd=Path(__file__).parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            time.sleep(1)
            for _ in range(DRIFTS):
                self._ask(Recheck())
                other.stdin.write("\n")
                found.append(1000 * float(other.stdout.readline()))
                self._until_converged(SELDOM)
        self.figures["drift_in_recheck_ms"] = round(median(found), 1)
        self.figures["slowest_drift_in_recheck_ms"] = round(max(found), 1)

    def _edit(self) -> None:
        file = self.base / "states" / "files.sls"
        file.write_text(file.read_text().replace("0644", "0640", 1))
        self._ask(Reload())
        self._until_converged()

    def _timed(self, phase: str, work: Callable[[], object]) -> None:
        time.sleep(QUIET)
        self.timer.phase = phase
        began = time.perf_counter()
        work()
        self.figures[f"{phase}_s"] = round(time.perf_counter() - began, 4)
        time.sleep(QUIET)
        self.timer.phase = "idle"


def applied(base: Path) -> float:
    """Return the CPU seconds of the faster of two runs of `holdfast apply` that find all files as declared."""
    found = []
    for _ in range(3):
        before = os.times()
        subprocess.run([*HOLDFAST, "apply", "--config", str(settings(base))], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        found.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(found[1:])  # the first run repairs the edited file


def declare(base: Path, files: int, directories: int, *, right: bool) -> Path:
    """Declare this many files, and create them if `right`. Return the path of the one in the middle.

    The other paths are dropped, because the memory of this process is measured.
    """
    paths = declare_files(base, files, directories)
    for path in paths if right else ():
        path.write_text(CONTENT)
        path.chmod(0o644)
    return paths[len(paths) // 2]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=int, nargs="?", default=FILES)
    parser.add_argument("directories", type=int, nargs="?", default=DIRECTORIES)
    parser.add_argument("--right", action="store_true", help="create the files as declared before the agent starts")
    parser.add_argument("--names", action="store_true", help="print the longest callbacks of each phase")
    arguments = parser.parse_args()
    with private_directory() as base:
        middle = declare(base, arguments.files, arguments.directories, right=arguments.right)
        timer = Timer()
        driver = Driver(timer, base, middle)
        threading.Thread(target=driver.drive, name="driver", daemon=True).start()
        with timer.installed():
            run(settings(base), {})
        longest = {f"{phase}_longest_ms": timer.longest(phase) for phase in timer.found}
        if arguments.names:
            for phase, found in timer.found.items():
                print(f"{phase}: {timer.spent[phase]:.3f} s of CPU", file=sys.stderr)
                for seconds, collecting, name in found:
                    print(f"  {1000 * seconds:8.2f} ms (gc {1000 * collecting:.2f}) {name}", file=sys.stderr)
        recheck, apply = min(timer.spent.get(f"recheck{number}", 0.0) for number in ("", *AGAIN)), applied(base)
        spent = {
            "recheck_cpu_s": round(recheck, 2),
            "apply_cpu_s": round(apply, 2),
            "recheck_to_apply": round(recheck / apply, 2),
        }
        print(json.dumps({**driver.figures, **spent, **longest}))


if __name__ == "__main__":
    main()
