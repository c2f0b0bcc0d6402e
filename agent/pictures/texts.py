"""The graph as text for Graphviz and for Mermaid. Names are quoted, whatever they contain."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.agent.pictures.drawing import AUTOMATIC, FILLS, Drawing, stroke
from holdfast.resources.visible import escaped

_MERMAID = str.maketrans({**{letter: f"#{ord(letter)};" for letter in '"#<>&`\\'}})


def dot(drawing: Drawing) -> Iterator[str]:
    """Yield lines for Graphviz."""
    yield "digraph holdfast {"
    yield "  node [shape=box];"
    for node in drawing.nodes:
        fill = f' [style=filled, fillcolor="{FILLS[node.state]}"]' if node.state in FILLS else ""
        yield f"  {quoted(node.identity)}{fill};"
    for edge in drawing.edges:
        style = f"label={quoted(edge.kind)}, style={stroke(edge.kind).dot}"
        yield f"  {quoted(edge.before)} -> {quoted(edge.after)} [{style}];"
    yield "}"


def mermaid(drawing: Drawing) -> Iterator[str]:
    """Yield lines for Mermaid, which Markdown viewers draw."""
    names = {node.identity: f"r{place}" for place, node in enumerate(drawing.nodes)}
    yield "graph TD"
    for node in drawing.nodes:
        state = f":::{node.state}" if node.state in FILLS else ""
        yield f'  {names[node.identity]}["{escaped(node.identity.replace(chr(10), " ")).translate(_MERMAID)}"]{state}'
    for edge in drawing.edges:
        yield f"  {names[edge.before]} {'-.->' if edge.kind == AUTOMATIC else '-->'}|{edge.kind}| {names[edge.after]}"
    for state in sorted({node.state for node in drawing.nodes} & FILLS.keys()):
        yield f"  classDef {state} fill:{FILLS[state]}"


def quoted(text: str) -> str:
    """Return text quoted for Graphviz."""
    return '"' + escaped(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
