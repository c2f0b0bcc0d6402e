"""`check`: errors and warnings in states, for people and for programs that annotate code."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.agent.cli import findings
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import ConfigurationSource, on_states, print_json
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.console import coloured
from holdfast.agent.settings import LintSettings
from holdfast.states.codes import demand_warning
from holdfast.states.errors import CompileError
from holdfast.states.lint.inspect import LintReport


def _codes(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The codes of --ignore. Raises `BadParameter` for anything but codes of warnings."""
    for value in values:
        try:
            demand_warning(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return values


@click.command()
@on_states("text", "json", "github", "sarif")
@click.option(
    "--ignore", multiple=True, metavar="CODE", callback=_codes, help="Leave out warnings of this code; may be repeated."
)
@click.option("--strict", is_flag=True, help="Warnings fail, too (exit code 1).")
def check(sls: tuple[str, ...], source: ConfigurationSource, form: str, ignore: tuple[str, ...], strict: bool) -> None:
    """Find errors in the states named SLS, and code that is probably wrong.

    Without SLS: the states of the top file, or all.

    A state file may also be named by its path.

    Nothing is changed, and the machine is not checked. A comment `# holdfast: ignore CODE` silences a warning in its
    place.

    Exit codes: 0 no errors, 1 no errors, but warnings and --strict, 3 errors.
    """
    report, base = _look(sls, source, ignore)
    if form == "json":
        print_json(findings.as_json(report))
    elif form == "sarif":
        print_json(findings.sarif(report, base))
    elif form == "github":
        _print(findings.github(report, base))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        _print(findings.text(report, Path.cwd(), colour=coloured(1), width=width))
    if report.errors:
        raise click.exceptions.Exit(ExitCode.UNUSABLE)
    if report.warnings and strict:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _look(sls: tuple[str, ...], source: ConfigurationSource, ignore: tuple[str, ...]) -> tuple[LintReport, Path]:
    """The report, and the directory that paths are relative to: the working directory, or else the states directory."""
    base = Path.cwd()
    try:
        settings = source.settings()
        if not settings.states.is_relative_to(base):
            base = settings.states
        lint = LintSettings(ignore=(*settings.lint.ignore, *ignore))
        settings = settings.model_copy(update={"lint": lint})
        return ConfigurationCompiler().check(
            settings, sls=source.names(sls, settings), grains=source.facts(settings)
        ), base
    except CompileError as error:
        return LintReport(error.problems), base


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        click.echo(line)
