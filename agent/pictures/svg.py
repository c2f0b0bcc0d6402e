"""The graph as a self-contained SVG: boxes in layers, curved edges, a legend, and full names as tooltips."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from holdfast.agent.pictures.drawing import AUTOMATIC, FILLS, PLAIN, STROKES, Drawing, DrawnNode, stroke
from holdfast.agent.pictures.layout import Box, layout
from holdfast.agent.widths import columns, shorten
from holdfast.resources.visible import clean
from holdfast.states.requisite_kinds import WAITING

LETTER, SMALL = 7.3, 5.6
"""Width of a letter in points: in the name of a resource, and below it."""
NAME = 40
"""Letters of a name that are drawn; the middle of a longer name is left out."""
PAD, HEIGHT = 10.0, 38.0
MARGIN = 24.0
LEGEND = 26.0
"""Height of a row of the legend."""
INK, FAINT = "#0f172a", "#475569"
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"

_FORBIDDEN = re.compile("[\ufffe\uffff]")
"""Characters that XML cannot contain in any form."""


def svg(drawing: Drawing, title: str = "") -> Iterator[str]:
    """Yield the lines of the SVG."""
    found = layout(
        {node.identity: _size(node) for node in drawing.nodes}, ((edge.before, edge.after) for edge in drawing.edges)
    )
    legend = list(_legend(drawing))
    wide = max(found.width, *(width for width, _ in legend), columns(title) * 8.5, 200.0) + 2 * MARGIN
    top = MARGIN + 34.0 + len(legend) * LEGEND
    high = top + found.height + MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}"'
        f' viewBox="0 0 {wide:.0f} {high:.0f}" font-family="{FONT}">'
    )
    yield f"<title>{_text(title)}</title>"
    yield '<rect width="100%" height="100%" fill="#ffffff"/>'
    yield from _markers(drawing)
    yield f'<text x="{MARGIN}" y="{MARGIN + 6}" font-size="14" font-weight="bold" fill="{INK}">{_text(title)}</text>'
    for number, (_, row) in enumerate(legend):
        yield f'<g transform="translate({MARGIN} {MARGIN + 24 + number * LEGEND})">{row}</g>'
    yield f'<g transform="translate({MARGIN} {top})">'
    kinds: dict[tuple[str, str], list[str]] = {}
    for edge in drawing.edges:
        kinds.setdefault((edge.before, edge.after), []).append(edge.kind)
    for pair, points in found.paths.items():
        yield from _edge(pair[0], pair[1], kinds[str(pair[0]), str(pair[1])], points)
    for node in drawing.nodes:
        yield _node(node, found.boxes[node.identity])
    yield "</g></svg>"


def _name(node: DrawnNode) -> str:
    return shorten(_one_line(node.identity.partition("[")[2].removesuffix("]") or node.identity), NAME)


def _below(node: DrawnNode) -> str:
    return shorten(_one_line(f"{node.kind} · {node.sls}"), NAME + 8)


def _size(node: DrawnNode) -> tuple[float, float]:
    return max(columns(_name(node)) * LETTER, columns(_below(node)) * SMALL) + 2 * PAD, HEIGHT


def _node(node: DrawnNode, box: Box) -> str:
    left, top = box.x, box.y - box.height / 2
    state = f" · {node.state}" if node.state else ""
    border = "#ef4444" if node.state == "failed" else "#94a3b8"
    return (
        f"<g><title>{_text(node.identity)} · {_text(node.sls)}{_text(state)}</title>"
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6"'
        f' fill="{FILLS.get(node.state, PLAIN)}" stroke="{border}"/>'
        f'<text x="{left + PAD:.1f}" y="{top + 16:.1f}" font-size="12" fill="{INK}">{_text(_name(node))}</text>'
        f'<text x="{left + PAD:.1f}" y="{top + 30:.1f}" font-size="9.2" fill="{FAINT}">{_text(_below(node))}</text></g>'
    )


def _edge(before: object, after: object, kinds: Sequence[str], points: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Yield one line for each pair of nodes, in the style of the strongest requisite; the tooltip names all."""
    kind = min(dict.fromkeys(kinds), key=lambda kind: (kind == AUTOMATIC, kind in WAITING))
    look = stroke(kind)
    dash = f' stroke-dasharray="{look.dash}"' if look.dash else ""
    told = _text(f"{after}: {', '.join(kinds)} {before}")
    yield (
        f'<path d="{_curve(points)}" fill="none" stroke="{look.colour}" stroke-width="{look.width}"{dash}'
        f' marker-end="url(#{_marker(look.colour)})"><title>{told}</title></path>'
    )


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a path through all points, level at each.

    It ends a little before the last point, at the tip of the arrow.
    """
    (x, y), (end, last) = points[0], points[-1]
    tip = end - 5.0 if end > points[-2][0] else end + 5.0
    parts = [f"M{x:.1f} {y:.1f}"]
    for (x, y), (to_x, to_y) in pairwise([*points[:-1], (tip, last)]):
        middle = (x + to_x) / 2
        parts.append(
            f"H{to_x:.1f}" if y == to_y else f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        )
    return "".join(parts)


def _markers(drawing: Drawing) -> Iterator[str]:
    yield "<defs>"
    for colour in dict.fromkeys(stroke(edge.kind).colour for edge in drawing.edges):
        yield (
            f'<marker id="{_marker(colour)}" viewBox="0 0 8 8" refX="3" refY="4" markerWidth="8" markerHeight="8"'
            f' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8Z" fill="{colour}"/></marker>'
        )
    yield "</defs>"


def _legend(drawing: Drawing) -> Iterator[tuple[float, str]]:
    """Yield (width, row) of the legend: the requisites drawn, then the states with the number of resources in each."""
    kinds = sorted(
        {edge.kind for edge in drawing.edges}, key=lambda kind: ([*STROKES.values()].index(stroke(kind)), kind)
    )
    if kinds:
        yield _row([(f"{kind} (automatic edge)" if kind == AUTOMATIC else kind, _sample(kind)) for kind in kinds])
    states = Counter(node.state for node in drawing.nodes if node.state)
    if states:
        swatch = '<rect x="0" y="-9" width="26" height="12" rx="3" stroke="#94a3b8" fill="{}"/>'
        yield _row(
            [(f"{states[state]} {state}", swatch.format(fill)) for state, fill in FILLS.items() if states[state]]
        )


def _row(items: Sequence[tuple[str, str]]) -> tuple[float, str]:
    parts, x = [], 0.0
    for label, sample in items:
        text = f'<text x="34" y="1" font-size="11" fill="{FAINT}">{_text(label)}</text>'
        parts.append(f'<g transform="translate({x:.0f} 12)">{sample}{text}</g>')
        x += 34 + columns(label) * 6.8 + 22
    return x, "".join(parts)


def _sample(kind: str) -> str:
    look = stroke(kind)
    dash = f' stroke-dasharray="{look.dash}"' if look.dash else ""
    line = f'<path d="M0 -3H22" stroke="{look.colour}" stroke-width="{look.width}"{dash}'
    return f'{line} marker-end="url(#{_marker(look.colour)})"/>'


def _marker(colour: str) -> str:
    return f"arrow-{colour.removeprefix('#')}"


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def _text(text: str) -> str:
    """Return any text as content of an XML element."""
    return escape(_FORBIDDEN.sub("\ufffd", clean(text)))
