"""`db`: the database of records on this host."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.agent.cli.arguments import output_file
from holdfast.agent.cli.options import ConfigurationSource, output, reports_problems, source
from holdfast.agent.verbs import HOST, verb


@verb(HOST)
@click.group()
def db() -> None:
    """Check, compact, export or import the records of this host, or show those of remote resources."""


@db.command(short_help="Read every record, and check the file.")
@source("config", "state_dir")
@output("text", "json")
@reports_problems
def check(source: ConfigurationSource, form: str) -> None:
    """Read every record, and let SQLite check the file; name what cannot be read.

    Works while the agent runs.

    Exit codes: 0 everything can be read; 1 something is wrong, or there are no records; 77 not permitted.
    """
    from holdfast.agent.cli import database

    database.check(source.records(), form)


@db.command(short_help="Remove old records, and make the file smaller.")
@source("config", "state_dir")
@reports_problems
def compact(source: ConfigurationSource) -> None:
    """Remove the records that exceed `records` in agent.yaml, and give free space back to the file system.

    The agent must not run. It removes old records by itself, and uses their space for new ones.

    Exit codes: 0 done; 1 the agent runs, or the file cannot be written; 3 settings cannot be used; 77 not permitted.
    """
    from holdfast.agent.cli import database

    database.compact(source.records(), source.settings())


@db.command(short_help="Write all records as JSON lines.")
@source("config", "state_dir")
@output_file("to this new file, which only its owner can read,")
@reports_problems
def export(source: ConfigurationSource, path: Path | None) -> None:
    """Write all records as JSON lines, each an object with table, id and values, as they are at one moment.

    Works while the agent runs. Secrets are masked, as in the database.

    Exit codes: 0 done; 1 a record cannot be read, or the file exists or cannot be written; 77 not permitted.
    """
    from holdfast.agent.cli import database

    database.export(source.records(), path)


@db.command("import", short_help="Read records from JSON lines.")
@source("config", "state_dir")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--replace", is_flag=True, help="Replace records that exist; without it, they are an error.")
@reports_problems
def import_(source: ConfigurationSource, path: Path, replace: bool) -> None:
    """Read the records of an export from a file, or from stdin (`-`), into the database: all of them, or none.

    The agent must not run.

    Exit codes: 0 done; 1 the agent runs, or a line is not a record of this version; 3 settings cannot be used; 77 not
    permitted.
    """
    from holdfast.agent.cli import database

    database.import_(source.records(), source.settings(), path, replace=replace)


@db.command(short_help="Show the remote resources that are remembered.")
@source("config", "state_dir")
@output("text", "json")
@reports_problems
def remote(source: ConfigurationSource, form: str) -> None:
    """Show the remote resources that the agent remembers: kind, name, and what the plugin calls each of them.

    Works while the agent runs. `--format json` also has their last states, without secrets.

    Exit codes: 0 done; 1 there are no records, or they cannot be read; 77 not permitted.
    """
    from holdfast.agent.cli import database

    database.remote(source.records(), form)
