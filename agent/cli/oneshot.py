"""The work of `apply` and `plan`: converge once, report the changes, and exit with a code for the result."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from holdfast.agent import once
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.oneshot_options import OneShotOptions
from holdfast.agent.cli.options import print_rows
from holdfast.agent.cli.printer import Printer
from holdfast.agent.cli.tally import tally
from holdfast.agent.cli.terminal import drawable, say
from holdfast.agent.configuration import Compiled, ConfigurationCompiler
from holdfast.agent.engine.model.events import PassRecord
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.other_agents import demand_no_other
from holdfast.agent.phrases import first_of
from holdfast.agent.settings import Settings
from holdfast.resources import paths
from holdfast.states.data import Call

if TYPE_CHECKING:
    from holdfast.agent.cli.progress import Progress


STDOUT = Path("-")
"""`-o -`: standard output."""


class OneShotRun:
    """One run of `apply` or `plan`. Compiles the states; raises `CompileError`, `UsageError`, and `HoldfastError`."""

    def __init__(self, options: OneShotOptions, *, noop: bool) -> None:
        _check_output(options)
        if options.output == STDOUT:
            options = options._replace(output=None)
        self._began, self._options = time.monotonic(), options
        settings = options.source.settings()
        if not options.anyway:
            demand_no_other(settings, "plan" if noop else "apply")
        self._settings = settings = settings.model_copy(
            update={"engine": settings.engine.model_copy(update={"noop": noop or settings.engine.noop})}
        )
        source = options.source
        self._compiled = ConfigurationCompiler().compile(
            settings, sls=source.names(options.sls, settings), grains=source.facts(settings)
        )
        self._only = _selected(options, settings, self._compiled)
        self._total = len(self._compiled.compilation.calls if self._only is None else self._only)
        self._progress = self._new_progress()
        self._printer = Printer(
            settings,
            self._compiled.redactor,
            show=options.form == "text",
            verbose=options.verbose,
            quiet=options.quiet,
            progress=self._progress,
        )

    def carry_out(self) -> NoReturn:
        """Converge, print, and raise click's `Exit` with the exit code."""
        for problem in () if self._options.quiet else self._compiled.warnings:
            say(f"warning: {problem}", err=True)
        interrupted = False
        record = None
        try:
            record = self._converge()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._printer.close()
        outcomes = self._printer.outcomes if record is None else record.outcomes
        ended = self._printer.broken_off() if record is None else []
        if self._options.form == "json":
            self._print_json(record, [*outcomes, *ended])
        if interrupted:
            self._say_interrupted(f"interrupted: {self._so_far(outcomes, ended)}")
            raise click.exceptions.Exit(ExitCode.INTERRUPTED)
        if self._options.form != "json":
            self._print_result(outcomes, self._incomplete(record, outcomes, ended))
        raise click.exceptions.Exit(self._exit_code(record))

    def _converge(self) -> PassRecord | None:
        """Return the record of the pass; None if the time ran out. Raises `KeyboardInterrupt`."""
        source, progress = self._options.source, self._progress
        return once.converge(
            self._settings,
            self._compiled,
            self._printer.emit,
            timeout=self._options.timeout,
            whole=not self._options.sls and source.grains is None and not any(source.overrides.values()),
            only=self._only,
            on_output=progress.output if progress else None,
        )

    def _exit_code(self, record: PassRecord | None) -> ExitCode:
        if record is None:
            return ExitCode.TIMEOUT
        if record.broken_off:
            return ExitCode.FAILED
        return exit_code(self._compiled.compilation.calls, record.outcomes, detailed=self._options.detailed)

    # -- what is printed ---------------------------------------------------------------------------------------

    def _new_progress(self) -> Progress | None:
        """Return the display of the run's progress; None unless text is shown on a terminal."""
        options = self._options
        if options.quiet or not (options.form == "text" or options.output) or not drawable():
            return None
        from holdfast.agent.cli.progress import Progress

        hidden = frozenset(call.identity for call in self._compiled.compilation.calls if call.meta.no_log)
        return Progress(self._total, self._compiled.redactor, hidden.__contains__)

    def _print_json(self, record: PassRecord | None, outcomes: Sequence[Outcome]) -> None:
        printer = self._printer
        head: dict[str, Any] = {
            "pass": record.number if record else 1,
            "converged": record.converged if record else False,
        }
        if printer.owed:
            head["owed"] = [{"identity": each.identity, "text": each.text} for each in printer.owed]
        rows = printer.redactor(list(results(self._compiled, outcomes)))
        print_rows(printer.redactor(head), "results", rows)

    def _say_interrupted(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be closed
            begin = "\n" if sys.stderr.isatty() else ""  # not on the line of the ^C
            say(begin + self._printer.redactor(text), err=True)

    def _incomplete(self, record: PassRecord | None, outcomes: Sequence[Outcome], ended: Sequence[Outcome]) -> str:
        """Return why the run is not complete; empty if it is."""
        if record is None:
            so_far = self._so_far(outcomes, ended)
            return f"timed out: not converged after {self._options.timeout:g} s; {so_far}"
        return f"interrupted: {self._so_far(outcomes, ended)}" if record.broken_off else ""

    def _print_result(self, outcomes: Sequence[Outcome], incomplete: str) -> None:
        """Print the last line, and write the HTML page if it was requested."""
        options = self._options
        said = self._printer.redactor(incomplete or self._summary(outcomes))
        if options.form == "html":
            from holdfast.agent.cli import audit

            plan = audit.PlanResult(outcomes, self._printer.owed, said, options.only)
            audit.write(audit.report(self._settings, self._compiled, plan), options.output)
        if options.form == "text" or options.output:
            say(said)

    def _so_far(self, outcomes: Sequence[Outcome], ended: Sequence[Outcome]) -> str:
        """Return the progress of an interrupted run, and the resources that were ended."""
        broken = f"{first_of([f'{each.identity} {each.comment}' for each in ended])}; " if ended else ""
        return f"{broken}{len(outcomes)} of {self._total} states were checked"

    def _summary(self, outcomes: Sequence[Outcome]) -> str:
        """Return the last line for people."""
        if not self._compiled.compilation.calls:
            return f"there is nothing to do: no state applies to {self._compiled.grains['id']}"
        return tally(outcomes, time.monotonic() - self._began)


def _check_output(options: OneShotOptions) -> None:
    """Refuse an unwritable file before anything is checked. Raises `OSError` and `HoldfastError`."""
    if options.output is None:
        return
    if options.form != "html":
        raise click.UsageError("-o requires --format html")
    if options.output != STDOUT:
        paths.at(str(options.output.absolute()))


def _selected(options: OneShotOptions, settings: Settings, compiled: Compiled) -> frozenset[str] | None:
    """Return the identities of the states that `--only` selects; None means all."""
    if not options.only:
        return None
    from holdfast.states.compile.selection import NothingMatches, selected

    try:
        return selected(compiled.compilation.calls, options.only, autoedge=settings.engine.autoedge)
    except NothingMatches as error:
        raise click.UsageError(f"--only: {error}") from None


def exit_code(calls: Sequence[Call], outcomes: Sequence[Outcome], *, detailed: bool) -> ExitCode:
    """Return the exit code of a run: what noop has prevented counts; with `detailed`, so does what was changed."""
    failed = {outcome.identity for outcome in outcomes if outcome.result is False}
    if failed - handled(calls, failed):
        return ExitCode.FAILED
    different = any(outcome.result is None or (detailed and outcome.changed) for outcome in outcomes)
    return ExitCode.CHANGES if different else ExitCode.DONE


def handled(calls: Sequence[Call], failed: Collection[str]) -> set[str]:
    """Return the failed states that a handler with `onfail_stop: false` handles and does not fail itself."""
    handlers: dict[str, list[str]] = {}
    for call in calls:
        for target in () if call.meta.onfail_stop else call.requisites.get("onfail", ()):
            handlers.setdefault(calls[target].identity, []).append(call.identity)
    return {identity for identity, names in handlers.items() if not any(name in failed for name in names)}


def results(compiled: Compiled, outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    """Yield the stable JSON form: one object for each outcome, in order of execution.

    The refresh of a listener is an outcome of its own, named as Salt names it.
    """
    calls = {call.identity: call for call in compiled.compilation.calls}
    for run, outcome in enumerate(outcomes):
        call = calls[outcome.identity]
        low, location = call.low, call.location
        yield {
            "id": f"listener_{low['__id__']}" if outcome.listener else low["__id__"],
            "state": low["state"],
            "fun": "mod_watch" if outcome.listener else low["fun"],
            "name": low["name"],
            "sls": low["__sls__"],
            "file": location.file,
            "line": location.line,
            "run": run,
            "result": outcome.result,
            "changes": outcome.changes,
            "comment": outcome.comment,
            **({"diff": outcome.diff} if outcome.diff else {}),
            "duration": round(outcome.duration, 6),
            "ran": outcome.ran,
            **({} if outcome.ran else {"reason": outcome.reason, "because": list(outcome.because)}),
        }
