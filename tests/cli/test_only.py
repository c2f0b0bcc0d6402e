"""`apply --only` and `plan --only`: a part of the states with its requisites; pending refreshes of others remain."""

from contextlib import closing

import pytest

from holdfast.agent.engine.deliver.journal import Journal
from holdfast_process import Agent, Tree

STATES = """
HOST/d:
  file.directory: []
HOST/d/conf:
  file.managed:
    - contents: one
service:
  cmd.wait:
    - name: echo restart >> HOST/restarts
    - watch: [file: HOST/d/conf]
listener:
  cmd.wait:
    - name: echo heard >> HOST/heard
    - listen: [file: HOST/d/conf]
backup:
  cmd.run:
    - name: echo backup >> HOST/backups
    - prereq: [file: HOST/d/page]
HOST/d/page:
  file.managed:
    - contents: page
on-change:
  cmd.run:
    - name: echo changed >> HOST/changes
    - onchanges: [file: HOST/d/page]
HOST/aside:
  file.managed:
    - contents: aside
"""


@pytest.fixture
def tree(tmp_path):
    """States of which some need, watch or listen to others."""
    tree = Tree(tmp_path)
    tree.sls("site", STATES)
    return tree


def names(tree, *words, check=None, verb="apply"):
    """Of the states that were run, in order."""
    return [row["id"].removeprefix(f"{tree.host}/") for row in tree.json(verb, *words, check=check)["results"]]


@pytest.mark.parametrize(
    ("words", "run"),
    [
        (["aside"], ["aside"]),
        (["d/conf"], ["d", "d/conf"]),
        (["service"], ["d", "d/conf", "service"]),
        (["cmd.wait[service]"], ["d", "d/conf", "service"]),
        (["listener"], ["listener"]),
        (["d/page"], ["d", "backup", "d/page"]),
        (["backup"], ["d", "backup", "d/page"]),
        (["on-change"], ["d", "backup", "d/page", "on-change"]),
        (["file.*[*/d/*]"], ["d", "d/conf", "backup", "d/page"]),
        (["aside", "service"], ["d", "d/conf", "service", "aside"]),
    ],
)
def test_only_a_part_is_planned_with_what_it_requires(tree, words, run):
    """By requisites, by automatic edges, and what has it as its prereq.

    Whoever watches it, or is only listened to, is not.
    """
    assert names(tree, *(word for each in words for word in ("--only", each)), verb="plan") == run


def test_what_the_rest_is_owed_is_told_and_delivered_by_the_next_run(tree):
    """The file is right by then, and the restart comes all the same."""
    done = tree("apply", "--only", "d/conf", check=0)

    assert "pending: cmd.wait[service] will be refreshed" in done.stdout
    assert "pending: cmd.wait[listener] will be refreshed" in done.stdout
    assert not (tree.host / "restarts").exists()
    assert "pending: " not in tree("plan", "--only", "aside", check=2).stdout
    tree("apply", check=0)
    assert (tree.host / "restarts").read_text() == "restart\n"
    assert (tree.host / "heard").read_text() == "heard\n"


def test_what_the_rest_is_owed_the_agent_delivers(tree):
    """As soon as the run has ended; the agent forgets nothing of the rest, either."""
    with Agent(tree) as agent:
        tree("pause")
        at = len(agent.log)
        tree.sls("site", STATES.replace("one", "two"))
        agent.wait_log("compiled", at)
        tree("apply", "--only", "conf", check=0)
        assert (tree.host / "d/conf").read_text() == "two\n"
        before = (tree.host / "restarts").read_text()
        tree("resume")
        agent.wait(lambda: (tree.host / "restarts").read_text() == before + "restart\n", "the restart")
    with closing(Journal(tree.root / "state/journal.db", durable=False)) as journal:
        assert journal.owed() == []


def test_files_of_the_rest_are_not_cleaned_away(tree):
    """What other states manage below a directory stays, though they do not run."""
    tree.sls(
        "clean", "HOST/c:\n  file.directory:\n    - clean: true\nHOST/c/kept:\n  file.managed:\n    - contents: kept\n"
    )
    tree("apply", "clean", check=0)
    (tree.host / "c/stray").touch()
    tree("apply", "--only", f"file.directory[{tree.host}/c]", check=0)

    assert [path.name for path in (tree.host / "c").iterdir()] == ["kept"]


def test_a_name_that_means_nothing_is_an_error_with_the_nearest(tree):
    """All of them at once, and nothing is done."""
    done = tree(
        "apply", "--only", "servcie", "--only", "file.mnaged[x]", "--only", "aside", "--only", "nothing*", check=64
    )

    assert "no state is called 'servcie'; did you mean 'service'?" in done.stderr
    assert "no state is called 'file.mnaged[x]'" in done.stderr
    assert "no state is called 'nothing*'" in done.stderr
    assert not (tree.host / "aside").exists()


def test_all_parts_of_a_composite_run_with_it(tree):
    """It is made of them."""
    unit = "page.service:\n  systemd_unit.running:\n    - contents: '[Service]'\n"
    tree.sls("unit", unit)
    rows = tree.json("plan", "--only", "page.service", check=None)["results"]

    assert len(rows) > 1
