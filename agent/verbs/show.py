"""`show`: the results of each compile stage."""

from __future__ import annotations

from collections.abc import Callable

import click

from holdfast.agent.cli.arguments import on_states
from holdfast.agent.cli.options import ConfigurationSource, Function, output, reports_problems, source
from holdfast.agent.verbs import STATES, verb

_source = source("config", "states", "pillar", "state_dir", "grains", "id", "environment", "lenient")


@verb(STATES)
@click.group()
def show() -> None:
    """Show what states compile to: low, high, graph (also as a picture), order, top, pillar, grains."""


def view(*forms: str) -> Callable[[Function], click.Command]:
    """Return a view of the compiled states that takes names of SLS, the options of the source, and these formats."""

    def decorate(function: Function) -> click.Command:
        return show.command()(on_states(*forms)(function))

    return decorate


@view("text", "json")
def low(sls: tuple[str, ...], source: ConfigurationSource, form: str) -> None:
    """Show low data: the calls with all arguments, by order number."""
    from holdfast.agent.cli import stages

    stages.show_low(sls, source, form)


@view("text", "json")
def high(sls: tuple[str, ...], source: ConfigurationSource, form: str) -> None:
    """Show high data: all files merged, extended and numbered."""
    from holdfast.agent.cli import stages

    stages.show_high(sls, source, form)


@view("text", "json")
def top(sls: tuple[str, ...], source: ConfigurationSource, form: str) -> None:
    """Show which SLS apply to this host."""
    from holdfast.agent.cli import stages

    stages.show_top(sls, source, form)


@view("text", "json")
@click.option("-v", "--verbose", is_flag=True, help="Also show automatic edges, which no state declares.")
def order(sls: tuple[str, ...], source: ConfigurationSource, form: str, verbose: bool) -> None:
    """Show the order of execution, with the reason for each position."""
    from holdfast.agent.cli import stages

    stages.show_order(sls, source, form, verbose=verbose)


@view("dot", "mermaid", "svg", "json")
@click.option("--live", is_flag=True, help="Show the running agent's graph, coloured by state.")
def graph(sls: tuple[str, ...], source: ConfigurationSource, form: str, live: bool) -> None:
    """Show the graph: resources, and the requisites between them.

    Edges of the kind `auto` are automatic: a file waits for its directory, a service for its package. `--format svg`
    draws a picture for a browser.
    """
    from holdfast.agent.cli import stages

    if live and sls:
        raise click.UsageError("--live shows everything that the agent manages: leave out the names of SLS")
    stages.show_graph(sls, source, form, live=live)


@show.command()
@_source
@output("text", "json")
@click.option("--secrets", is_flag=True, help="Also show secrets.")
@reports_problems
def pillar(source: ConfigurationSource, form: str, secrets: bool) -> None:
    """Show the pillar of this host with secrets masked."""
    from holdfast.agent.cli import stages

    stages.show_pillar(source, form, secrets=secrets)


@show.command()
@_source
@output("text", "json")
@reports_problems
def grains(source: ConfigurationSource, form: str) -> None:
    """Show the grains of this host."""
    from holdfast.agent.cli import stages

    stages.show_grains(source, form)
