"""Kinds of the operator are Python files, which may do anything when they are imported."""

import pytest

from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.states.errors import CompileError
from holdfast_process import Agent, Tree


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("x = 1\nraise SystemExit(3)\n", 2, "SystemExit: 3"),
        ("x = (\n", 1, "SyntaxError"),
        ("import nonsense_that_is_not_there\n", 1, "ModuleNotFoundError"),
    ],
)
def test_a_file_that_cannot_be_imported_is_a_problem_at_its_line(tmp_path, text, line, told):
    """A file that ends the process when it is imported does not end the agent."""
    (tmp_path / "mine.py").write_text(text)
    tmp_path.chmod(0o755)
    with pytest.raises(CompileError) as caught:
        ConfigurationCompiler().load_kinds(tmp_path)

    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line) == ("kind-broken", line)
    assert told in problem.message


def test_a_bug_of_the_agent_does_not_end_it(tmp_path):
    """The error is a problem of the configuration, with a traceback in the log; the next states are applied."""
    tree = Tree(tmp_path)
    (tree.etc / "resources").mkdir(mode=0o755)
    (tree.etc / "resources/bug.py").write_text(BUG)
    tree.sls("a", "a: test.nop\n")
    agent = Agent(tree)
    try:
        agent.wait_log("cannot apply the states: ZeroDivisionError: a bug")
        agent.wait_log("or a bug in Holdfast")
        assert "Traceback" in agent.log
        tree.sls("a", "b: test.nop\n")
        agent.wait(lambda: tree("status").returncode == 0, "the next states")
    finally:
        agent.process.kill()
        agent.process.wait()


BUG = """
from holdfast.agent.engine.engine import Engine

swap = Engine.swap


async def fail_once(*args, **more):
    Engine.swap = swap
    raise ZeroDivisionError("a bug")


Engine.swap = fail_once
"""
