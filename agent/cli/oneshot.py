"""`apply` and `plan`: converge once, report what was done, and exit with a code for the result."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.agent import once
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import SECONDS, ConfigurationSource, Function, completed, on_states, print_rows
from holdfast.agent.cli.printer import Printer
from holdfast.agent.cli.tally import tally
from holdfast.agent.cli.terminal import drawable, say
from holdfast.agent.configuration import Compiled, ConfigurationCompiler
from holdfast.agent.engine.model.events import Outcome
from holdfast.agent.other_agents import demand_no_other
from holdfast.agent.phrases import first_of
from holdfast.agent.settings import Settings
from holdfast.resources import paths
from holdfast.states.data import Call

if TYPE_CHECKING:
    from holdfast.agent.cli.progress import Progress

_timeout = click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Give up after this time (exit code 4).")
_verbose = click.option(
    "-v", "--verbose", is_flag=True, help="Also show resources that are as declared or have no reason to run."
)
_quiet = click.option(
    "-q", "--quiet", is_flag=True, help="Show only failures and the summary: no changes and no warnings."
)
_only = click.option(
    "--only",
    multiple=True,
    metavar="RESOURCE",
    shell_complete=completed("resources"),
    help="Only this resource (identity, ID, name, or pattern with * and ?) and all that it requires; may be repeated.",
)
_anyway = click.option(
    "--anyway", is_flag=True, help="Continue although a running agent manages other states on this host."
)


class Order(NamedTuple):
    """The arguments of a verb."""

    sls: tuple[str, ...]
    source: ConfigurationSource
    form: str
    timeout: float | None
    verbose: bool
    quiet: bool
    only: tuple[str, ...]
    anyway: bool
    output: Path | None = None
    detailed: bool = False
    """Whether the exit code tells changes."""


def one_shot(*forms: str) -> Callable[[Function], Function]:
    """A verb that converges once, with these output formats."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(**given: Any) -> None:
            function(Order(**given))

        return on_states(*forms)(_timeout(_only(_anyway(_quiet(_verbose(wrapper))))))

    return decorate


@click.command()
@click.option("--detailed-exitcode", "detailed", is_flag=True, help="Exit with 2, not 0, when something was changed.")
@one_shot("text", "json")
def apply(order: Order) -> None:
    """Apply the states named SLS once. Without SLS: the states of the top file, or all.

    Exit codes: 0 all resources are as declared, 1 something failed, 3 the states do not compile, 4 timeout; 2 something
    would be changed (noop) or, with --detailed-exitcode, was changed.
    """
    _converge(order, noop=False)


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File for the HTML page; default stdout.",
)
@one_shot("text", "json", "html")
def plan(order: Order) -> None:
    """Show what `apply` would change, and pending refreshes of earlier changes; change nothing.

    `--format html -o report.html` writes a page for an audit: all differences by area. The page may contain data of
    private files, so only its owner may read it.

    Exit codes: 0 nothing would be changed, 2 something would be, 1 something failed, 3 the states do not compile,
    4 timeout.
    """
    _converge(order, noop=True)


