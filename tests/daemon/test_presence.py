"""A configuration that is gone is an accident: the last good graph goes on, and the agent follows when it is back."""

import shutil

import pytest

from holdfast_process import Agent, Tree


@pytest.fixture
def tree(tmp_path):
    """One file whose state takes what was before back when it leaves, and whose content is in the pillar."""
    tree = Tree(tmp_path)
    (tree.host / "motd").write_text("before\n")
    tree.sls("motd", "HOST/motd: {file.managed: [{contents: {{ pillar.get('said', 'nothing') }}}, {reverse: true}]}\n")
    (tree.etc / "pillar/top.sls").write_text("base: {'*': [data]}\n")
    (tree.etc / "pillar/data.sls").write_text("said: hello\n")
    return tree


def holds(tree, agent, contents="hello\n"):
    """The file is as declared, repaired at once after a drift."""
    agent.wait(lambda: (tree.host / "motd").read_text() == contents, "the content")
    (tree.host / "motd").write_text("defaced\n")
    agent.wait(lambda: (tree.host / "motd").read_text() == contents, "the repair")


def emptied(directory):
    """Remove all that is in a directory."""
    for each in directory.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


GONE = {
    "the configuration": (lambda tree: shutil.rmtree(tree.etc), "it does not exist"),
    "the configuration, left empty": (lambda tree: emptied(tree.etc), "it does not exist"),
    "the states": (lambda tree: shutil.rmtree(tree.etc / "states"), "etc/states: it is missing"),
    "the states, left empty": (lambda tree: emptied(tree.etc / "states"), "etc/states: this directory is empty now"),
    "the pillar": (lambda tree: shutil.rmtree(tree.etc / "pillar"), "etc/pillar: it is missing"),
    "the pillar, left empty": (lambda tree: emptied(tree.etc / "pillar"), "etc/pillar: this directory is empty now"),
}


@pytest.mark.parametrize("name", GONE)
def test_what_is_gone_is_no_order(tree, name):
    """Nothing is reversed, drift is repaired, status is not converged and says why.

    What comes back is followed, and later edits too.

    Takes more than a second: an agent is started, and its configuration removed and put back.
    """
    remove, told = GONE[name]
    with Agent(tree) as agent:
        holds(tree, agent)
        shutil.copytree(tree.etc, tree.root / "copy")
        remove(tree)
        at = agent.wait_log("the last good graph stays in force")
        assert told in agent.log
        holds(tree, agent)
        assert "is no longer declared" not in agent.log
        shutil.copytree(tree.root / "copy", tree.etc, dirs_exist_ok=True)
        agent.wait_log("fixed: ", at)
        (tree.etc / "pillar/data.sls").write_text("said: goodbye\n")
        holds(tree, agent, "goodbye\n")


def test_health_says_what_is_gone(tree):
    """One condition, with what to do."""
    with Agent(tree) as agent:
        emptied(tree.etc / "states")
        agent.wait_log("the last good graph stays in force")
        status = tree.json("status", check=1)

        assert not status["converged"]
        assert [condition["code"] for condition in status["health"]] == ["states-broken"]
        assert "this directory is empty now" in status["health"][0]["text"]


def test_an_empty_directory_at_the_start_is_an_order(tree):
    """An agent that never knew anything else manages nothing, and does not take that for a fault."""
    emptied(tree.etc / "states")
    with Agent(tree):
        assert tree.json("status")["health"] == []


START = {
    "not there": lambda tree: shutil.rmtree(tree.etc / "states"),
    "empty": lambda tree: emptied(tree.etc / "states"),
}


@pytest.mark.parametrize("name", START)
def test_states_that_are_not_mounted_at_the_start_are_no_order(tree, name):
    """Nothing is reversed and no command forgotten; status says why, and what comes back is followed.

    Takes more than a second: two agents are started.
    """
    tree.sls("once", "once:\n  cmd.run:\n    - name: echo once >> HOST/once\n")
    with Agent(tree):
        assert (tree.host / "motd").read_text() == "hello\n"
    shutil.copytree(tree.etc / "states", tree.root / "copy")
    START[name](tree)
    with Agent(tree) as agent:
        agent.wait_log("nothing runs until it is fixed")
        assert "leave an empty file there (top.sls" in agent.log
        status = tree.json("status", check=1)
        assert [condition["code"] for condition in status["health"]] == ["states-broken"]
        assert not status["converged"]
        assert (tree.host / "motd").read_text() == "hello\n"
        shutil.copytree(tree.root / "copy", tree.etc / "states", dirs_exist_ok=True)
        agent.wait_log("converged in")
        holds(tree, agent)
    assert (tree.host / "once").read_text() == "once\n"


@pytest.mark.parametrize("running", [True, False])
def test_an_empty_top_file_says_that_nothing_is_managed(tree, running):
    """While the agent runs and at its start: what was before is put back.

    Takes more than a second: agents are started.
    """
    with Agent(tree) as agent:
        if running:
            (tree.etc / "states/top.sls").touch()
            (tree.etc / "states/motd.sls").unlink()
            agent.wait(lambda: (tree.host / "motd").read_text() == "before\n", "the reversal")
    if not running:
        (tree.etc / "states/top.sls").touch()
        (tree.etc / "states/motd.sls").unlink()
        with Agent(tree) as agent:
            agent.wait(lambda: (tree.host / "motd").read_text() == "before\n", "the reversal")


def test_an_apply_of_no_states_forgets_nothing(tree):
    """The states directory is not mounted, and somebody applies by hand: a command is not run again because of that."""
    tree.sls("once", "once:\n  cmd.run:\n    - name: echo once >> HOST/once\n")
    with Agent(tree):
        pass
    shutil.copytree(tree.etc / "states", tree.root / "copy")
    emptied(tree.etc / "states")
    tree("apply")
    shutil.copytree(tree.root / "copy", tree.etc / "states", dirs_exist_ok=True)
    with Agent(tree):
        assert (tree.host / "once").read_text() == "once\n"


def test_other_directories_may_be_named(tree):
    """Whoever moves the states and says so in agent.yaml has lost nothing."""
    with Agent(tree) as agent:
        shutil.move(tree.etc / "states", tree.root / "elsewhere")
        tree.settings("states: ../elsewhere\n")
        agent.wait(lambda: tree.json("status")["states"].endswith("elsewhere"), "the new directory")
        holds(tree, agent)
