"""Resources that may flush their directory later: nothing depends on them, and the journal does not record them."""

from __future__ import annotations

import pytest

from engine_bench import Bench, state
from fake_machine import Machine, Setting
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context

LEAVES: dict[str, bool] = {}


class Leaf(Setting, kind="zleaf.present"):
    """A resource that records whether the engine calls it a leaf."""

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Report a change each time."""
        LEAVES[self.name] = ctx.assignment.leaf
        ctx.report.changes = {"made": True}
        return False


@pytest.fixture(autouse=True)
def _no_leaves() -> None:
    """Each test starts with an empty record."""
    LEAVES.clear()


@pytest.mark.parametrize(
    ("states", "leaves"),
    [
        ([("a", {}), ("b", {})], {"a", "b"}),
        ([("a", {}), ("b", {"require": ["a"]})], {"b"}),
        ([("a", {}), ("b", {"watch": ["a"]})], set()),
        ([("a", {}), ("b", {"onchanges": ["a"]})], set()),
        ([("a", {}), ("b", {"listen": ["a"]})], set()),
        ([("a", {}), ("b", {"prereq": ["a"]})], set()),
        ([("a", {}), ("b", {"meta": {"reverse": True}})], {"a"}),
    ],
)
async def test_only_resources_that_nothing_relies_on_are_leaves(
    machine: Machine, states: list[tuple[str, dict]], leaves: set[str]
) -> None:
    """`require` makes its target no leaf, every other requisite neither of its ends."""
    async with Bench(machine).running(*(state(name, "zleaf.present", **spec) for name, spec in states)):
        assert {name for name, leaf in LEAVES.items() if leaf} == leaves
        assert LEAVES.keys() == {name for name, _ in states}
