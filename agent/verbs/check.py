"""`check`: errors and warnings in states."""

from __future__ import annotations

import click

from holdfast.agent.cli.arguments import on_states
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import ConfigurationSource
from holdfast.agent.verbs import STATES, verb


def _codes(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the codes of --ignore. Raises `BadParameter` for anything but codes of warnings."""
    from holdfast.states.codes import demand_warning

    for value in values:
        try:
            demand_warning(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return values


@verb(STATES)
@click.command()
@on_states("text", "json", "github", "sarif")
@click.option(
    "--ignore", multiple=True, metavar="CODE", callback=_codes, help="Leave out warnings of this code; may be repeated."
)
@click.option("--strict", is_flag=True, help="Treat warnings as failures (exit code 1).")
def check(sls: tuple[str, ...], source: ConfigurationSource, form: str, ignore: tuple[str, ...], strict: bool) -> None:
    """Find errors and probable mistakes in states.

    SLS are names or paths of state files. Without SLS, the states are those that the top file assigns to this host, or
    all if there is no top file.

    `check` changes nothing and does not examine the machine. A comment `# holdfast: ignore CODE` silences a warning at
    its place.

    Exit codes: 0 no errors; 1 no errors, but warnings (--strict); 3 errors.
    """
    from holdfast.agent.cli import checking

    report, base = checking.checked(sls, source, ignore)
    checking.show(report, base, form)
    if report.errors:
        raise click.exceptions.Exit(ExitCode.UNUSABLE)
    if report.warnings and strict:
        raise click.exceptions.Exit(ExitCode.FAILED)
