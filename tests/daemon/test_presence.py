"""A configuration that is gone is an accident: the last good graph stays in force until the configuration is back."""

import shutil

import pytest

from holdfast_process import Agent, Tree


@pytest.fixture
def tree(tmp_path):
    """A file with `reverse`, whose content is in the pillar."""
    tree = Tree(tmp_path)
    (tree.host / "motd").write_text("before\n")
    tree.sls("motd", "HOST/motd: {file.managed: [{contents: {{ pillar.get('said', 'nothing') }}}, {reverse: true}]}\n")
    (tree.etc / "pillar/top.sls").write_text("base: {'*': [data]}\n")
    (tree.etc / "pillar/data.sls").write_text("said: hello\n")
    return tree


def holds(tree, agent, contents="hello\n"):
    """Check that the file is as declared, and that a drift is repaired at once."""
    agent.wait(lambda: (tree.host / "motd").read_text() == contents, "the content")
    (tree.host / "motd").write_text("defaced\n")
    agent.wait(lambda: (tree.host / "motd").read_text() == contents, "the repair")


def empty(directory):
    """Remove all entries of a directory."""
    for each in directory.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


GONE = {
    "the configuration": (lambda tree: shutil.rmtree(tree.etc), "it does not exist"),
    "the configuration, left empty": (lambda tree: empty(tree.etc), "it does not exist"),
    "the states": (lambda tree: shutil.rmtree(tree.etc / "states"), "etc/states: it is missing"),
    "the states, left empty": (lambda tree: empty(tree.etc / "states"), "etc/states: this directory is empty now"),
    "the pillar": (lambda tree: shutil.rmtree(tree.etc / "pillar"), "etc/pillar: it is missing"),
    "the pillar, left empty": (lambda tree: empty(tree.etc / "pillar"), "etc/pillar: this directory is empty now"),
}


@pytest.mark.parametrize("name", GONE)
def test_a_missing_configuration_undoes_nothing(tree, name):
    """Nothing is reversed, drift is repaired, and status is not converged and says why.

    The agent follows the restored configuration, and later edits.

    The test takes more than a second, because an agent loses its configuration and gets it back.
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


def test_health_names_the_missing_directory(tree):
    """The host has one health problem, which says what to do."""
    with Agent(tree) as agent:
        empty(tree.etc / "states")
        agent.wait_log("the last good graph stays in force")
        status = tree.json("status", check=1)

        assert not status["converged"]
        assert [condition["code"] for condition in status["health"]] == ["states-broken"]
        assert "this directory is empty now" in status["health"][0]["text"]


def test_an_empty_states_directory_at_the_first_start_is_valid(tree):
    """An agent without earlier states manages nothing, and reports no problem."""
    empty(tree.etc / "states")
    with Agent(tree):
        assert tree.json("status")["health"] == []


START = {
    "not there": lambda tree: shutil.rmtree(tree.etc / "states"),
    "empty": lambda tree: empty(tree.etc / "states"),
}


@pytest.mark.parametrize("name", START)
def test_states_that_are_not_mounted_at_the_start_undo_nothing(tree, name):
    """Nothing is reversed, and no finished command runs again. Status says why, and the agent follows restored states.

    The test takes more than a second, because it starts two agents.
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
    """An empty top file reverses all states, at the start and while the agent runs.

    The test takes more than a second, because it starts agents.
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
    """The states directory is not mounted during an `apply`. A finished command does not run again because of this."""
    tree.sls("once", "once:\n  cmd.run:\n    - name: echo once >> HOST/once\n")
    with Agent(tree):
        pass
    shutil.copytree(tree.etc / "states", tree.root / "copy")
    empty(tree.etc / "states")
    tree("apply")
    shutil.copytree(tree.root / "copy", tree.etc / "states", dirs_exist_ok=True)
    with Agent(tree):
        assert (tree.host / "once").read_text() == "once\n"


def test_a_moved_states_directory_undoes_nothing(tree):
    """The operator moves the states and changes agent.yaml."""
    with Agent(tree) as agent:
        shutil.move(tree.etc / "states", tree.root / "elsewhere")
        tree.settings("states: ../elsewhere\n")
        agent.wait(lambda: tree.json("status")["states"].endswith("elsewhere"), "the new directory")
        holds(tree, agent)
