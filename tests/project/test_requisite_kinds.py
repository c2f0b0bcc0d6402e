"""The table of requisites, `states/requisite_kinds.py`: no other module knows their names; each row is documented."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from holdfast.agent.engine.decide.requisites import COMMENTS, Word
from holdfast.agent.engine.model.outcome import Reason
from holdfast.states.requisite_kinds import CARRIES, GATES, KINDS, NOTED, PROBED, REQUISITES, REVERSED, TABLE, Gate

ROOT = Path(__file__).resolve().parents[2]
NAMES = {*KINDS, *REVERSED, *NOTED.values(), "_any", "_all", "_in"}
A_STRING = re.compile(rf"""["'}}](?:{"|".join(NAMES)})["'{{]""")
"""A name as a string, or as a part of one with expressions: only modules with such a text are parsed."""
EXCEPTIONS = {
    "states/requisite_kinds.py": NAMES,
    "agent/pictures/drawing.py": {*KINDS},  # a style for each name
    "agent/engine/model/": {"onfail", "onchanges", "prereq"},  # a reason of outcomes
    "agent/engine/decide/": {"onfail", "onchanges", "prereq"},  # the same
    "agent/engine/inspect/": {"prereq", "watch"},  # the same; a vertex waits for its watch
    "agent/verbs/": {"watch"},  # a verb
    "agent/cli/oneshot.py": {"onfail"},  # Salt's `onfail_stop` belongs to `onfail` alone
    "agent/settings.py": {"listen"},  # a setting
    "agent/host/path_nodes.py": {"watch"},  # an attribute
    "resources/watches.py": {"watch"},  # the name of a task
    "resources/remote/": {"require"},  # a word of other programs
    "states/compile/hand_on.py": {"require_in", "watch_in"},  # Salt's `file.accumulated` uses only these two
    "resources/kinds/": {"require", "watch"},  # parts of composites have requisites
}
"""Beginning of a path -> names that these files may contain."""
DOCUMENTED = ("docs/language.md", "tests/engine/requisite_tables.txt")


def strings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield all strings of a module except docstrings."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node


def test_no_other_module_knows_a_name_of_a_requisite() -> None:
    """A module that compares or slices names would have to change with each new kind of requisite."""
    found = []
    for folder in ("agent", "states", "resources"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            here = str(path.relative_to(ROOT))
            allowed = {name for start, names in EXCEPTIONS.items() if here.startswith(start) for name in names}
            text = path.read_text(encoding="utf-8")
            nodes = strings(ast.parse(text)) if A_STRING.search(text) else ()
            found += [f"{here}:{node.lineno}: {node.value!r}" for node in nodes if node.value in NAMES - allowed]
    assert not found, "look up the row in states/requisite_kinds.py instead"


@pytest.mark.parametrize("name", REQUISITES)
def test_each_requisite_is_documented_and_has_its_row_in_the_tables(name: str) -> None:
    """The name is documented, and the tables for one target, one target in noop, and two targets have a row."""
    language, tables = (ROOT.joinpath(file).read_text(encoding="utf-8") for file in DOCUMENTED)
    assert f"`{name}`" in language, f"{DOCUMENTED[0]}: name `{name}` in the section on requisites"
    rows = [line.split()[0] for line in tables.splitlines() if line.strip()].count(name)
    assert rows == 3, f"{DOCUMENTED[1]}: a row for {name} in both tables of one target, and in that of two targets"


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_the_rows_are_consistent(kind) -> None:
    """Deliveries carry what the row carries; the replacement of a requisite gates alike and refreshes nothing."""
    carried = KINDS[kind.carries] if kind.carries else None
    if carried is not None:
        same = (carried.gates, carried.carries, carried.refreshes) == (kind.gates, kind.carries, kind.refreshes)
        assert same, "the row that `carries` names has other gates, carries or refreshes"
    replacement = KINDS.get(kind.without_refresh)
    if replacement is not None:
        same = (replacement.gates, replacement.quantifier, replacement.targets) == kind[1:4]
        assert same, "the row that `without_refresh` names has other gates, quantifier or targets"
        assert not replacement.refreshes, "the row that `without_refresh` names must not refresh"
        assert not replacement.carries, "the row that `without_refresh` names must carry nothing"
    assert kind.refreshes or not kind.without_refresh, "`without_refresh` is for kinds that refresh"
    assert (kind.gates == "nothing") == (kind.targets == "either"), "the gate `nothing` is for targets at any place"
    assert (kind.gates == "need") == (kind.name in PROBED), "the gate `need` is for targets that come later"


def test_each_gate_has_its_documentation_and_each_reason_its_comment() -> None:
    """A word that is also a reason of outcomes keeps a state from running, so it has a comment."""
    assert {*GATES} == {*get_args(Gate)}, "GATES needs the meaning of each gate"
    assert {*COMMENTS} == {*get_args(Word)} & {*get_args(Reason)}, "COMMENTS needs each word that is a reason"


def test_names_are_unique() -> None:
    """No requisite has two rows, and no reversed form belongs to two requisites."""
    names = [kind.name for kind in TABLE] + [kind.reversed_form for kind in TABLE if kind.reversed_form]
    assert len(names) == len({*names})
    assert {*CARRIES.values()} <= KINDS.keys()
