"""The graph in each form is complete, legible, and safe whatever names it contains."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.pictures.drawing import FILLS, STROKES, Drawing, DrawnEdge, DrawnNode, stroke
from holdfast.agent.pictures.svg import svg
from holdfast.agent.pictures.texts import dot, mermaid, quoted

EVIL = 'x[</text><script>alert("1")</script> & \'"\\ \x00\x1b ]]> %%{init}%% `"`\n]'
SVG = "{http://www.w3.org/2000/svg}"


def picture(drawing: Drawing, title: str = "") -> ET.Element:
    """Return the parsed SVG."""
    return ET.fromstring("\n".join(svg(drawing, title)))


def labels(root: ET.Element) -> list[str]:
    """Return the texts of the picture."""
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def pair(kind: str = "require", **states: str) -> Drawing:
    """Return two resources and one edge."""
    nodes = [
        DrawnNode(f"test.nop[{name}]", "test.nop", "web", state)
        for name, state in (states or {"a": "", "b": ""}).items()
    ]
    return Drawing(nodes, [DrawnEdge(nodes[0].identity, nodes[1].identity, kind)])


def test_a_picture_has_resources_edges_and_a_legend() -> None:
    """Boxes show names, tooltips whole identities; each edge has one line; the legend lists what is used."""
    root = picture(pair("watch", a="ok", b="failed"), "2 resources")
    shown, tips = labels(root), [element.text for element in root.iter(f"{SVG}title")]

    assert {"2 resources", "a", "b", "test.nop · web", "watch", "1 ok", "1 failed"} == set(shown)
    assert "test.nop[a] · web · ok" in tips
    assert "test.nop[b]: watch test.nop[a]" in tips
    fills = {element.get("fill") for element in root.iter(f"{SVG}rect")}
    assert {FILLS["ok"], FILLS["failed"]} <= fills
    assert FILLS["running"] not in fills


def test_two_requisites_of_one_pair_are_one_line() -> None:
    """The line is that of the stronger requisite; the tooltip names both."""
    drawing = pair("require")
    both = Drawing(drawing.nodes, [*drawing.edges, drawing.edges[0]._replace(kind="watch")])
    lines = [element for element in picture(both).iter(f"{SVG}path") if element.find(f"{SVG}title") is not None]

    assert [line.get("stroke") for line in lines] == [STROKES["watch"].colour]
    assert lines[0].findtext(f"{SVG}title") == "test.nop[b]: require, watch test.nop[a]"


def test_long_names_are_shortened_only_on_the_box() -> None:
    """Beginning and end are kept; the tooltip has the whole name."""
    name = "/srv/" + "x" * 300 + "/index.html"
    root = picture(Drawing([DrawnNode(f"file.managed[{name}]", "file.managed", "web")], []))

    assert any(text.startswith("/srv/") and text.endswith("index.html") and len(text) <= 40 for text in labels(root))
    assert any(name in (element.text or "") for element in root.iter(f"{SVG}title"))
    assert float(root.get("width") or 0) < 500


def test_names_are_escaped() -> None:
    """In no form does a name become markup, an attribute, or another statement."""
    drawing = Drawing(
        [DrawnNode(EVIL, "a", EVIL, "ok"), DrawnNode("b[b]", "b", "s")], [DrawnEdge(EVIL, "b[b]", "require")]
    )
    root = picture(drawing, EVIL)
    text = list(mermaid(drawing))

    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg",
        "title",
        "rect",
        "defs",
        "marker",
        "path",
        "text",
        "g",
    }
    assert not any(name.startswith("on") or name == "href" for element in root.iter() for name in element.attrib)
    assert all(
        re.fullmatch(r'graph TD|  r\d+\["[^"<>&`\\]*"\](:::\w+)?|  r\d+ -->\|\w+\| r\d+|  classDef \w+ fill:#\w+', line)
        for line in text
    )
    assert len("\n".join(dot(drawing)).split("\n")) == 6


@given(st.text())
def test_graphviz_reads_quoted_names(text: str) -> None:
    """Graphviz reads one string that ends at the right place."""
    inner = quoted(text)[1:-1]

    assert re.fullmatch(r'(?:[^"\\\n]|\\.)*', inner, re.DOTALL)


@given(st.text(), st.text())
def test_any_name_yields_a_valid_picture(name: str, sls: str) -> None:
    """Characters that XML forbids are replaced."""
    picture(Drawing([DrawnNode(f"a.b[{name}]", "a.b", sls)], []), name)


@pytest.mark.parametrize("kind", ["watch_any", "onfail_all", "require_any", "unheard_of"])
def test_every_kind_of_edge_can_be_drawn(kind: str) -> None:
    """The `_any` and `_all` forms look like the plain ones; an unknown one is a plain line."""
    assert stroke(kind) == STROKES.get(kind.partition("_")[0], STROKES["require"])
    assert kind in labels(picture(pair(kind)))


def test_states_have_colours_in_every_form() -> None:
    """The running agent's states are coloured; without states nothing is."""
    live, still = pair(a="ok", b="failed"), pair()

    assert f'fillcolor="{FILLS["failed"]}"' in "\n".join(dot(live))
    assert f"classDef failed fill:{FILLS['failed']}" in "\n".join(mermaid(live))
    assert "fill" not in "\n".join([*dot(still), *mermaid(still)])


def test_an_empty_graph_is_a_picture() -> None:
    """The picture has a title."""
    assert labels(picture(Drawing([], []), "0 resources")) == ["0 resources"]
