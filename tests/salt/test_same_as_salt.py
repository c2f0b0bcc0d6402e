"""Each tree, designed or generated, means the same to Holdfast as to Salt, except for intended differences."""

from __future__ import annotations

from pathlib import Path

import pytest
from compare import differences
from trees import TREES

from holdfast.resources.case_files import parsed

pytestmark = pytest.mark.filterwarnings(
    "ignore:invalid escape sequence:DeprecationWarning"
)  # a warning of Jinja about a template with '\d'

HERE = Path(__file__).parent
DIFFERENCES = {row["name"]: row for row in parsed((HERE / "differences.yaml").read_text(encoding="utf-8"))}


def excused(tree, salt):
    """Return the aspects in which a tree may differ from a version of Salt."""
    return {
        aspect for name in tree.differs if salt in DIFFERENCES[name]["salt"] for aspect in DIFFERENCES[name]["shows"]
    }


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_low_data_order_and_outcome_equal_those_of_salt_3007(tree, salt_3007, holdfast):
    """Numbers, order, results, reasons, changes and the content of the disk are equal, for real and in test mode."""
    found = differences(salt_3007(tree.name), holdfast(tree.job()), tree.modes)

    unexpected = [f"{aspect}: {what}" for aspect, what in found if aspect not in excused(tree, 3007)]
    assert not unexpected, "\n".join(unexpected)
    expected = [name for name in tree.differs if 3007 in DIFFERENCES[name]["salt"]]
    assert found or not expected, f"no longer different: {expected}"


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_compile_errors_of_salt_3008_are_errors(tree, salt_3008, holdfast):
    """The same mistakes are errors at compile time."""
    errors = salt_3008(tree.name).get("errors")
    found = [("compiles", str(errors))] if errors and "errors" not in holdfast({**tree.job(), "modes": ()}) else []

    assert not found or excused(tree, 3008), found
    expected = [name for name in tree.differs if 3008 in DIFFERENCES[name]["salt"]]
    assert found or not expected, f"no longer different: {expected}"


def test_each_difference_has_a_tree_and_is_documented():
    """Each entry occurs in a tree, and docs/coming-from-salt.md describes it."""
    shown = {name for tree in TREES for name in tree.differs}
    told = " ".join((HERE.parents[1] / "docs/coming-from-salt.md").read_text(encoding="utf-8").split())

    assert shown <= DIFFERENCES.keys()
    assert {name for name, row in DIFFERENCES.items() if row["shows"]} <= shown
    assert [row["documented"] for row in DIFFERENCES.values() if row["documented"] not in told] == []


def test_there_are_enough_trees():
    """At least 150 designed and 300 generated trees exist, with unique names."""
    generated = [tree for tree in TREES if tree.name.startswith("generated")]

    assert len(generated) >= 300
    assert len(TREES) - len(generated) >= 150
    assert len({tree.name for tree in TREES}) == len(TREES)
