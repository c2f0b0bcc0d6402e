"""`interface`: skeletons of interfaces, and comparisons of providers with them."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.agent.cli.arguments import completed
from holdfast.agent.cli.options import ConfigurationSource, output, reports_problems, source
from holdfast.agent.verbs import REFERENCE, verb

_file = click.argument("module", metavar="MODULE.py", type=click.Path(path_type=Path, dir_okay=False))


@verb(REFERENCE)
@click.group()
def interface() -> None:
    """Write an interface from the functions of a module, or compare a provider with an interface: propose, check."""


@interface.command(short_help="Print a skeleton of an interface.")
@_file
@click.option("--name", metavar="NAME", help="Name of the interface; default: __virtualname__, or the file's name.")
def propose(module: Path, name: str | None) -> None:
    """Print a skeleton of an interface with the functions of a module, for you to edit.

    The module is read, not run: Salt's execution modules need no Salt. `**kwargs` becomes `options`, a function that
    uses `__opts__["test"]` gets `test`, and types follow the annotations or the defaults.
    """
    from holdfast.agent.cli import interface_skeleton

    try:
        click.echo(interface_skeleton.skeleton(module.read_text(), name or "", module.stem), nl=False)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{module} is not a Python module: {error}") from None
    except LookupError as error:
        raise click.UsageError(f"{module} {error}") from None


@interface.command(short_help="Compare a provider with an interface.")
@_file
@click.argument("name", metavar="INTERFACE", shell_complete=completed("interfaces"))
@source("config", "state_dir", "grains", "id")
@output("text", "json")
@reports_problems
def check(module: Path, name: str, source: ConfigurationSource, form: str) -> None:
    """Compare a provider, a class or the functions of a module, with an interface.

    The module is imported. For each function, its state on this host is shown, with the row of the table of states
    (`resources/interfaces/rows.py`), and both signatures if they differ.

    Exit codes: 0 the provider would be accepted; 1 the agent would refuse it, unless agent.yaml sets `interfaces:
    lenient`.
    """
    from holdfast.agent.cli import interface_check

    interface_check.show(module, name, source, form)
