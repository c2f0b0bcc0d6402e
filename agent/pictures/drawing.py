"""What is drawn: resources, who waits for whom because of what, and how each of these looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

AUTOMATIC = "auto"
"""The kind of an edge that nobody wrote."""


class Stroke(NamedTuple):
    """How an edge looks."""

    colour: str
    dash: str = ""
    """SVG's `stroke-dasharray`."""
    width: float = 1.4
    dot: str = "solid"
    """Graphviz's style."""


STROKES = {
    "require": Stroke("#64748b"),
    "watch": Stroke("#2563eb", width=2.2, dot="bold"),
    "onchanges": Stroke("#0891b2", "6 3", dot="dashed"),
    "onfail": Stroke("#dc2626", "2 3", dot="dotted"),
    "listen": Stroke("#9333ea", "2 3", dot="dotted"),
    "prereq": Stroke("#d97706", "6 3", dot="dashed"),
    "recv": Stroke("#059669"),
    AUTOMATIC: Stroke("#94a3b8", "1 3", dot="dotted"),
}
"""Requisite -> how its edge is drawn; its `_any` and `_all` forms look like it."""
FILLS = {
    "ok": "#dcfce7",
    "running": "#bae6fd",
    "waiting": "#fef9c3",
    "failed": "#fecaca",
    "blocked": "#fed7aa",
    "flapping": "#f5d0fe",
    "unwatched": "#fde68a",
    "drifted": "#dbeafe",
    "would": "#dbeafe",
    "skipped": "#f1f5f9",
    "superseded": "#f1f5f9",
}
"""State -> the colour of a resource."""
PLAIN = "#f8fafc"
"""The colour of a resource whose state is not known."""


@dataclass(frozen=True, slots=True)
class Node:
    """One resource."""

    identity: str
    kind: str
    sls: str
    state: str = ""
    """Of a running agent; empty: the states alone are drawn."""


class Edge(NamedTuple):
    """Who runs first, who after it, and because of what."""

    before: str
    after: str
    kind: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph that is to be drawn."""

    nodes: Sequence[Node]
    """In order of execution."""
    edges: Sequence[Edge]


def stroke(kind: str) -> Stroke:
    """How an edge of this kind looks."""
    return STROKES.get(kind) or STROKES.get(kind.partition("_")[0], STROKES["require"])
