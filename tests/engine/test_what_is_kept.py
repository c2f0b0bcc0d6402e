"""What an engine keeps of outcomes: a daemon that repairs for months must not keep all that was printed and compared."""

from __future__ import annotations

import pytest

from engine_bench import Bench, compilation, in_virtual_time, state


@pytest.mark.parametrize("watch", [True, False], ids=["daemon", "one-shot"])
@in_virtual_time
async def test_a_daemon_tells_changes_in_full_and_keeps_only_that_there_were_some(bench: Bench, *, watch: bool) -> None:
    """A run of megabytes is megabytes in the log at most, however many resources there are; a one-shot run reports them at its end."""
    engine = bench.engine(watch=watch)
    await engine.swap(compilation(state("a", value="x" * 1000)))
    record = await engine.settle()

    (told,) = bench.outcomes("a")
    (vertex,) = engine.view.present
    assert "x" * 1000 in str(told.changes)
    kept = [record.outcomes[0], vertex.outcome, vertex.last_change]
    assert all(outcome is not None and outcome.changed for outcome in kept)
    assert [("x" * 1000 in str(outcome)) for outcome in kept] == [not watch] * 3
    await engine.stop()
