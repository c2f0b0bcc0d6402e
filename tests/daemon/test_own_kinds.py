"""The operator's own kinds: Python of strangers, which may do anything when it is loaded."""

import pytest

from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.states.errors import CompileError


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("x = 1\nraise SystemExit(3)\n", 2, "SystemExit: 3"),
        ("x = (\n", 1, "SyntaxError"),
        ("import nonsense_that_is_not_there\n", 1, "ModuleNotFoundError"),
    ],
)
def test_file_that_cannot_be_loaded_is_a_problem_at_its_line(tmp_path, text, line, told):
    """One that ends the process when it is imported does not end the agent."""
    (tmp_path / "mine.py").write_text(text)
    tmp_path.chmod(0o755)
    with pytest.raises(CompileError) as caught:
        ConfigurationCompiler().load_kinds(tmp_path)

    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line) == ("kind-broken", line)
    assert told in problem.message
