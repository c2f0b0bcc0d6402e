"""Output of a one-shot run for people: outcomes as they arrive and, on a terminal, the running resources below them."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from holdfast.agent.cli.terminal import say
from holdfast.agent.console import Console
from holdfast.agent.engine.model.events import Event, Notice, Ran, Started
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.logs import Logs
from holdfast.agent.narrate import Narrator
from holdfast.agent.settings import Settings
from holdfast.resources.secrets import Redactor

if TYPE_CHECKING:
    from holdfast.agent.cli.progress import Progress

OUTPUTS = ("stdout", "stderr", "combined")
"""Changes that contain output of a command."""


class Printer:
    """Collects outcomes and, in text form, prints them as they arrive; the log goes to stderr."""

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
        """Pending deliveries of earlier changes."""
        self._running: dict[str, float] = {}
        """Identity -> start time."""
        self._show, self._verbose, self._quiet = show, verbose, quiet
        self._progress = progress
        """The progress display on a terminal, else None."""
        self._logs = Logs(settings.log.model_copy(update={"format": "console"}))
        self.redactor = self._logs.redactor = redactor
        self._narrator, self._console = Narrator(unsaid="start"), Console.at(1)
        if progress:
            self._logs.followers.add(lambda _: progress.clear())

    def emit(self, event: Event) -> None:
        """Handle an event of the engine."""
        if isinstance(event, Started):
            self._running[event.identity] = time.monotonic()
            if self._progress:
                self._progress.started(event.identity)
        elif isinstance(event, Ran):
            self._running.pop(event.outcome.identity, None)
            if self._progress:
                self._progress.ended(event.outcome.identity)
            self.outcomes.append(event.outcome)
            self._print(event)
        elif isinstance(event, Notice) and event.code == "owed":
            self._owe(event)
        elif isinstance(event, Notice):
            self._warn(event)

    def broken_off(self) -> list[Outcome]:
        """Return an outcome for each run that was ended early."""
        spans = {identity: time.monotonic() - began for identity, began in self._running.items()}
        return [
            Outcome(identity, -1, result=False, comment=f"was ended after {seconds:.1f} s", duration=seconds)
            for identity, seconds in spans.items()
        ]

    def close(self) -> None:
        """Write the rest."""
        if self._progress:
            self._progress.close()
            self._progress = None
        self._logs.close()

    def _owe(self, notice: Notice) -> None:
        self.owed.append(notice)
        if self._show and not self._quiet:
            self._say(f"pending: {notice.identity} {notice.text}")

    def _warn(self, notice: Notice) -> None:
        """Print a notice: for people a sentence; with a traceback, or for programs, a line of the log."""
        word = "waiting" if notice.code == "held-off" else notice.level
        plain = word in ("waiting", "warning") and notice.error is None
        if plain and self._quiet:
            return
        line = self._narrator.tell(notice) if self._show and plain else None
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
        ):  # the output of its command was already shown
            changes = {name: change for name, change in event.outcome.changes.items() if name not in OUTPUTS}
            event = event._replace(outcome=event.outcome._replace(changes=changes))
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
    """Return whether an outcome needs a line.

    It needs none if the resource is as declared, or if a guard or requisite has skipped it.
    """
    if not outcome.ran:
        return outcome.result is not True
    return outcome.result is not True or outcome.changed or outcome.refreshed
