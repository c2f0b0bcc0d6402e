"""`apply` and `plan`: converge once, say what was done, exit with a code that says how it went."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import click

from holdfast.agent import once
from holdfast.agent.cli.exits import Code
from holdfast.agent.cli.options import SECONDS, Function, Source, on_states, print_json
from holdfast.agent.cli.terminal import say
from holdfast.agent.console import Console
from holdfast.agent.engine.report import Event, Notice, Outcome, Ran, Started, Tally
from holdfast.agent.logs import Logs
from holdfast.agent.narrate import Narrator, summary
from holdfast.agent.settings import Settings
from holdfast.agent.tree import Compiled, Trees
from holdfast.agent.words import first_of
from holdfast.resources.secrets import Cover
from holdfast.states.data import Call

_timeout = click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Give up after so long (exit code 4).")
_verbose = click.option("-v", "--verbose", is_flag=True, help="Show also what is right already, and what has no reason to run.")


def one_shot(function: Function) -> click.Command:
    """A verb that converges once."""
    return click.command()(on_states("text", "json")(_timeout(_verbose(function))))


@one_shot
@click.option("--detailed-exitcode", "detailed", is_flag=True, help="Exit with 2, not 0, when something was changed.")
def apply(sls: tuple[str, ...], source: Source, form: str, timeout: float | None, verbose: bool, *, detailed: bool) -> None:
    """Apply the states named SLS once; without a name those of the top file, or all.

    Exit codes: 0 all is as declared now, 1 something failed, 3 the states do not compile, 4 out of time; 2 something would be changed
    (noop), or, with --detailed-exitcode, was changed.
    """
    _converge(sls, source, form, timeout=timeout, verbose=verbose, noop=False, detailed=detailed)


@one_shot
def plan(sls: tuple[str, ...], source: Source, form: str, timeout: float | None, verbose: bool) -> None:
    """Show what `apply` would change, with diffs, and which refreshes are owed for earlier changes; change nothing.

    Exit codes: 0 nothing would have to be changed, 2 something would be, 1 something failed, 3 the states do not compile,
    4 out of time.
    """
    _converge(sls, source, form, timeout=timeout, verbose=verbose, noop=True, detailed=True)


class Printer:
    """Collects outcomes and, in text form, prints them as they come; the log proper goes to stderr."""

    def __init__(self, settings: Settings, cover: Cover, *, show: bool, verbose: bool) -> None:
        self.outcomes: list[Outcome] = []
        self.owed: list[Notice] = []
        """What earlier changes have left to be done."""
        self._running: dict[str, float] = {}
        """Identity -> when it began."""
        self._show, self._verbose = show, verbose
        self._logs = Logs(settings.log.model_copy(update={"format": "console"}))
        self.cover = self._logs.cover = cover
        self._narrator, self._console = Narrator(unsaid="start"), Console.at(1)

    def emit(self, event: Event) -> None:
        """Take what the engine tells."""
        if isinstance(event, Notice) and event.code == "owed":
            self._owe(event)
        elif isinstance(event, Notice):
            self._warn(event)
        elif isinstance(event, Started):
            self._running[event.identity] = time.monotonic()
        elif isinstance(event, Ran):
            self._running.pop(event.outcome.identity, None)
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
        """Write what is left of the log."""
        self._logs.close()

    def _owe(self, notice: Notice) -> None:
        self.owed.append(notice)
        if self._show:
            say(self.cover(f"owed: {notice.identity} {notice.text}"))

    def _warn(self, notice: Notice) -> None:
        """For a person a sentence like any other; with a traceback perhaps, or for programs, a line of the log."""
        word = "waiting" if notice.code == "held-off" else notice.level
        line = self._narrator.tell(notice) if self._show and word in ("waiting", "warning") and notice.error is None else None
        if line is None:
            self._logs.emit(notice)
        else:
            say(self.cover(f"{word}: {line.text}"), err=True)

    def _print(self, event: Ran) -> None:
        line = self._narrator.tell(event) if self._show and (self._verbose or _is_news(event.outcome)) else None
        if line is not None:
            sys.stdout.write(self._console.text(self.cover({"event": line.text, "level": line.level, **line.fields})) + "\n")
            sys.stdout.flush()


def _converge(sls: tuple[str, ...], source: Source, form: str, *, timeout: float | None, verbose: bool, noop: bool, detailed: bool) -> None:
    """Compile, converge, print, exit."""
    began = time.monotonic()
    settings = source.settings()
    settings = settings.model_copy(update={"engine": settings.engine.model_copy(update={"noop": noop or settings.engine.noop})})
    compiled = Trees().compile(settings, sls=source.names(sls, settings), grains=source.facts(settings))
    printer = Printer(settings, compiled.cover, show=form == "text", verbose=verbose)
    for problem in compiled.warnings:
        say(f"warning: {problem}", err=True)
    record, interrupted = None, False
    try:
        whole = not sls and source.grains is None and not any(source.overrides.values())
        record = once.converge(settings, compiled, printer.emit, timeout=timeout, whole=whole)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        printer.close()
    outcomes = printer.outcomes if record is None else record.outcomes
    ended = printer.broken_off() if record is None else []
    if form == "json":
        converged, number = (record.converged, record.number) if record else (False, 1)
        owed = {"owed": [{"identity": each.identity, "text": each.text} for each in printer.owed]} if printer.owed else {}
        print_json(printer.cover({"pass": number, "converged": converged, **owed, "results": list(results(compiled, [*outcomes, *ended]))}))
    if interrupted:
        say(
            ("\n" if sys.stderr.isatty() else "") + printer.cover(f"interrupted: {_so_far(compiled, outcomes, ended)}"), err=True
        )  # not beside the ^C
    elif form != "json":
        late = f"out of time: not converged after {timeout:g} s; {_so_far(compiled, outcomes, ended)}" if record is None else ""
        late = f"broken off: {_so_far(compiled, outcomes, ended)}" if record and record.broken_off else late
        _summarise(compiled, outcomes, time.monotonic() - began, printer.cover(late))
    if record is None:
        raise click.exceptions.Exit(Code.INTERRUPTED if interrupted else Code.TIMEOUT)
    detailed = detailed or settings.engine.noop
    raise click.exceptions.Exit(Code.FAILED if record.broken_off else exit_code(compiled.compilation.calls, outcomes, detailed=detailed))


def _is_news(outcome: Outcome) -> bool:
    """Whether there is more to say than that all is right, or that a guard or a requisite gave no reason to run."""
    if not outcome.ran:
        return outcome.result is False
    return outcome.result is not True or outcome.changed or outcome.refreshed


def exit_code(calls: Sequence[Call], outcomes: Sequence[Outcome], *, detailed: bool) -> Code:
    """How it went, in one number; `detailed` tells changes, made or not, from none."""
    failed = {outcome.identity for outcome in outcomes if outcome.result is False}
    if failed - handled(calls, failed):
        return Code.FAILED
    different = any(outcome.changed or outcome.result is None for outcome in outcomes)
    return Code.CHANGES if detailed and different else Code.DONE


def handled(calls: Sequence[Call], failed: Collection[str]) -> set[str]:
    """The states for whose failure there are handlers with `onfail_stop: false`, none of which has failed itself."""
    handlers: dict[str, list[str]] = {}
    for call in calls:
        for target in () if call.meta.onfail_stop else call.requisites.get("onfail", ()):
            handlers.setdefault(calls[target].identity, []).append(call.identity)
    return {identity for identity, names in handlers.items() if not any(name in failed for name in names)}


def results(compiled: Compiled, outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    """The stable JSON form: one object for each outcome, in the order executed.

    The refresh of a listener is a row of its own, named as Salt names it.
    """
    calls = {call.identity: call for call in compiled.compilation.calls}
    for run, outcome in enumerate(outcomes):
        low = calls[outcome.identity].low
        yield {
            "id": f"listener_{low['__id__']}" if outcome.listener else low["__id__"],
            "state": low["state"],
            "fun": "mod_watch" if outcome.listener else low["fun"],
            "name": low["name"],
            "sls": low["__sls__"],
            "run": run,
            "result": outcome.result,
            "changes": outcome.changes,
            "comment": outcome.comment,
            **({"diff": outcome.diff} if outcome.diff else {}),
            "duration": round(outcome.duration, 6),
            "ran": outcome.ran,
            **({} if outcome.ran else {"reason": outcome.reason, "because": list(outcome.because)}),
        }


def _so_far(compiled: Compiled, outcomes: Sequence[Outcome], ended: Sequence[Outcome]) -> str:
    """How far a run came that was broken off, and in what."""
    broken = f"{first_of([f'{each.identity} {each.comment}' for each in ended])}; " if ended else ""
    return f"{broken}{len(outcomes)} of {len(compiled.compilation.calls)} states were looked at"


def _summarise(compiled: Compiled, outcomes: Sequence[Outcome], seconds: float, late: str) -> None:
    """The last line for a person."""
    if not compiled.compilation.calls:
        say(f"there is nothing to do: no state applies to {compiled.grains['id']}")
    else:
        say(late or summary(Tally(outcomes), seconds))
