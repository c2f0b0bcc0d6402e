"""Words that people bring along from elsewhere: what is said leads to the right one, and never astray."""

from __future__ import annotations

import pytest

from holdfast.resources import registry
from holdfast.states.declare.salt_hints import ARGUMENTS, FUNCTIONS, NAMES, SALT, SALT_KINDRED


@pytest.mark.parametrize(
    ("kind", "argument", "hint"),
    [
        ("file.managed", "owner: root", "did you mean 'user'?"),
        ("file.managed", "perms: 644", "did you mean 'mode'?"),
        ("file.recurse", "permissions: 644", "did you mean 'file_mode'?"),
        ("file.managed", "content: hi", "did you mean 'contents'?"),
        ("file.managed", "src: tree://a", "did you mean 'source'?"),
        ("file.symlink", "source: /a", "did you mean 'target'?"),
        ("file.managed", "dest: /a", "did you mean 'name'?"),
        ("file.managed", "path: /a", "did you mean 'name'?"),
        ("cmd.run", "command: make", "did you mean 'name'?"),
        ("cmd.run", "user: nobody", "did you mean 'runas'?"),
        ("pkg.installed", "packages: [a]", "did you mean 'pkgs'?"),
        ("crate.packed", "owner: root", "did you mean 'user'?"),
        (
            "cmd.run",
            "owner: root",
            "it takes: bg",
        ),  # it has none of what an owner may mean, and an order is nothing like it
        ("file.managed", "odrer: 5", "did you mean 'order'?"),
        ("file.managed", "onlyfi: 'true'", "did you mean 'onlyif'?"),
    ],
)
def test_unknown_argument_leads_to_what_it_is_called_here(problems, kind, argument, hint):
    """By its meaning, if the kind has the argument; otherwise by its spelling.

    Arguments that every state has must be very similar.
    """
    found = problems(f"/x:\n  {kind}:\n    - {argument}\n")

    (problem,) = (problem for problem in found if problem.code == "unknown-argument")
    assert problem.location.line == 3
    assert problem.hint.startswith(hint)


def test_word_of_elsewhere_for_a_secret_is_not_shown(problems):
    """Its line holds the secret, whatever it is called."""
    (problem,) = problems("u:\n  user.present:\n    - passwd: hunter2\n")

    assert problem.hint.startswith("did you mean 'password'?")
    assert "hunter2" not in str(problem)


def test_every_word_that_is_meant_exists():
    """A hint that names what there is not would be worse than none."""
    known = {field for cls in registry.kinds() for field in cls.model_fields} | {"runas"}

    assert {meant for several in ARGUMENTS.values() for meant in several} <= known
    assert NAMES.keys() <= {*registry.families()}
    for family, functions in FUNCTIONS.items():
        assert {*functions.values()} <= {*registry.functions(family)}
        assert functions.keys().isdisjoint(registry.functions(family))


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("file.presnt", "file.managed"),
        ("file.present", "file.managed"),
        ("file.managd", "file.managed"),
        ("pkg.present", "pkg.installed"),
        ("service.started", "service.running"),
    ],
)
def test_unknown_function_leads_to_what_it_is_called_here(problems, kind, meant):
    """A file is `managed`, not `present`; `prepend` only looks like it."""
    (problem,) = problems(f"x:\n  {kind}: []\n")

    assert (problem.code, problem.hint) == ("unknown-function", f"did you mean {meant}?")


@pytest.mark.parametrize(
    ("requisite", "code", "hint"),
    [
        ("require: [{files: x}]", "requisite-missing", "there is no state 'files': did you mean file?"),
        ("watch_in: [{services: nginx}]", "requisite-missing", "there is no state 'services': did you mean service?"),
        ("require: [{xyzzy: x}]", "requisite-missing", "there is no state 'xyzzy': available: "),
        ("require: [{pkgrepo: x}]", "requisite-missing", "Holdfast does not have Salt's state 'pkgrepo': use cmd.run"),
        ("require: [{lamp.lit: x}]", "requisite-shape", "write '- lamp: x'"),
        ("require: [{file: x}]", "requisite-missing", "'x' is of the type lamp"),
    ],
)
def test_requisite_of_a_type_that_there_is_not(problems, requisite, code, hint):
    """It is not the state that is missing, but the word that is wrong."""
    (problem,) = problems(f"x: lamp.lit\ny:\n  lamp.lit:\n    - {requisite}\n")

    assert (problem.code, problem.location.line) == (code, 4)
    assert problem.hint.startswith(hint)


def test_extension_of_a_type_that_there_is_not(problems):
    """As with requisites."""
    (problem,) = problems(
        {"one.sls": "x: lamp.lit\n", "two.sls": "include: [one]\nextend:\n  x:\n    lmap: [color: red]\n"}
    )

    assert (problem.code, problem.hint) == ("extend-missing", "there is no state 'lmap': did you mean lamp?")


@pytest.mark.parametrize(
    "kind", ["pkgrepo.managed", "git.latest", "host.present", "ssh_auth.present", "mysql_user.present", "pip.installed"]
)
def test_state_that_only_salt_has(problems, kind):
    """Said plainly: `pkg` is not what somebody means who writes `pkgrepo`."""
    (problem,) = problems(f"x:\n  {kind}: []\n")

    assert (problem.code, problem.location.line) == ("unknown-state", 2)
    assert problem.message == f"Holdfast does not have Salt's state {kind.partition('.')[0]!r}"
    assert "cmd.run" in problem.hint


def test_nothing_is_denied_that_there_is():
    """An existing family is not in the list of missing ones."""
    builtin = {cls.kind.partition(".")[0] for cls in registry.kinds() if cls.__module__.startswith("holdfast.")}

    assert not SALT & builtin
    assert not [family for family in builtin if family.startswith(SALT_KINDRED)]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("y:\n  lamp.lti\n", 2, 3),
        ("y:\n\n  # why\n  'lamp.lti'  # not\n", 4, 4),
        ("y: lamp.lti\n", 1, 4),
        ("lamp.lti: lamp.lti\n", 1, 11),
        ("{% if true %}\ny:\n  lamp.lti\n{% endif %}\n", 3, 3),
        (
            "{% for x in [1] %}\ny:\n  {{ 'lamp.lti' }}\n{% endfor %}\n",
            2,
            1,
        ),  # what a template has made is not looked for
        ("y: {lamp.lti: []}\n", 1, 5),
    ],
)
def test_function_without_arguments_is_reported_where_it_stands(problems, text, line, column):
    """Not where its ID is."""
    (problem,) = problems(text)

    assert (problem.code, problem.location.line, problem.location.column) == ("unknown-function", line, column)
