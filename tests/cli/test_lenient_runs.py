"""States of others whose mistakes Salt finds only when a state runs: that state fails, and all others apply."""

import json

import pytest

from holdfast_process import Agent, Tree

STATES = """
HOST/motd:
  file.managed:
    - source: salt://gone.txt
HOST/later:
  file.managed:
    - contents: x
    - require: [{file: HOST/motd}]
HOST/asked:
  file.managed:
    - contents: x
    - onlyif: touch HOST/guard
    - require: [{pkg: nowhere}]
HOST/after:
  file.managed:
    - contents: x
    - require: [{file: HOST/asked}]
HOST/other:
  file.managed:
    - contents: x
"""


@pytest.fixture
def tree(tmp_path):
    """States with a source and a requisite that do not exist."""
    tree = Tree(tmp_path)
    tree.settings("lenient: ['*']\n")
    tree.sls("site", STATES)
    return tree


@pytest.mark.parametrize("verb", ["apply", "plan"])
def test_only_states_that_depend_on_the_mistake_fail(tree, verb):
    """A state whose requisite matches nothing does not run, nor do its guards. Its comment says what is missing."""
    done = tree(verb, "--format", "json", check=1)
    rows = {row["id"].rpartition("/")[2]: row for row in json.loads(done.stdout)["results"]}

    assert "there is no salt://gone.txt: the state fails when it runs" in done.stderr
    assert "salt://gone.txt" in rows["motd"]["comment"]
    assert rows["asked"]["comment"] == "require names pkg[nowhere], which does not exist"
    assert {name: row["result"] for name, row in rows.items()} == {
        "motd": False,
        "later": False,
        "asked": False,
        "after": False,
        "other": True if verb == "apply" else None,
    }
    assert (tree.host / "other").exists() == (verb == "apply")
    assert not (tree.host / "guard").exists()


def test_the_agent_applies_a_source_as_soon_as_it_exists(tree):
    """Then the states that depend on it run; all other states are maintained meanwhile."""
    with Agent(tree) as agent:
        agent.wait_log("which does not exist")
        (tree.host / "other").unlink()
        agent.wait((tree.host / "other").exists, "the repair of another file")
        since = len(agent.log)
        (tree.etc / "states/gone.txt").write_text("here")
        agent.wait((tree.host / "later").exists, "the state that requires the file with the source")

        assert (tree.host / "motd").read_text() == "here"
        assert "HOST/asked" not in agent.log[since:]


def test_unknown_arguments_are_variables_of_a_template(tmp_path):
    """As in strict states and in Salt: formulas write variables beside `context` by mistake."""
    tree = Tree(tmp_path)
    tree.settings("lenient: ['*']\n")
    tree.sls(
        "site",
        "HOST/motd:\n  file.managed:\n    - contents: '{% raw %}{{ shop.user }}{% endraw %}'\n"
        "    - template: jinja\n    - context:\n      shop: {user: me}\n",
    )
    done = tree("apply", check=0)

    assert (tree.host / "motd").read_text() == "me\n"
    assert done.stderr == ""
