"""The output of `doc codes`: the codes of errors and warnings."""

from __future__ import annotations

from collections.abc import Iterator

import click

from holdfast.agent.cli.kinds_reference import listed
from holdfast.agent.cli.options import print_json
from holdfast.agent.cli.terminal import Paper
from holdfast.states.codes import CODES, SECTIONS


def show(form: str) -> None:
    """Print each code with its meaning, as JSON or by sections for people."""
    if form == "json":
        print_json({code: known._asdict() for code, known in CODES.items()})
    else:
        click.echo("\n".join(_lines(Paper.stdout())))


def _lines(paper: Paper) -> Iterator[str]:
    """Yield each section with its codes."""
    for title, codes in SECTIONS.items():
        yield f"{title}:"
        yield from listed({f"  {code}": known.meaning for code, known in codes.items()}, paper)
        yield ""
    yield "Errors cannot be ignored. States that have an error are not applied."
