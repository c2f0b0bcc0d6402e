"""The output of `show`: the results of each compile stage, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from holdfast.agent import facts
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import ConfigurationSource, complain, print_json
from holdfast.agent.cli.terminal import one_line
from holdfast.agent.configuration import Compiled, ConfigurationCompiler
from holdfast.agent.control.client import ask
from holdfast.agent.control.internal import LiveGraph
from holdfast.agent.phrases import number_of
from holdfast.agent.pictures.drawing import AUTOMATIC, Drawing, DrawnEdge, DrawnNode
from holdfast.agent.pictures.svg import svg
from holdfast.agent.pictures.texts import dot, mermaid
from holdfast.resources.secrets import Redactor
from holdfast.resources.visible import clean
from holdfast.states.compile.automatic import automatic
from holdfast.states.compile.order import rank
from holdfast.states.data import Call, Low
from holdfast.states.errors import Refused, masked
from holdfast.states.requisite_kinds import PROBED


def show_low(sls: tuple[str, ...], source: ConfigurationSource, form: str) -> None:
    """Print low data."""
    with _refused(lambda error: _print(error.low, form)):
        compiled = _compile(sls, source)
        _print(compiled.redactor.masked(numbered(compiled.compilation.calls)), form)


def show_high(sls: tuple[str, ...], source: ConfigurationSource, form: str) -> None:
    """Print high data."""
    with _refused(lambda error: _print(error.high, form)):
        compiled = _compile(sls, source)
        _print(masked(compiled.compilation.high, compiled.redactor), form)


@contextmanager
def _refused(instead: Callable[[Refused], None]) -> Iterator[None]:
    """Show results even if states use unknown kinds or arguments; errors go to stderr."""
    try:
        yield
    except Refused as error:
        instead(error)
        complain(error)
        raise click.exceptions.Exit(ExitCode.UNUSABLE) from error


def show_top(sls: tuple[str, ...], source: ConfigurationSource, form: str) -> None:
    """Print which SLS apply."""
    _print(_compile(sls, source).compilation.top, form)


def show_order(sls: tuple[str, ...], source: ConfigurationSource, form: str, *, verbose: bool) -> None:
    """Print the order of execution."""
    compiled = _compile(sls, source)
    calls, redactor = compiled.compilation.calls, compiled.redactor
    if form == "json":
        print_json(redactor([_place(call) for call in calls]))
        return
    waits = automatic(calls).edges if verbose else {}
    names = [one_line(redactor(call.identity)) for call in calls]
    width = max(map(len, names), default=0)
    for call in calls:
        click.echo(f"{call.position + 1:5}  {names[call.position]:{width}}  {one_line(redactor(call.reason))}")
        for position in waits.get(call.position, ()):
            click.echo(f"{'':5}    after {names[position]} (automatic)")


def show_graph(sls: tuple[str, ...], source: ConfigurationSource, form: str, *, live: bool) -> None:
    """Print the graph of the states, or of the running agent."""
    drawing = _live(source) if live else _drawing(sls, source)
    match form:
        case "json":
            print_json(_plain_graph(drawing))
        case "svg":
            host = "the running agent" if live else "the states"
            click.echo("\n".join(svg(drawing, f"{number_of(len(drawing.nodes), 'resource')} of {host}")))
        case _:
            click.echo("\n".join((dot if form == "dot" else mermaid)(drawing)))


def _drawing(sls: tuple[str, ...], source: ConfigurationSource) -> Drawing:
    """Return the graph of the compiled states."""
    compiled = _compile(sls, source)
    calls, redactor = compiled.compilation.calls, compiled.redactor
    nodes = [DrawnNode(redactor(call.identity), call.kind, call.low["__sls__"]) for call in calls]
    return Drawing(nodes, [DrawnEdge(*redactor(edge)) for edge in (*edges(calls), *_unwritten(calls, source))])


def _live(source: ConfigurationSource) -> Drawing:
    """Return the graph of the running agent."""
    found = ask(source.view(), LiveGraph())
    return Drawing(
        [DrawnNode(**node) for node in found["nodes"]],
        [DrawnEdge(edge["from"], edge["to"], edge["kind"]) for edge in found["edges"]],
    )


def _plain_graph(drawing: Drawing) -> dict[str, Any]:
    nodes = [
        {"identity": node.identity, "kind": node.kind, "sls": node.sls} | ({"state": node.state} if node.state else {})
        for node in drawing.nodes
    ]
    return {
        "nodes": nodes,
        "edges": [{"from": edge.before, "to": edge.after, "kind": edge.kind} for edge in drawing.edges],
    }


def show_pillar(source: ConfigurationSource, form: str, *, secrets: bool) -> None:
    """Print the pillar; secrets only if they are requested."""
    settings = source.settings()
    data = ConfigurationCompiler().pillar(settings, grains=source.facts(settings))
    _print(data if secrets else Redactor(data).masked(data), form)


def show_grains(source: ConfigurationSource, form: str) -> None:
    """Print the grains."""
    settings = source.settings()
    given = source.facts(settings)
    grains = facts.gather(settings) if given is None else given
    _print(Redactor(grains).masked(grains), form)


def numbered(calls: tuple[Call, ...]) -> list[Low]:
    """Return low data in definition order: by number; equal numbers are sorted as by Salt."""
    return sorted((call.low for call in calls if not call.part), key=rank)


def edges(calls: tuple[Call, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield (what runs first, what runs after it, requisite), in the order of the calls."""
    for call in calls:
        for kind, targets in call.requisites.items():
            for target in targets:
                pair = (calls[target].identity, call.identity)
                yield (*(reversed(pair) if kind in PROBED else pair), kind)


def _unwritten(calls: tuple[Call, ...], source: ConfigurationSource) -> Iterator[tuple[str, str, str]]:
    """Yield the automatic edges that can be found from the states alone."""
    found = automatic(calls).edges if source.settings().engine.autoedge else {}
    return (
        (calls[before].identity, calls[after].identity, AUTOMATIC)
        for after, all_before in found.items()
        for before in all_before
    )


def _compile(sls: tuple[str, ...], source: ConfigurationSource) -> Compiled:
    settings = source.settings()
    return ConfigurationCompiler().compile(settings, sls=source.names(sls, settings), grains=source.facts(settings))


def _place(call: Call) -> dict[str, Any]:
    return {
        "position": call.position,
        "identity": call.identity,
        "order": call.low["order"],
        "sls": call.low["__sls__"],
        "file": call.location.file,
        "line": call.location.line,
        "reason": call.reason,
    }


def _print(value: Any, form: str) -> None:
    """Print JSON, or YAML for people."""
    if form == "json":
        print_json(value)
        return
    import yaml

    text, ascii_alone = (
        yaml.safe_dump(_plain(value), sort_keys=False, allow_unicode=wide, width=120).rstrip() for wide in (True, False)
    )
    click.echo(text if clean(text) == text else ascii_alone)


def _plain(value: Any) -> Any:
    """Return the data in types that YAML can represent."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
