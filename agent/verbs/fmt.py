"""`fmt`: state files in their canonical form."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.agent.cli.options import ConfigurationSource, source
from holdfast.agent.verbs import STATES, verb


@verb(STATES)
@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@source("config", "states")
@click.option("--check", is_flag=True, help="Change nothing; list the files that would be changed.")
@click.option("--diff", is_flag=True, help="Change nothing; show the changes as a diff.")
@click.option("-v", "--verbose", is_flag=True, help="Also show which declarations keep their layout, and why.")
def fmt(paths: tuple[Path, ...], source: ConfigurationSource, check: bool, diff: bool, verbose: bool) -> None:
    """Write state files in canonical form.

    PATHS are files or directories; the default is the states directory. Only white space changes, never the meaning of
    a file. `-` reads standard input and writes standard output.

    Exit codes: 0 all files are formatted; 1 a file cannot be written; 2 a file would be changed (--check, --diff); 3 a
    file cannot be formatted, and is left unchanged.
    """
    from holdfast.agent.cli import formatting

    raise click.exceptions.Exit(formatting.run(paths, source, check=check, diff=diff, verbose=verbose))
