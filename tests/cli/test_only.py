"""`apply --only` and `plan --only` select states with their requisites; pending refreshes of other states remain."""

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
    """States that require, watch or listen to others."""
    tree = Tree(tmp_path)
    tree.sls("site", STATES)
    return tree


def names(tree, *words, check=None, verb="apply"):
    """Return the IDs of the states that were run, in order."""
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
def test_only_selects_states_with_all_that_they_require(tree, words, run):
    """Requisites, automatic edges and prereq add states.

    States that watch or listen to a selected state are not added.
    """
    assert names(tree, *(word for each in words for word in ("--only", each)), verb="plan") == run


def test_a_pending_refresh_of_another_state_is_reported_and_run_later(tree):
    """By then the file is as declared, but the restart is still due."""
    done = tree("apply", "--only", "d/conf", check=0)

    assert "pending: cmd.wait[service] will be refreshed" in done.stdout
    assert "pending: cmd.wait[listener] will be refreshed" in done.stdout
    assert not (tree.host / "restarts").exists()
    assert "pending: " not in tree("plan", "--only", "aside", check=2).stdout
    tree("apply", check=0)
    assert (tree.host / "restarts").read_text() == "restart\n"
    assert (tree.host / "heard").read_text() == "heard\n"


def test_the_agent_runs_a_pending_refresh_after_the_run(tree):
    """The agent keeps all other pending refreshes."""
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
        assert journal.pending_deliveries() == []


def test_clean_keeps_files_of_states_that_are_not_selected(tree):
    """A directory with `clean` keeps files that states outside the selection manage."""
    tree.sls(
        "clean", "HOST/c:\n  file.directory:\n    - clean: true\nHOST/c/kept:\n  file.managed:\n    - contents: kept\n"
    )
    tree("apply", "clean", check=0)
    (tree.host / "c/stray").touch()
    tree("apply", "--only", f"file.directory[{tree.host}/c]", check=0)

    assert [path.name for path in (tree.host / "c").iterdir()] == ["kept"]


def test_unknown_names_are_errors_with_the_most_similar_name(tree):
    """All unknown names are reported at once, and nothing runs."""
    done = tree(
        "apply", "--only", "servcie", "--only", "file.mnaged[x]", "--only", "aside", "--only", "nothing*", check=64
    )

    assert "no state is called 'servcie'; did you mean 'service'?" in done.stderr
    assert "no state is called 'file.mnaged[x]'" in done.stderr
    assert "no state is called 'nothing*'" in done.stderr
    assert not (tree.host / "aside").exists()


def test_only_selects_all_parts_of_a_composite(tree):
    """A composite consists of its parts."""
    unit = "page.service:\n  systemd_unit.running:\n    - contents: '[Service]'\n"
    tree.sls("unit", unit)
    rows = tree.json("plan", "--only", "page.service", check=None)["results"]

    assert len(rows) > 1
