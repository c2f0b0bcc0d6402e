"""The data of a picture: resources, the requisites between them, and the style of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.states.requisite_kinds import CARRIES

AUTOMATIC = "auto"
"""The kind of an automatic edge."""


class Stroke(NamedTuple):
    """The style of an edge."""

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
"""Requisite -> the style of its edge. Other requisites have the style of their deliveries, or that of `require`."""
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
"""State -> the fill colour of a resource."""
PLAIN = "#f8fafc"
"""The fill colour of a resource without a known state."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One resource."""

    identity: str
    kind: str
    sls: str
    state: str = ""
    """State in a running agent; empty if only the states are drawn."""


class DrawnEdge(NamedTuple):
    """An edge: the resource that runs first, the one that runs after it, and the requisite."""

    before: str
    after: str
    kind: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph to draw."""

    nodes: Sequence[DrawnNode]
    """In order of execution."""
    edges: Sequence[DrawnEdge]


def stroke(kind: str) -> Stroke:
    """Return the style of an edge of this kind."""
    return STROKES.get(kind) or STROKES[CARRIES.get(kind, "require")]
