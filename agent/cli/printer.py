"""What a one-shot run tells a person: outcomes as they come, on a terminal with what runs below them."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from holdfast.agent.cli.progress import Progress
from holdfast.agent.cli.terminal import say
from holdfast.agent.console import Console
from holdfast.agent.engine.report import Event, Notice, Outcome, Ran, Started
from holdfast.agent.logs import Logs
from holdfast.agent.narrate import Narrator
from holdfast.agent.settings import Settings
from holdfast.resources.secrets import Redactor

OUTPUTS = ("stdout", "stderr", "combined")
"""Changes that are what a command has written."""


class Printer:
    """Collects outcomes and, in text form, prints them as they come; the log proper goes to stderr."""

    def __init__(
        self,
        settings: Settings,
        redactor: Redactor,
        *,
        show: bool,
        verbose: bool,
        quiet: bool,
        progress: Progress | None,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self.owed: list[Notice] = []
        """What earlier changes have left to be done."""
        self._running: dict[str, float] = {}
        """Identity -> when it began."""
        self._show, self._verbose, self._quiet = show, verbose, quiet
        self._progress = progress
        """What is drawn on a terminal; None elsewhere."""
        self._logs = Logs(settings.log.model_copy(update={"format": "console"}))
        self.redactor = self._logs.redactor = redactor
        self._narrator, self._console = Narrator(unsaid="start"), Console.at(1)
        if progress:
            self._logs.followers.add(lambda _: progress.clear())

    def emit(self, event: Event) -> None:
        """Take what the engine tells."""
        if isinstance(event, Notice) and event.code == "owed":
            self._owe(event)
        elif isinstance(event, Notice):
            self._warn(event)
        elif isinstance(event, Started):
            self._running[event.identity] = time.monotonic()
            if self._progress:
                self._progress.started(event.identity)
        elif isinstance(event, Ran):
            self._running.pop(event.outcome.identity, None)
            if self._progress:
                self._progress.ended(event.outcome.identity)
            self.outcomes.append(event.outcome)
            self._print(event)

    def broken_off(self) -> list[Outcome]:
        """What began, and was ended before anything came of it."""
        spans = {identity: time.monotonic() - began for identity, began in self._running.items()}
        return [
            Outcome(identity, -1, result=False, comment=f"was ended after {seconds:.1f} s", duration=seconds)
            for identity, seconds in spans.items()
        ]

    def close(self) -> None:
        """Write what is left."""
        if self._progress:
            self._progress.close()
            self._progress = None
        self._logs.close()

    def _owe(self, notice: Notice) -> None:
        self.owed.append(notice)
        if self._show:
            self._say(f"owed: {notice.identity} {notice.text}")

    def _warn(self, notice: Notice) -> None:
        """For a person a sentence like any other; with a traceback perhaps, or for programs, a line of the log."""
        word = "waiting" if notice.code == "held-off" else notice.level
        line = (
            self._narrator.tell(notice)
            if self._show and word in ("waiting", "warning") and notice.error is None
            else None
        )
        if line is None:
            self._logs.emit(notice)
        else:
            self._say(f"{word}: {line.text}", err=True)

    def _say(self, text: str, *, err: bool = False) -> None:
        if self._progress:
            self._progress.clear()
        say(self.redactor(text), err=err)

    def _print(self, event: Ran) -> None:
        if not self._show or not self._is_shown(event.outcome):
            return
        if self._progress and self._progress.told.get(
            event.outcome.identity
        ):  # what its command wrote stands there already
            changes = {name: change for name, change in event.outcome.changes.items() if name not in OUTPUTS}
            event = replace(event, outcome=replace(event.outcome, changes=changes))
        line = self._narrator.tell(event)
        if line is None:
            return
        text = self._console.text(self.redactor({"event": line.text, "level": line.level, **line.fields}))
        if self._progress:
            self._progress.say(text)
        else:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def _is_shown(self, outcome: Outcome) -> bool:
        if self._quiet:
            return outcome.result is False and not outcome.blocked
        return self._verbose or _is_news(outcome)


def _is_news(outcome: Outcome) -> bool:
    """Whether there is more to say than that all is right, or that a guard or a requisite gave no reason to run."""
    if not outcome.ran:
        return outcome.result is False
    return outcome.result is not True or outcome.changed or outcome.refreshed
