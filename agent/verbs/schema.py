"""`schema`: JSON schemas for editors."""

from __future__ import annotations

import click

from holdfast.agent.cli.options import ConfigurationSource, reports_problems, source
from holdfast.agent.verbs import REFERENCE, verb


@verb(REFERENCE)
@click.command()
@click.argument("files", type=click.Choice(["states", "pillar", "top", "agent"]))
@source("config")
@reports_problems
def schema(files: str, source: ConfigurationSource) -> None:
    """Print the JSON schema of state files, pillar files, top files, or agent.yaml.

    Editors use it to complete and check YAML files. The schema of state files has all kinds, your own included.
    """
    from holdfast.agent.cli.options import print_json
    from holdfast.agent.configuration import ConfigurationCompiler
    from holdfast.agent.generators.schemas import SCHEMAS

    if files == "states":
        ConfigurationCompiler().load_all_kinds(source.kinds())
    print_json(SCHEMAS[files]())
