"""The replacement of a note: the order of calls, and the state after an interruption."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.resources.errors import Temporary


def busy(answer: Any) -> Any:
    """Return a temporary failure in place of the answer, although the provider has made the change."""
    answer.failure.code, answer.failure.message = "retry", "busy"
    return answer


async def test_a_plan_says_that_a_change_replaces(run):
    """The verb is not that of a change, and the plan has the reason."""
    await run()
    await run(apply=False, owner="you")

    assert run.report.comment == "would replace note web, because of another owner, remove the former note web"
    assert run.report.changes == {"owner": {"old": "me", "new": "you"}}
    assert run.file().exists()


async def test_a_replacement_creates_before_it_deletes(run, notes):
    """Between the two calls, the record has the former note."""
    await run()
    await run(name="other")

    assert run.calls == ["Read", "Check", "Diff", "remember", "Create", "remember", "Delete", "remember"]
    assert (run.record.id, run.record.replaced) == ("other", ())
    assert (run.file("web").exists(), run.file("other").exists()) == (False, True)


async def test_a_replacement_deletes_first_if_the_schema_says_so(run, notes):
    """The answer of the provider determines the order."""
    await run()

    def delete_first(answer):
        answer.delete_first = True
        return answer

    notes.answers["Diff"] = delete_first
    await run(name="other")

    assert run.calls == ["Read", "Check", "Diff", "Delete", "remember", "remember", "Create", "remember"]


async def test_what_an_interrupted_replacement_has_left_is_deleted_by_the_next_run(run, notes):
    """The deletion failed after the new note was created and recorded."""
    await run()
    notes.answers["Delete"] = busy
    with pytest.raises(Temporary, match="busy"):
        await run(name="other")
    left = run.record
    run.file("web").write_text('["me", []]')
    del notes.answers["Delete"]
    again = await run(name="other")

    assert (left.id, left.replaced) == ("other", ("web",))
    assert again is False
    assert run.report.comment == "removed the former note web of note other"
    assert not run.file("web").exists()
    assert run.record.replaced == ()


@pytest.mark.parametrize("made", ["other", "partial"])
async def test_a_replacement_that_is_taken_back_keeps_the_former_note(run, notes, made):
    """The state declares the former note again before it was deleted, or while the new one is incomplete."""
    await run(name="delete-waits")
    before = run.file("delete-waits").stat().st_ino
    with pytest.raises(Temporary):
        await run(name=made)
    left = run.record
    planned = await run(name="delete-waits", apply=False)
    again = await run(name="delete-waits")
    removed = run.report.comment

    assert (left.id, left.replaced, planned, again) == (made, ("delete-waits",), False, False)
    assert removed == f"removed the former note {made} of note delete-waits"
    assert [each.name for each in (run.directory / "notes").iterdir()] == ["delete-waits"]
    assert run.file("delete-waits").stat().st_ino == before
    assert (run.record.id, run.record.replaced) == ("delete-waits", ())
    assert await run(name="delete-waits") is True


async def test_a_replacement_that_is_half_done_deletes_the_former_one_when_it_is_finished(run):
    """The former note stays until then."""
    await run()
    with pytest.raises(Temporary):
        await run(name="partial")
    left, still = run.record, run.file("web").exists()
    await run(name="partial")

    assert (left.id, left.replaced, left.unfinished, still) == ("partial", ("web",), True, True)
    assert run.calls == ["Read", "Diff", "Update", "remember", "Read", "Delete", "remember"]
    assert not run.file("web").exists()
    assert (run.record.id, run.record.replaced, run.record.unfinished) == ("partial", (), False)


@pytest.mark.parametrize(
    ("more", "left"),
    [({"ensure": "absent"}, set()), ({"name": "third"}, {"third"})],
)
async def test_the_former_note_does_not_stay_if_the_half_made_one_is_unwanted_or_lost(run, more, left):
    """The former note is deleted although the replacement is never completed, or starts again."""
    await run()
    with pytest.raises(Temporary):
        await run(name="partial")
    if "name" in more:
        run.file("partial").unlink()
    await run(**{"name": "partial", **more})

    assert {each.name for each in (run.directory / "notes").iterdir()} == left
    assert run.record is None or (run.record.id, run.record.replaced) == ("third", ())


@pytest.mark.parametrize("delete_first", [False, True])
async def test_a_half_made_replacement_that_is_replaced_again_leaves_nothing(run, notes, delete_first):
    """Neither the first note nor any incomplete one stays when the last one is complete."""
    await run()
    for name in ("partial", "part-x"):
        with pytest.raises(Temporary):
            await run(name=name)
    left, files = run.record, {each.name for each in (run.directory / "notes").iterdir()}

    def first(answer):
        answer.delete_first = delete_first
        return answer

    notes.answers["Diff"] = first
    await run(name="last")

    assert (left.id, left.replaced, left.unfinished) == ("part-x", ("web", "partial"), True)
    assert files == {"web", "partial", "part-x"}
    assert [each.name for each in (run.directory / "notes").iterdir()] == ["last"]
    assert (run.record.id, run.record.replaced, run.record.unfinished) == ("last", (), False)
    assert await run(name="last") is True


async def test_a_note_that_is_found_in_place_of_the_former_one_is_not_deleted(run, notes):
    """The former note no longer exists. The provider finds notes by their arguments, so it has found the new one."""
    await run()
    notes.records["the note"] = run.record._replace(replaced=("former",))

    def found_by_name(answer):
        result = answer.results[0]
        result.exists, result.id = True, "web"
        result.state = run.record.state
        return answer

    notes.answers["Read"] = found_by_name
    right = await run()

    assert right is True
    assert run.calls == ["Read", "Read", "remember"]
    assert run.file("web").exists()
    assert run.record.replaced == ()


async def test_a_replacement_in_place_deletes_nothing(run):
    """The new note has the identifier of the former one."""
    await run()
    await run(owner="you")

    assert "Delete" not in run.calls
    assert run.file().read_text() == '["you", ["hello"]]'
