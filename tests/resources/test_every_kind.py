"""Properties of every kind: its example compiles, a misspelled argument gets a suggestion, and drift is watched.

Other tests of all kinds: data cases, with a plan and a second run (`tests/cases`); documentation and schemas
(`tests/model`); effects (`test_effect_verbs.py`); odd texts (`test_odd_values.py`); Salt's arguments (`tests/salt`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.model.docstrings import docs_of
from holdfast.resources import registry
from holdfast.resources.builtin import KIND_MODULES
from holdfast.resources.case_files import parsed
from holdfast.resources.contract import Resource
from holdfast.states.compile.check import shape_of
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError, Problem

ELSEWHERE = frozenset({"source-absent", "requisite-missing"})
"""Codes of problems that examples may have, because they refer to sources and states that are not part of them."""
UNWATCHED = {
    "cmd": "a command runs when its state says so; `watch_files` and `watch_cmd` are for more",
    "environ": "the compiler gives the variables to commands",
    "event": "an event is sent, and cannot drift",
    "file.accumulated": "the compiler gives the texts to the state of the file",
    "module": "functions are called when the state says so",
    "systemd_unit": "its parts are watched",
    "test": "nothing on the host belongs to it",
}
"""Families and kinds without a watch of their own -> the reason."""
SHELF = Path(__file__).parents[1] / "lab/shelf.yaml"
NOT_ON_THE_SHELF = {
    "cmd": "test_webserver.py",
    "cron": "test_cron_and_sysctl.py",
    "file": "attacks_on_files.py",
    "git": "test_git.py",
    "group": "test_accounts.py",
    "iptables": "test_firewall.py",
    "module": "test_calls.py",
    "nftables": "test_firewall.py",
    "pip.removed": "test_python_packages.py",
    "pip.uptodate": "test_python_packages.py",
    "pkg": "test_packages.py",
    "pkgrepo": "test_pkgrepo.py",
    "service": "test_services.py",
    "sysctl": "test_cron_and_sysctl.py",
    "test": "",
    "ufw": "test_firewall.py",
    "user": "test_accounts.py",
}
"""Families and kinds without a row in `shelf.yaml` -> the module of the lab that shows them; "test" manages nothing."""


def problems(tmp_path: Path, text: str) -> tuple[Problem, ...]:
    """Compile a state file, and return its problems."""
    (tmp_path / "a.sls").write_text(text)
    tmp_path.chmod(0o755)
    trusted = frozenset({0, tmp_path.stat().st_uid})
    try:
        return Compiler().compile(CompilerInputs(tmp_path, trusted_uids=trusted)).warnings
    except CompileError as error:
        return error.problems


def kind_of(name: str) -> type[Resource]:
    """Return a kind, which must exist."""
    cls = registry.find(name)
    assert cls is not None
    return cls


@pytest.mark.parametrize("kind", sorted(KIND_MODULES))
def test_the_example_of_a_kind_compiles(kind, tmp_path):
    """Each example is compiled as a state file of its own."""
    examples = docs_of(kind_of(kind)).examples

    assert examples
    for text in examples:
        wrong = [str(each) for each in problems(tmp_path, text) if each.code not in ELSEWHERE]
        assert wrong == [], text


@pytest.mark.parametrize("kind", sorted(KIND_MODULES))
def test_a_misspelled_argument_gets_a_suggestion(kind, tmp_path):
    """The problem is at the line of the argument. Kinds that take arguments of any name are left out."""
    shape = shape_of(kind_of(kind))
    names = sorted(name for name in shape.fields - {"name"} if len(name) > 4)
    if not names or not shape.closed:
        return
    slip = f"{names[0][:-1]}{names[0][-1] * 2}x"
    found = [each for each in problems(tmp_path, f"/x:\n  {kind}:\n    - {slip}: x\n") if "no argument" in each.message]

    assert [(each.code, each.location.line) for each in found] == [("unknown-argument", 3)]
    assert found[0].hint.startswith(f"did you mean {names[0]!r}?")


def test_every_kind_is_watched_or_says_why_not():
    """A kind with the default watch, which reports nothing, is listed with its reason."""
    silent = {kind for kind in KIND_MODULES if kind_of(kind).watch is Resource.watch}

    assert {kind for kind in silent if not {kind, kind.partition(".")[0]} & UNWATCHED.keys()} == set()
    assert {word for word in UNWATCHED if not any(word in (kind, kind.partition(".")[0]) for kind in silent)} == set()


def test_every_kind_is_shown_on_a_booted_host():
    """By a row of the shelf, or by a module of the lab for its family; the table has no entry that is not used."""
    rows = parsed(SHELF.read_text())["rows"].values()
    declared = [states for row in rows for states in (row["states"], row.get("removed") or {})]
    shown = {kind for states in declared for kinds in states.values() for kind in kinds}
    others = KIND_MODULES.keys() - shown
    without = {kind for kind in others if not {kind, kind.partition(".")[0]} & NOT_ON_THE_SHELF.keys()}

    assert not without, f"add a row for each kind to {SHELF}; the head of the file says how"
    assert NOT_ON_THE_SHELF.keys() <= {word for kind in others for word in (kind, kind.partition(".")[0])}
    assert all((SHELF.parent / module).is_file() for module in NOT_ON_THE_SHELF.values() if module)


@pytest.mark.parametrize("family", sorted({kind.partition(".")[0] for kind in KIND_MODULES}))
def test_the_readme_names_each_family_of_kinds(family):
    """In its list of what is managed."""
    readme = SHELF.parents[2].joinpath("README.md").read_text()

    assert f"`{family}." in readme, f"add `{family}.*` to the section What is managed of README.md"