def _converge(order: Order, *, noop: bool) -> None:
    """Compile, converge, print, exit."""
    began, source = time.monotonic(), order.source
    _check_output(order)
    settings = source.settings()
    if not order.anyway:
        demand_no_other(settings, "plan" if noop else "apply")
    settings = settings.model_copy(
        update={"engine": settings.engine.model_copy(update={"noop": noop or settings.engine.noop})}
    )
    compiled = ConfigurationCompiler().compile(
        settings, sls=source.names(order.sls, settings), grains=source.facts(settings)
    )
    only = _selected(order, settings, compiled)
    total = len(compiled.compilation.calls if only is None else only)
    show = order.form == "text"
    drawn = (show or order.output) and not order.quiet and drawable()
    progress = _progress(total, compiled) if drawn else None
    printer = Printer(
        settings, compiled.redactor, show=show, verbose=order.verbose, quiet=order.quiet, progress=progress
    )
    for problem in () if order.quiet else compiled.warnings:
        say(f"warning: {problem}", err=True)
    record, interrupted = None, False
    try:
        whole = not order.sls and source.grains is None and not any(source.overrides.values())
        record = once.converge(
            settings,
            compiled,
            printer.emit,
            timeout=order.timeout,
            whole=whole,
            only=only,
            onlooker=progress.output if progress else None,
        )
    except KeyboardInterrupt:
        interrupted = True
    finally:
        printer.close()
    outcomes = printer.outcomes if record is None else record.outcomes
    ended = printer.broken_off() if record is None else []
    if order.form == "json":
        converged, number = (record.converged, record.number) if record else (False, 1)
        owed = (
            {"owed": [{"identity": each.identity, "text": each.text} for each in printer.owed]} if printer.owed else {}
        )
        rows = printer.redactor(list(results(compiled, [*outcomes, *ended])))
        print_rows(printer.redactor({"pass": number, "converged": converged, **owed}), "results", rows)
    if interrupted:
        text = printer.redactor(f"interrupted: {_so_far(total, outcomes, ended)}")
        with suppress(OSError):  # the terminal may be closed
            say(("\n" if sys.stderr.isatty() else "") + text, err=True)  # not on the line of the ^C
    elif order.form != "json":
        late = (
            f"out of time: not converged after {order.timeout:g} s; {_so_far(total, outcomes, ended)}"
            if record is None
            else ""
        )
        late = f"interrupted: {_so_far(total, outcomes, ended)}" if record and record.broken_off else late
        seconds = time.monotonic() - began
        said = printer.redactor(late or _summary(compiled, outcomes, seconds))
        if order.form == "html":
            from holdfast.agent.cli import audit

            audit.write(
                audit.report(settings, compiled, audit.PlanResult(outcomes, printer.owed, said, order.only)),
                order.output,
            )
        if order.form == "text" or order.output:
            say(said)
    if record is None:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED if interrupted else ExitCode.TIMEOUT)
    detailed = order.detailed or settings.engine.noop
    raise click.exceptions.Exit(
        ExitCode.FAILED if record.broken_off else exit_code(compiled.compilation.calls, outcomes, detailed=detailed)
    )


def _check_output(order: Order) -> None:
    """Refuse an unwritable file before anything is checked. Raises `OSError` and `HoldfastError`."""
    if order.output is None:
        return
    if order.form != "html":
        raise click.UsageError("-o requires --format html")
    paths.at(str(order.output.absolute()))


def _selected(order: Order, settings: Settings, compiled: Compiled) -> frozenset[str] | None:
    """Identities of the states that `--only` selects; None means all."""
    if not order.only:
        return None
    from holdfast.states.compile.selection import NothingMatches, selected

    try:
        return selected(compiled.compilation.calls, order.only, autoedge=settings.engine.autoedge)
    except NothingMatches as error:
        raise click.UsageError(f"--only: {error}") from None


def _progress(total: int, compiled: Compiled) -> Progress:
    """The display of the run's progress."""
    from holdfast.agent.cli.progress import Progress

    return Progress(total, compiled.redactor, _hidden(compiled))


def _hidden(compiled: Compiled) -> Callable[[str], bool]:
    """A function that says whether output of a resource must be hidden."""
    hidden = frozenset(call.identity for call in compiled.compilation.calls if call.meta.no_log)
    return hidden.__contains__


def exit_code(calls: Sequence[Call], outcomes: Sequence[Outcome], *, detailed: bool) -> ExitCode:
    """The exit code of a run; `detailed` distinguishes changes, made or not, from none."""
    failed = {outcome.identity for outcome in outcomes if outcome.result is False}
    if failed - handled(calls, failed):
        return ExitCode.FAILED
    different = any(outcome.changed or outcome.result is None for outcome in outcomes)
    return ExitCode.CHANGES if detailed and different else ExitCode.DONE


def handled(calls: Sequence[Call], failed: Collection[str]) -> set[str]:
    """Failed states whose failure is handled with `onfail_stop: false`, by handlers that have not failed themselves."""
    handlers: dict[str, list[str]] = {}
    for call in calls:
        for target in () if call.meta.onfail_stop else call.requisites.get("onfail", ()):
            handlers.setdefault(calls[target].identity, []).append(call.identity)
    return {identity for identity, names in handlers.items() if not any(name in failed for name in names)}


def results(compiled: Compiled, outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    """The stable JSON form: one object for each outcome, in order of execution.

    The refresh of a listener is an outcome of its own, named as Salt names it.
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


def _so_far(total: int, outcomes: Sequence[Outcome], ended: Sequence[Outcome]) -> str:
    """The progress of an interrupted run, and the resources that were ended."""
    broken = f"{first_of([f'{each.identity} {each.comment}' for each in ended])}; " if ended else ""
    return f"{broken}{len(outcomes)} of {total} states were checked"


def _summary(compiled: Compiled, outcomes: Sequence[Outcome], seconds: float) -> str:
    """The last line for people."""
    if not compiled.compilation.calls:
        return f"there is nothing to do: no state applies to {compiled.grains['id']}"
    return tally(outcomes, seconds)
