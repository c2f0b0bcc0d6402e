"""A formula may have modules that Salt would load and Holdfast does not."""

from __future__ import annotations


def test_a_state_of_a_formula_is_an_error_that_names_the_module(problems):
    """Salt would load the function from `_states`."""
    (problem,) = problems({"site.sls": "x:\n  shelf.built: []\n", "_states/shelf.py": "def built(name): ..."})

    assert (problem.code, problem.location.line) == ("unknown-state", 2)
    assert "_states/shelf.py is a module for Salt" in problem.hint
    assert "resources" in problem.hint


def test_a_call_of_a_formula_is_an_error_that_names_the_module(problems):
    """The call may be in a state file or in the template of a managed file."""
    module = {"_modules/shelf.py": "def size(): ..."}
    source = "x:\n  file.managed:\n    - name: /x\n    - source: salt://x.conf\n    - template: jinja\n"
    for files in (
        {"site.sls": "{{ salt['shelf.size']() }}\n"},
        {"site.sls": source, "x.conf": "{{ salt['shelf.size']() }}\n"},
    ):
        (problem,) = problems(files | module)
        assert problem.code == "template-call"
        assert "_modules/shelf.py is a module for Salt" in problem.hint


def test_other_names_keep_their_hints(problems):
    """A formula with modules may have typing errors, too."""
    (problem,) = problems({"site.sls": "x:\n  tset.nop: []\n", "_states/shelf.py": ""})

    assert problem.hint == "did you mean test?"
