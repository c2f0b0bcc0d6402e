"""Drives real kinds and providers in a host from outside; `inside.py` is the counterpart in the host."""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from installed import PYTHON
from lab import Host

from deadline import DEADLINE

SCRIPT = "/root/inside.py"


class Failed(Exception):
    """A request ended with an error; the text is that of the error, and `kind` the name of its class."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class Outcome:
    """The result of `check_apply` or `refresh`."""

    right: bool
    """Whether everything was as declared."""
    changes: dict[str, Any]
    comment: str
    ended: str
    """How a service had ended, and who requested that."""


@dataclass
class Watcher:
    """A watch that runs in the host."""

    driver: Driver
    number: str
    seen: int = 0

    def wait(self, timeout: float = DEADLINE) -> None:
        """Wait for one more event, then consume all that have arrived."""
        self.driver.wait(lambda: self.driver.events.count(self.number) > self.seen, "an event", timeout)
        self.seen = self.driver.events.count(self.number)

    def quiet(self, seconds: float = 0.3) -> None:
        """Consume events until none has arrived for this time."""
        while self._more(seconds):
            self.seen = self.driver.events.count(self.number)

    def _more(self, seconds: float) -> bool:
        try:
            self.wait(seconds)
        except TimeoutError:
            return False
        return True


@dataclass
class Driver:
    """A session in a host; a context manager."""

    host: Host
    facts: Mapping[str, str] = field(default_factory=dict)
    """Grains that replace those of the host."""
    log: list[str] = field(default_factory=list)
    """Log messages, and the script's output on stderr."""
    events: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    """Codes of the present health conditions."""
    _answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    _lines: queue.Queue[str] = field(default_factory=queue.Queue)
    _numbers: Any = field(default_factory=itertools.count)

    def __enter__(self) -> Self:
        """Start the script in the host."""
        self.host.write(SCRIPT, (Path(__file__).parent / "inside.py").read_text())
        self._process = self.host.spawn(
            *(PYTHON, "-W", "error", SCRIPT, json.dumps(dict(self.facts))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the script."""
        self._process.stdin.close()
        self._process.wait(DEADLINE)
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)

    # -- asking --------------------------------------------------------------------------------------------------

    def apply(self, kind: str, name: str, **arguments: Any) -> Outcome:
        """Apply the resource. Raise `Failed` if it fails."""
        return Outcome(**self._ask(do="apply", kind=kind, name=name, arguments=arguments))

    def plan(self, kind: str, name: str, **arguments: Any) -> Outcome:
        """Check the resource without changes. Raise `Failed` if that fails."""
        return Outcome(**self._ask(do="plan", kind=kind, name=name, arguments=arguments))

    def refresh(self, kind: str, name: str, **arguments: Any) -> Outcome:
        """Refresh the resource, as after a change of something it watches. Raise `Failed` if that fails."""
        return Outcome(**self._ask(do="apply", kind=kind, name=name, arguments=arguments, refresh=True))

    def call(self, function: str, *positional: Any, **arguments: Any) -> Any:
        """Call a function of an interface, such as `pkg.list_installed`; arguments are plain JSON."""
        module, _, name = function.partition(".")
        return self._ask(do="call", module=module, function=name, positional=positional, arguments=arguments)

    def watch(self, kind: str, name: str, **arguments: Any) -> Watcher:
        """Start a watch, and wait until it is armed."""
        number = self.send(do="watch", kind=kind, name=name, arguments=arguments)
        watcher = Watcher(self, number)
        watcher.wait()
        return watcher

    def send(self, **request: Any) -> str:
        """Send a request and return its number, without waiting for the answer."""
        number = str(next(self._numbers))
        self._process.stdin.write(json.dumps({"id": number, **request}) + "\n")
        self._process.stdin.flush()
        return number

    def answer(self, number: str, timeout: float = DEADLINE) -> Any:
        """Return the answer to a request. Raise `Failed` if it is an error."""
        self.wait(lambda: number in self._answers, "an answer", timeout)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise Failed(answer["error"], answer["type"])
        return answer["result"]

    def _ask(self, **request: Any) -> Any:
        return self.answer(self.send(**request))

    # -- listening -----------------------------------------------------------------------------------------------

    def logged(self, text: str, timeout: float = DEADLINE) -> None:
        """Wait for a log message with this text."""
        self.wait(lambda: any(text in line for line in self.log), f"{text!r} in the log", timeout)

    def wait(self, condition: Callable[[], bool], what: str, timeout: float = DEADLINE) -> None:
        """Read messages, and try a condition after each, until it holds. Raise `TimeoutError` with the log."""
        end = time.monotonic() + timeout
        while True:
            while not self._lines.empty():
                self._take(self._lines.get())
            if condition():
                return
            try:
                self._take(self._lines.get(timeout=max(0.0, end - time.monotonic())))
            except queue.Empty:
                log = "\n".join(self.log[-20:])
                raise TimeoutError(f"not within {timeout} s: {what}; the log says:\n{log}") from None

    def _take(self, line: str) -> None:
        message = json.loads(line) if line.startswith("{") else {"log": line.rstrip()}
        if "event" in message:
            self.events.append(message["event"])
        elif "health" in message:
            self.health = message["health"]
        elif "log" in message:
            self.log.append(message["log"])
        else:
            self._answers[message["id"]] = message
