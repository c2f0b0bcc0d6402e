"""`show`: each stage of the compiler in each format, for this host and for others."""

import json

import pytest
import yaml

from holdfast_process import Tree

STATES = """\
HOST/conf:
  file.managed:
    - contents: x
    - watch_in:
      - cmd: restart

restart:
  cmd.run:
    - name: 'true'
    - order: 1

early:
  test.nop:
    - order: first
    - prereq:
      - test: late

late:
  test.nop: []
"""


@pytest.fixture
def tree(tmp_path):
    """A configuration with several types of requisites."""
    tree = Tree(tmp_path)
    tree.sls("web", STATES)
    (tree.etc / "pillar/data.sls").write_text("port: 80\n")
    return tree


def test_low_is_sorted_by_order_number(tree):
    """Each chunk has Salt's keys."""
    low = tree.json("show", "low", check=0)

    assert {"state", "fun", "name", "__id__", "__sls__", "__env__", "order"} <= set(low[0])
    assert [chunk["order"] for chunk in low] == sorted(chunk["order"] for chunk in low)
    restart = next(chunk for chunk in low if chunk["__id__"] == "restart")
    assert restart["watch"] == [{"file": f"{tree.host}/conf"}]


def test_low_data_of_equal_order_are_sorted_as_in_salt(tree):
    """The order is that of type, name and function; requisites do not matter."""
    tree.sls("web", "b: {test.nop: [{order: 1}]}\na: {test.nop: [{order: 1}, {require: [{test: b}]}]}\n")

    assert [chunk["__id__"] for chunk in tree.json("show", "low", check=0)] == ["a", "b"]


def test_order_is_the_order_of_execution_with_reasons(tree):
    """The reason names the state that pulls another one forward."""
    places = tree.json("show", "order", check=0)

    assert [place["position"] for place in places] == list(range(len(places)))
    identities = [place["identity"] for place in places]
    assert identities.index(f"file.managed[{tree.host}/conf]") < identities.index("cmd.run[restart]")
    assert any("pulled forward by" in place["reason"] for place in places)
    assert places[0]["file"].endswith("web.sls")
    assert "pulled forward by" in tree("show", "order", check=0).stdout


def test_high_has_ids_and_top_has_sls_names(tree):
    """High data are keyed by ID; top lists the SLS that apply."""
    assert tree.json("show", "high", check=0)["restart"]["__sls__"] == "web"
    assert tree.json("show", "top", check=0) == {"base": ["web"]}


def test_graph_has_four_formats(tree):
    """Edges point from the first to the second to run."""
    graph = tree.json("show", "graph", check=0)
    conf = f"file.managed[{tree.host}/conf]"

    assert {"from": conf, "to": "cmd.run[restart]", "kind": "watch"} in graph["edges"]
    assert {"from": "test.nop[early]", "to": "test.nop[late]", "kind": "prereq"} in graph["edges"]
    dot = tree("show", "graph", check=0).stdout
    assert f'"{conf}" -> "cmd.run[restart]" [label="watch", style=bold];' in dot
    assert dot.startswith("digraph")
    assert "-->|watch|" in tree("show", "graph", "--format", "mermaid", check=0).stdout
    assert tree("show", "graph", "--format", "svg", check=0).stdout.startswith("<svg ")


def test_graph_has_automatic_edges(tree):
    """Automatic edges are dotted, with a kind of their own. `show order` names them with --verbose.

    Low data never have them, and a setting turns them off.
    """
    tree.sls("web", "/srv/a: file.directory\n/srv/a/b: file.managed\n")
    edge = {"from": "file.directory[/srv/a]", "to": "file.managed[/srv/a/b]", "kind": "auto"}

    assert tree.json("show", "graph", check=0)["edges"] == [edge]
    assert '[label="auto", style=dotted]' in tree("show", "graph", check=0).stdout
    assert "-.->|auto|" in tree("show", "graph", "--format", "mermaid", check=0).stdout
    assert "after file.directory[/srv/a] (automatic)" in tree("show", "order", "--verbose", check=0).stdout
    assert "after file.directory[/srv/a] (automatic)" in tree("show", "order", "-v", check=0).stdout
    assert "automatic" not in tree("show", "order", check=0).stdout
    assert not any("auto" in key for low in tree.json("show", "low", check=0) for key in low)
    tree.settings("engine: {autoedge: false}\n")
    assert tree.json("show", "graph", check=0)["edges"] == []


