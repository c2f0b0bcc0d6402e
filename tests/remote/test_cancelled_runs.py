"""A cancelled run ends soon; its changes are recorded and reported."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from deadline import DEADLINE
from remote_bench import NotesPlugin


class Slow:
    """Delays a call of the provider, so that a test can cancel the run meanwhile."""

    def __init__(self, notes: NotesPlugin, slow: str) -> None:
        self.called, self.go_on, self.given_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._call, self._slow = notes.connection.call, slow
        notes.connection.call = self

    async def __call__(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Call the provider."""
        if method == self._slow:
            self.called.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.given_up.set()
                raise
        return await self._call(method, request, timeout)

    async def cancelled(self, run: Any) -> None:
        """Cancel a run while the call waits, let the provider answer, and check that the run is cancelled."""
        task = asyncio.create_task(run)
        async with asyncio.timeout(DEADLINE):
            await self.called.wait()
            task.cancel()
            self.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_a_run_that_is_cancelled_while_a_note_is_created_still_remembers_it(run, notes):
    """The provider completes the creation soon. Without the record, a second note would be created later."""
    await Slow(notes, "Create").cancelled(run())

    assert run.record.id == "web"


@pytest.mark.parametrize("code", ["conflict", "retry", "failed", "fault"])
async def test_a_run_that_is_cancelled_ends_even_if_the_change_fails(run, notes, code):
    """A conflict does not start the run again, so nothing is created after the cancellation."""

    def failing(answer):
        answer.failure.code, answer.failure.message = code, "no"
        return answer

    notes.answers["Create"] = failing
    await Slow(notes, "Create").cancelled(run())

    assert (run.calls[:4], run.calls.count("Create")) == (["Read", "Check", "remember", "Create"], 1)


async def test_a_note_that_is_half_made_when_the_run_is_cancelled_is_remembered(run, notes):
    """The run ends with the cancellation, not with the failure."""
    await Slow(notes, "Create").cancelled(run(name="partial"))

    assert (run.record.id, run.record.unfinished) == ("partial", True)


async def test_a_plan_that_is_cancelled_ends(run, notes):
    """The call changes nothing, so the run does not wait for the answer."""
    await Slow(notes, "Create").cancelled(run(apply=False))

    assert run.report.comment == ""


@pytest.mark.parametrize(
    ("slow", "more", "comment"),
    [
        ("Create", {"name": "new"}, "replaced note new, because of another name"),
        ("Create", {"name": "partial"}, "replaced note partial, because of another name"),
        ("Update", {"lines": []}, "changed lines of note web"),
        ("Delete", {"ensure": "absent"}, "removed note web"),
    ],
)
async def test_a_change_that_is_done_when_the_run_is_cancelled_is_reported(run, notes, slow, more, comment):
    """Otherwise, the history would lack the change."""
    await run()
    await Slow(notes, slow).cancelled(run(**more))

    assert run.report.comment == comment
    assert run.report.changes


async def test_a_replacement_that_is_cancelled_after_the_deletion_is_reported_as_a_removal(run, notes):
    """Nothing is created in place of the deleted note."""
    await run()

    def delete_first(answer):
        answer.delete_first = True
        return answer

    notes.answers["Diff"] = delete_first
    await Slow(notes, "Delete").cancelled(run(name="other"))

    assert run.calls == ["Read", "Check", "Diff", "Delete", "remember"]
    assert run.report.comment == "removed note other"
    assert run.report.changes["owner"] == {"old": "me", "new": None}


async def test_a_run_that_is_cancelled_twice_gives_up_its_call(run, notes):
    """Otherwise, the change would continue without the run."""
    slow = Slow(notes, "Create")
    task = asyncio.create_task(run())
    async with asyncio.timeout(DEADLINE):
        await slow.called.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await slow.given_up.wait()

    assert run.record.id == ""
