"""A swap that changes neither edges nor what is managed has the journal look through nothing."""

from __future__ import annotations

from typing import Any

import pytest

from engine_bench import Bench, compilation, state
from holdfast.agent.engine.deliver.journal import Journal


@pytest.fixture
def adoptions(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each time that the journal takes over states."""
    taken: list[None] = []
    adopt = Journal.adopt

    def counting(self: Journal, *args: Any, **named: Any) -> Any:
        taken.append(None)
        return adopt(self, *args, **named)

    monkeypatch.setattr(Journal, "adopt", counting)
    return taken


async def test_equal_states_and_edited_values_are_not_taken_over_again(bench: Bench, adoptions: list[None]) -> None:
    """And what was owed before such a swap is delivered after it, once."""
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
async def test_what_changes_edges_or_things_is_taken_over(
    bench: Bench, adoptions: list[None], edited: list[Any]
) -> None:
    """Also back again."""
    engine = bench.engine()
    for states in (
        [state("conf"), state("svc", watch=["conf"])],
        edited,
        [state("conf"), state("svc", watch=["conf"])],
    ):
        await engine.swap(compilation(*states))
        await engine.settle()

    assert len(adoptions) == 3
    await engine.stop()


async def test_the_journal_is_asked_while_it_remembers_what_has_left(bench: Bench, adoptions: list[None]) -> None:
    """It counts how long that is gone."""
    async with bench.running(state("conf"), state("svc", watch=["conf"])) as engine:
        for _ in range(3):
            await engine.swap(compilation(state("conf")))
            await engine.settle()

        assert len(adoptions) >= 3