def test_pillar_and_grains_of_this_host_and_of_another(tree, tmp_path):
    """`--grains` and `--id` replace the facts of this host."""
    assert tree.json("show", "pillar", check=0) == {"port": 80}
    assert tree.json("show", "grains", check=0)["id"] == "test"
    (tmp_path / "grains.yaml").write_text("os: Plan9\n")
    other = tree.json("show", "grains", "--grains", tmp_path / "grains.yaml", "--id", "far", check=0)
    assert other == {"os": "Plan9", "id": "far"}


def test_text_is_yaml(tree):
    """Programs can read the text, too."""
    assert yaml.safe_load(tree("show", "low", check=0).stdout) == tree.json("show", "low", check=0)


def test_states_compile_for_any_host(tree, tmp_path):
    """Templates and the top file see the given grains and the given ID."""
    tree.sls("top", "base:\n  'web*':\n    - web\n  'os:Plan9':\n    - match: grain\n    - nine\n")
    tree.sls("nine", "nine {{ grains.os }}: test.nop\n")
    (tmp_path / "grains.json").write_text(json.dumps({"os": "Plan9"}))

    assert tree.json("show", "top", check=0) == {"base": []}
    assert tree.json("show", "top", "--id", "web7", check=0) == {"base": ["web"]}
    low = tree.json("show", "low", "--grains", tmp_path / "grains.json", check=0)
    assert [chunk["__id__"] for chunk in low] == ["nine Plan9"]


@pytest.mark.parametrize("view", ["low", "high", "order", "top", "graph"])
def test_errors_are_errors_in_every_view(tree, view):
    """Each view exits with 3 and prints the list of problems."""
    tree.sls("bad", "x: [\n")

    assert tree.json("show", view, check=3)["errors"][0]["file"].endswith("bad.sls")


def test_low_and_high_data_with_unknown_kinds_are_shown(tree):
    """All data are shown in the requested format.

    stderr lists the problems, and the exit code says that these states cannot run.
    """
    tree.sls(
        "web",
        "x:\n  zzz.on\ny:\n  test.nop\nw:\n  yyy.off:\n    - require: [zzz: x]\nz:\n  file.absent:\n    - name: /z\n"
        "    - colour: red\n",
    )

    for stage in ("low", "high"):
        done = tree("show", stage, "--format", "json", check=3)
        shown = json.loads(done.stdout)
        assert [entry["__id__"] if stage == "low" else entry for entry in shown] == ["x", "y", "w", "z"]
        assert all(
            words in done.stderr for words in ("no state 'zzz'", "no state 'yyy'", "no argument 'colour'", "3 problems")
        )


def test_low_data_with_other_errors_are_not_shown(tree):
    """Wrong requisites leave no low data to show."""
    tree.sls("web", "x:\n  zzz.on:\n    - require: [zzz: nope]\n")
    found = json.loads(tree("show", "low", "--format", "json", check=3).stdout)

    assert {problem["code"] for problem in found["errors"]} == {"requisite-missing", "unknown-state"}


def test_environment_selects_directories_and_the_section_of_the_top_file(tree):
    """An environment has its own states and pillar; templates see its name as `saltenv`."""
    config = tree.etc / "agent.yaml"
    config.write_text(config.read_text() + "environments:\n  dev: {states: dev, pillar: dev/pillar}\n")
    tree.sls("../dev/top", "base:\n  '*': [nope]\ndev:\n  '*': [web]\n")
    tree.sls("../dev/web", "{{ saltenv }} {{ pillar.port }}:\n  test.nop\n")
    tree.sls("../dev/pillar/data", "port: 81\n")
    low = tree.json("show", "low", "--environment", "dev", check=0)

    assert [(entry["__id__"], entry["__env__"]) for entry in low] == [("dev 81", "dev")]
