"""A swap that changes no edge and no managed thing does not read the journal."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench, compilation, state
from holdfast.agent.engine.deliver.journal import Journal


@pytest.fixture
def adoptions(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that gets an entry each time that the journal takes over states."""
    taken: list[None] = []
    adopt = Journal.adopt

    def counting(self: Journal, *args: Any, **named: Any) -> Any:
        taken.append(None)
        return adopt(self, *args, **named)

    monkeypatch.setattr(Journal, "adopt", counting)
    return taken


async def test_equal_states_and_edited_values_are_not_taken_over_again(bench: Bench, adoptions: list[None]) -> None:
    """A refresh that was pending before such a swap is delivered once after it."""
    async with bench.running(state("conf"), state("svc", watch=["conf"])) as engine:
        bench.machine.hold("refresh svc")
        bench.machine.drift("conf")
        await bench.until(lambda _: "refresh svc" in bench.machine.log)
        await engine.swap(compilation(state("conf"), state("svc", watch=["conf"])))
        await engine.swap(compilation(state("conf"), state("svc", value="other", watch=["conf"])))
        assert len(adoptions) == 1
        bench.machine.free()
        await engine.settle()

        assert not any(row["pending_refresh"] for row in engine.status())
        assert bench.machine.settings["svc"] == "other"


@pytest.mark.parametrize(
    "edited",
    [
        [state("conf"), state("svc")],
        [state("conf"), state("svc", onchanges=["conf"])],
        [state("conf", name="another"), state("svc", watch=["conf"])],
        [state("conf"), state("svc", watch=["conf"]), state("more")],
    ],
    ids=["no edge", "another edge", "another thing", "another state"],
)
async def test_swaps_that_change_edges_or_managed_things_are_taken_over(
    bench: Bench, adoptions: list[None], edited: list[Any]
) -> None:
    """The swap back to the first states is taken over, too."""
    states = [state("conf"), state("svc", watch=["conf"])]
    async with bench.running(*states) as engine:
        for others in (edited, states):
            await engine.swap(compilation(*others))
            await engine.settle()

    assert len(adoptions) == 3


async def test_states_are_taken_over_while_the_journal_remembers_removed_ones(
    bench: Bench, adoptions: list[None]
) -> None:
    """The journal counts for how long they have been gone."""
    async with bench.running(state("conf"), state("svc", watch=["conf"])) as engine:
        for _ in range(3):
            await engine.swap(compilation(state("conf")))
            await engine.settle()

        assert len(adoptions) >= 3
