"""`idl`: packages of resources that plugins provide."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.agent.cli.options import reports_problems
from holdfast.agent.idl.starting import TARGETS
from holdfast.agent.verbs import PACKAGES, verb

_PATH = click.Path(path_type=Path)
_idl = click.argument("idl", metavar="IDL", type=_PATH)


@verb(PACKAGES)
@click.group()
def idl() -> None:
    """Check and compile packages of resources that plugins provide, or make a new one: check, compile, new."""


@idl.command(short_help="Find errors in a package, and changes that break its users.")
@_idl
@click.option("--against", type=_PATH, metavar="SCHEMA", help="Compare with the schema.json of an older version.")
@reports_problems
def check(idl: Path, against: Path | None) -> None:
    """Find errors in the sources of a package; IDL is the folder with package.yaml.

    With --against, also find changes that break users of the older version: a field that is removed or has another
    type, a new required input, a narrower restriction, a removed value of an enumeration, and others. They need a new
    major version or, before 1.0.0, a new minor version.

    Exit codes: 0 no errors; 3 errors.
    """
    from holdfast.agent.cli import packages

    packages.check(idl, against)


@idl.command(short_help="Generate types, stubs, schemas and pages from a package.")
@_idl
@click.option("--out-pack", type=_PATH, metavar="PACK", required=True, help="Directory for users of the package.")
@click.option("--out-provider", type=_PATH, metavar="PROVIDER", required=True, help="Directory for its provider.")
@click.option("--target", metavar="NAMES", default="", help="Targets, separated by commas; default: all built-in ones.")
@click.option("--check", "stale", is_flag=True, help="Write nothing; fail if a generated file is stale.")
@reports_problems
def compile(idl: Path, out_pack: Path, out_provider: Path, target: str, stale: bool) -> None:  # noqa: A001 - the verb
    """Generate files from the sources of a package; IDL is the folder with package.yaml.

    Nothing is written if there is an error. Generated files have a header that marks them; other files are never
    changed. A generated file whose source has been removed is removed.

    Exit codes: 0 all files are written; 3 errors, or a file is stale (--check).
    """
    from holdfast.agent.cli import packages

    targets = [each.strip() for each in target.split(",") if each.strip()]
    packages.compile_package(idl, out_pack, out_provider, targets, stale=stale)


@idl.command(short_help="Make a new package.")
@click.argument("name", metavar="NAME")
@click.option("--to", "folder", type=_PATH, metavar="DIR", help="Folder to make; default: ./NAME.")
@click.option(
    "--target", type=click.Choice(tuple(TARGETS)), default="python", help="Language of its provider; default: python."
)
@reports_problems
def new(name: str, folder: Path | None, target: str) -> None:
    """Make a package with an example resource, and compile it.

    The package includes the provider, its tests, and an agent that uses it; README.md in the new folder describes the
    next steps.
    """
    from holdfast.agent.cli import packages

    packages.new(name, folder or Path(name), target)
