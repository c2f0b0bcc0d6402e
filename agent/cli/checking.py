"""The work of `check`: find errors and warnings in states, and print them for people and for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.agent.cli import findings
from holdfast.agent.cli.options import ConfigurationSource, print_json
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.console import coloured
from holdfast.agent.settings import LintSettings
from holdfast.states.errors import CompileError
from holdfast.states.lint.inspect import LintReport


def show(report: LintReport, base: Path, form: str) -> None:
    """Print a report; `base` is the directory that paths are relative to."""
    if form == "json":
        print_json(findings.as_json(report))
    elif form == "sarif":
        print_json(findings.sarif(report, base))
    elif form == "github":
        _print(findings.github(report, base))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        _print(findings.text(report, Path.cwd(), colour=coloured(1), width=width))


def checked(sls: tuple[str, ...], source: ConfigurationSource, ignore: tuple[str, ...]) -> tuple[LintReport, Path]:
    """Return the report, and the directory that paths are relative to: the working or the states directory."""
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
