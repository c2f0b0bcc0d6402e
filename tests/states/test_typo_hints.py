"""A mistake of indentation or spacing is one error at its line, with a hint."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("text", "code", "line", "hint"),
    [
        (
            "x:\nlamp.lit:\n  - color: red\n",
            "id-shape",
            2,
            "indent it and its arguments by two spaces, so that it belongs to 'x'",
        ),
        ("y: lamp.lit\nx:\nlamp.lit:\n  - color: red\nz: lamp.lit\n", "id-shape", 3, "belongs to 'x'"),
        ("lamp.lit:\n  - color: red\n", "id-shape", 1, "write its ID above it"),
        ("__x:\nlamp.lit:\n  - color: red\n", "id-shape", 2, "belongs to '__x'"),
        ("x:\nlamp.lit\n", "yaml-syntax", 2, "indent the function"),
        ("x:\nlamp.lit\ny:\n  lamp.lit\n", "yaml-syntax", 3, "indent the function"),
        (
            "x:\n  lamp.lit:\n  - require:\n  - lamp: y\n",
            "requisite-shape",
            3,
            "indent the lines that belong to '- require:'",
        ),
        ("x:\n  lamp.lit:\n  - names:\n  - y\n  - z\n", "names-shape", 3, "indent the lines that belong to '- names:'"),
        (
            "x:\n  lamp.lit:\n  - tags:\n  - y\n  - z\n",
            "function-several",
            4,
            "indent the lines that belong to '- tags:'",
        ),
        ("x:\n  lamp.lit:\n  - dark\n  - tags:\n", "function-several", 3, "give each an ID of its own"),
        ("x:\n  module.run:\n  - pkg.autoremove\n", "function-several", 3, "is written '- pkg.autoremove: []'"),
        ("x:\n  lamp.lit:\n  - color:red\n", "argument-shape", 3, "write '- color: ...'"),
        ("x:\n  lamp.lit:\n  - color:dark red\n", "argument-shape", 3, "write '- color: ...'"),
        ("x:\n  lamp.lit: []\n  color: red\n", "arguments-shape", 3, "if 'color' is an argument, write '- color: ...'"),
        ("/x:\n  crate.packed:\n    - user: yes\n", "argument-type", 3, "quote them if text is meant"),
        ("/x:\n  crate.packed:\n    - user: 5\n", "argument-type", 3, ""),
        ("/x:\n  crate.packed:\n    - user: u\n    - labels: yes\n", "argument-type", 4, ""),
        ("/x:\n  file.managed:\n    - contents: off\n", "argument-value", 3, "quote them if text is meant"),
    ],
)
def test_a_mistake_of_layout_is_one_error_with_a_hint(problems, text, code, line, hint):
    """The hint describes the lines, not the data that YAML makes of them."""
    (problem,) = problems(text)

    assert (problem.code, problem.location.line) == (code, line)
    assert hint in problem.hint
    assert bool(hint) == bool(problem.hint)


def test_the_value_of_an_argument_without_a_space_is_not_shown(problems):
    """The value may be a password, so only the name is shown."""
    (problem,) = problems("u:\n  user.present:\n    - password:hunter2\n")

    assert problem.message == "user[u] has an argument 'password' without a space after its colon"
    assert "hunter2" not in str(problem)
