"""What a formula brings along for Salt to load, which Holdfast does not."""

from __future__ import annotations


def test_a_state_of_a_formula_is_refused_with_what_to_do(problems):
    """The function that Salt would load from `_states`."""
    (problem,) = problems({"site.sls": "x:\n  shelf.built: []\n", "_states/shelf.py": "def built(name): ..."})

    assert (problem.code, problem.location.line) == ("unknown-state", 2)
    assert "_states/shelf.py is a module for Salt" in problem.hint
    assert "resources" in problem.hint


def test_a_call_of_a_module_of_a_formula_is_refused_with_what_to_do(problems):
    """In a state file, and in the template of a managed file."""
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
    """A formula with modules may have slips, too."""
    (problem,) = problems({"site.sls": "x:\n  tset.nop: []\n", "_states/shelf.py": ""})

    assert problem.hint == "did you mean test?"
