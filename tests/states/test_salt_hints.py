"""The hint for a word of another system names the right word of Holdfast, and never a wrong one."""

from __future__ import annotations

import re

import pytest

from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.shipped import FOLDER
from holdfast.resources import registry
from holdfast.resources.contract import DECLARED
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
        ),  # no argument of cmd.run means an owner, and `order` is not similar enough
        ("file.managed", "odrer: 5", "did you mean 'order'?"),
        ("file.managed", "onlyfi: 'true'", "did you mean 'onlyif'?"),
    ],
)
def test_the_hint_of_an_unknown_argument_is_that_of_the_same_meaning(problems, kind, argument, hint):
    """The meaning decides if the kind has the argument, otherwise the spelling.

    Arguments of every state must be very similar.
    """
    found = problems(f"/x:\n  {kind}:\n    - {argument}\n")

    (problem,) = (problem for problem in found if problem.code == "unknown-argument")
    assert problem.location.line == 3
    assert problem.hint.startswith(hint)


def test_the_value_of_a_secret_with_another_name_is_not_shown(problems):
    """The line contains the secret, whatever its name."""
    (problem,) = problems("u:\n  user.present:\n    - passwd: hunter2\n")

    assert problem.hint.startswith("did you mean 'password'?")
    assert "hunter2" not in str(problem)


def test_every_word_of_a_hint_exists():
    """A hint that names something missing would be worse than none."""
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
def test_the_hint_of_an_unknown_function_is_that_of_the_same_meaning(problems, kind, meant):
    """A file is `managed`, not `present`; `prepend` only looks similar."""
    (problem,) = problems(f"x:\n  {kind}: []\n")

    assert (problem.code, problem.hint) == ("unknown-function", f"did you mean {meant}?")


@pytest.mark.parametrize(
    ("requisite", "code", "hint"),
    [
        ("require: [{files: x}]", "requisite-missing", "there is no state 'files': did you mean file?"),
        ("watch_in: [{services: nginx}]", "requisite-missing", "there is no state 'services': did you mean service?"),
        ("require: [{xyzzy: x}]", "requisite-missing", "there is no state 'xyzzy': available: "),
        (
            "require: [{mysql_user: x}]",
            "requisite-missing",
            "Holdfast does not have Salt's state 'mysql_user': use cmd.run",
        ),
        ("require: [{lamp.lit: x}]", "requisite-shape", "write '- lamp: x'"),
        ("require: [{file: x}]", "requisite-missing", "'x' is of the type lamp"),
    ],
)
def test_a_requisite_of_an_unknown_type(problems, requisite, code, hint):
    """The type is wrong, not the name of the state."""
    (problem,) = problems(f"x: lamp.lit\ny:\n  lamp.lit:\n    - {requisite}\n")

    assert (problem.code, problem.location.line) == (code, 4)
    assert problem.hint.startswith(hint)


def test_an_extension_of_an_unknown_type(problems):
    """The hint is like that of a requisite."""
    (problem,) = problems(
        {"one.sls": "x: lamp.lit\n", "two.sls": "include: [one]\nextend:\n  x:\n    lmap: [color: red]\n"}
    )

    assert (problem.code, problem.hint) == ("extend-missing", "there is no state 'lmap': did you mean lamp?")


@pytest.mark.parametrize(
    "kind",
    [
        "pkgbuild.built",
        "zfs.filesystem_present",
        "lvm.pv_present",
        "mysql_user.present",
        "gem.installed",
    ],
)
def test_a_state_that_only_salt_has(problems, kind):
    """The message says so; `pkg` is no replacement for `pkgbuild`."""
    (problem,) = problems(f"x:\n  {kind}: []\n")

    assert (problem.code, problem.location.line) == ("unknown-state", 2)
    assert problem.message == f"Holdfast does not have Salt's state {kind.partition('.')[0]!r}"
    assert "cmd.run" in problem.hint


@pytest.mark.parametrize(
    ("kind", "package"),
    [
        ("postgres_user.present", "postgres"),
        ("postgres_privileges.present", "postgres"),
        ("postgres.role", "postgres"),
        ("redis.string", "redis"),
        ("redis.key", "redis"),
    ],
)
def test_a_state_for_which_holdfast_brings_a_package(problems, kind, package, monkeypatch):
    """The hint names kinds that the package has, and the setting without which they do not exist."""
    for known in registry.remote():  # an agent of another test in this process may have had the setting
        monkeypatch.delitem(DECLARED, known)
    (problem,) = problems(f"x:\n  {kind}: []\n")

    assert (problem.code, problem.message) == ("unknown-state", f"there is no state {kind.partition('.')[0]!r}")
    assert "`plugins`" in problem.hint
    named = {*re.findall(rf"\b{package}\.(?!md\b)\w+", problem.hint)}
    assert len(named) > 2
    assert named <= {*Schema.read((FOLDER / package / "provider/schema.json").read_text()).kinds}


def test_the_list_of_states_of_salt_has_none_of_holdfast():
    """The hint would deny an existing family."""
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
        ),  # the text that a template has made is not searched
        ("y: {lamp.lti: []}\n", 1, 5),
    ],
)
def test_an_unknown_function_without_arguments_has_its_own_location(problems, text, line, column):
    """The location is not that of the ID."""
    (problem,) = problems(text)

    assert (problem.code, problem.location.line, problem.location.column) == ("unknown-function", line, column)
