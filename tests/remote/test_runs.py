"""One run of a remote resource: its calls, changes, records and reports."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from deadline import DEADLINE
from holdfast.resources.errors import Permanent, Temporary, WrongArguments
from remote_runs import WEB


async def test_a_note_is_created_and_the_next_check_is_one_call(run):
    """The first run creates and records the note; the second one only reads, and writes nothing."""
    first = await run()
    report, calls, record = run.report, [*run.calls], run.record
    second = await run()

    assert (first, second) == (False, True)
    assert report.comment == "created note web"
    assert report.changes["owner"] == {"old": None, "new": "me"}
    assert calls == ["Read", "Check", "remember", "Create", "remember"]
    assert (record.id, record.version, record.unfinished) == ("web", 2, False)
    assert run.calls == ["Read"]
    assert run.report.comment == "note web is as declared"


async def test_a_creation_tells_what_the_state_declares_and_what_the_provider_has_set(run):
    """The report has no defaults, such as empty `lines`. A plan does not know the size yet."""
    await run(apply=False, lines=[], password="hunter22")
    planned = run.report.changes
    await run(lines=[], password="hunter22")
    made = run.report.changes
    await run(ensure="absent")

    declared = {
        "name": {"old": None, "new": "web"},
        "owner": {"old": None, "new": "me"},
        "password": {"old": None, "new": "********"},
    }
    assert planned == declared
    assert made == {**declared, "size": {"old": None, "new": 10}}
    assert run.report.changes == {"name": {"old": "web", "new": None}, "owner": {"old": "me", "new": None}}


async def test_a_plan_changes_nothing_and_does_not_call_the_authors_code(run, notes):
    """The call has `dry_run`, which the stub handles."""
    right = await run(apply=False)

    assert right is False
    assert run.report.comment == "would create note web"
    assert run.record is None
    assert notes.notes.calls == ["read", "check"]
    assert not run.file().exists()


async def test_drift_is_repaired_with_one_update(run, notes):
    """The report has the old and the new value; arguments that the provider has accepted are not checked again."""
    await run()
    run.file().write_text('["me", ["other"]]')
    await run()

    assert run.report.comment == "changed lines of note web"
    assert run.report.changes == {"lines": {"old": [{"text": "other"}], "new": [{"text": "hello"}]}}
    assert run.report.before == {"lines": [{"text": "other"}]}
    assert run.calls == ["Read", "Diff", "Update", "remember"]
    assert run.file().read_text() == '["me", ["hello"]]'


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"ensure": "absent"}, "the note is kept for ever"),
        (
            {"name": "other"},
            "note other must be replaced because of another name, but cannot be deleted: the note is kept for ever",
        ),
    ],
)
async def test_a_plan_tells_that_the_provider_would_refuse_a_deletion(run, more, told):
    """The plan has the error of `apply`, from the provider's `refusal`."""
    await run(name="kept")
    with pytest.raises(Permanent) as caught:
        await run(apply=False, **{"name": "kept", **more})

    assert str(caught.value) == told
    assert run.file("kept").exists()
    assert (run.plugin.requests[-1].dry_run, run.plugin.requests[-1].timeout_ms) == (True, 30_000)


async def test_an_absent_note_is_deleted_and_forgotten(run):
    """The deletion of a missing note is not a change."""
    await run()
    first = await run(ensure="absent")
    report = run.report
    second = await run(ensure="absent")

    assert (first, second) == (False, True)
    assert report.comment == "removed note web"
    assert report.changes["owner"] == {"old": "me", "new": None}
    assert run.calls == ["Read"]
    assert run.record is None
    assert not run.file().exists()


async def test_a_note_that_was_deleted_by_others_is_created_again(run):
    """A missing note is not an error."""
    await run()
    run.file().unlink()
    await run()

    assert run.calls == ["Read", "remember", "Create", "remember"]
    assert run.report.comment == "created note web"


async def test_a_create_that_fails_half_way_is_remembered_and_the_retry_is_an_update(run):
    """The retry is an update even if the state that the provider reads looks complete."""
    with pytest.raises(Temporary, match="the disk was full half-way"):
        await run(name="partial")
    record, report = run.record, run.report
    again = await run(name="partial")

    assert (record.id, record.unfinished) == ("partial", True)
    assert report.touched
    assert report.comment == "created note partial"
    assert again is False
    assert run.calls == ["Read", "Diff", "Update", "remember"]
    assert run.report.comment == "repaired note partial"
    assert run.record.unfinished is False


async def test_a_half_made_note_is_remembered_even_if_its_state_is_wrong(run, notes):
    """Otherwise, the retry would create a second note."""

    def wrong(answer):
        answer.state = b"{}"
        return answer

    notes.answers["Create"] = wrong
    with pytest.raises(Temporary):
        await run(name="partial")

    assert (run.record.id, run.record.state, run.record.unfinished) == ("partial", b"", True)


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("read-fails", Permanent, "the note is locked for ever"),
        ("read-waits", Temporary, "the note is locked"),
        ("create-fails", Permanent, "the note is locked for ever"),
        ("create-waits", Temporary, "the note is locked"),
        ("read-raises", Permanent, "has a defect: Read of notes:note:Note: KeyError"),
        ("create-raises", Permanent, "has a defect: Create of notes:note:Note: KeyError"),
    ],
)
async def test_failures_of_the_provider_are_those_of_the_run(run, name, error, said):
    """A mistake of the provider's author is reported as such, with the call and the kind."""
    with pytest.raises(error, match=said):
        await run(name=name)


@pytest.mark.parametrize(
    ("method", "spoil", "said"),
    [
        (
            "Create",
            {"state": b'{"name": "web"}'},
            "it returned a wrong state: owner: it is required; size: it is required",
        ),
        ("Create", {"state": b"[1]"}, "it returned a wrong state: it must be a mapping"),
        ("Create", {"id": ""}, "it returned no id"),
        ("Check", {"inputs": b'{"lines": 3}'}, "it returned wrong inputs: lines: it must be a list"),
    ],
)
async def test_a_wrong_answer_is_the_providers_fault_and_nothing_of_it_is_remembered(run, notes, method, spoil, said):
    """The error names the provider, the call, the kind and the field."""

    def spoiled(answer):
        for name, value in spoil.items():
            setattr(answer, name, value)
        return answer

    notes.answers[method] = spoiled
    with pytest.raises(Permanent) as caught:
        await run()

    assert f"the provider of notes has a defect: {method} of notes:note:Note: {said}" in str(caught.value)
    assert run.record is None or (run.record.id, run.record.state) == ("", b"")


async def test_a_note_that_still_differs_after_its_creation_is_the_providers_fault(run, notes, monkeypatch):
    """The run fails instead of repairing it again and again."""
    monkeypatch.setattr(
        type(notes.notes), "write", lambda self, inputs: (self.directory / "web").write_text('["me", []]')
    )
    with pytest.raises(Permanent, match=r"has a defect: .*lines still differ"):
        await run()


async def test_arguments_that_the_provider_refuses_are_named(run):
    """The error has the path, by which the engine finds the line."""
    with pytest.raises(WrongArguments, match="owner: nobody may own a note") as caught:
        await run(owner="nobody")

    assert caught.value.wrong == ((("owner",), "nobody may own a note"),)
    assert "Create" not in run.calls


async def test_a_conflict_is_tried_again_with_what_is_there_then(run, notes, monkeypatch):
    """Another program changes the note once between Read and Update; then the run succeeds."""
    await run()
    run.file().write_text('["me", ["other"]]')

    def meanwhile(answer):
        run.file().write_text('["me", ["third"]]')
        del notes.answers["Diff"]
        return answer

    notes.answers["Diff"] = meanwhile
    await run()

    assert run.calls == ["Read", "Diff", "Update", "Read", "Diff", "Update", "remember"]
    assert run.file().read_text() == '["me", ["hello"]]'


async def test_endless_conflicts_end_with_an_error_that_may_be_tried_again(run, notes):
    """The engine decides when to retry."""
    await run()
    run.file().write_text('["me", ["other"]]')
    count = iter(range(100))

    def meanwhile(answer):
        run.file().write_text(f'["me", ["{next(count)}"]]')
        return answer

    notes.answers["Diff"] = meanwhile
    with pytest.raises(Temporary, match="something else changes note web at the same time"):
        await run()


async def test_a_password_is_sent_again_only_if_another_one_is_declared(run, notes):
    """The record has only a salted hash, and no report shows the value."""
    await run(password="hunter22")
    first = run.record
    same = await run(password="hunter22")
    other = await run(password="hunter33")

    assert (same, other) == (True, False)
    assert run.report.comment == "changed password of note web"
    assert run.report.changes == {"password": {"old": "********", "new": "********"}}
    assert first.hidden != run.record.hidden != ""
    assert "hunter" not in repr((first, run.record, run.report))


async def test_the_hash_of_a_password_is_salted(run):
    """Two resources with one password have different hashes."""
    await run(password="hunter22")
    first = run.record.hidden
    run.file().unlink()
    await run(password="hunter22")

    assert run.record.hidden != first


async def test_a_note_that_was_there_before_is_adopted_and_its_password_is_set_once(run):
    """The agent cannot know whether a password that it never sent is right."""
    run.file().write_text('["me", ["hello"]]')
    plain = await run()
    adopted = run.record
    first, second = await run(password="hunter22"), await run(password="hunter22")

    assert plain is True
    assert adopted.id == "web"
    assert (first, second) == (False, True)


async def test_a_state_of_an_older_version_is_upgraded(run, notes):
    """The provider gets the recorded state with its version."""
    await run()
    old = b'{"name": "web", "owner": "me", "text": "hello"}'
    notes.records["the note"] = run.record._replace(state=old, version=1)
    right = await run()

    assert right is True
    assert run.calls == ["UpgradeState", "Read", "remember"]
    assert notes.requests[-2].subject.version == 1
    assert run.record.version == 2


async def test_secrets_do_not_appear_in_errors(run):
    """The provider's error repeats the password."""
    with pytest.raises(Permanent) as caught:
        await run(name="read-raises", password="hunter22")

    assert "hunter22" not in str(caught.value)


async def test_what_others_receive_is_sent(run):
    """The identifier, outputs and arguments, as plain data."""
    await run(wanted=("id", "size", "lines"))
    created = dict(run.report.sent) or dict(run.ctx.sent)
    run.ctx.sent.clear()
    await run(wanted=("id",))

    assert created == {"id": "web", "size": 17, "lines": [{"text": "hello"}]}
    assert run.ctx.sent == {"id": "web"}


async def test_the_watch_reports_events_of_this_note_alone(run, note, notes):
    """The identifier is that of the last run, or of the record."""
    await run()
    note.remote.ids.clear()
    watch = note.declare(**WEB).watch(run.ctx)
    async with asyncio.timeout(DEADLINE):
        await anext(watch)
        coming = asyncio.ensure_future(anext(watch))
        notes.events.put_nowait("another")
        notes.events.put_nowait("web")
        await coming
    await watch.aclose()


async def test_a_kind_without_events_is_checked_at_its_interval(run, note, monkeypatch):
    """The plugin is not asked for events."""
    monkeypatch.setattr(note.remote, "remote", replace(note.remote.remote, poll=0.001))
    watch = note.declare(**WEB).watch(run.ctx)
    async with asyncio.timeout(DEADLINE):
        for _ in range(3):
            await anext(watch)
    await watch.aclose()


async def test_what_a_failed_change_has_done_is_found_out_afterwards(run, notes, monkeypatch):
    """The provider changes the note and then fails; the engine determines the changes."""
    await run()
    run.file().write_text('["me", ["other"]]')
    write = type(notes.notes).write

    def write_and_fail(self, inputs):
        write(self, inputs)
        raise run.plugin.module.plugin.Permanent("the disk is full")

    monkeypatch.setattr(type(notes.notes), "write", write_and_fail)
    with pytest.raises(Permanent, match="the disk is full"):
        await run()
    await run.report.account()

    assert run.report.changes == {"lines": {"old": [{"text": "other"}], "new": [{"text": "hello"}]}}
    assert run.report.comment == "changed lines of note web"


async def test_an_upgraded_state_is_stored_even_if_nothing_else_has_changed(run, notes):
    """Otherwise, each run would upgrade the state."""
    await run()
    notes.records["the note"] = run.record._replace(version=3)
    await run()

    assert run.record.version == 2


async def test_a_reversal_describes_what_was_there(run, note):
    """If there was no note, the reversal deletes it; if there was one, the reversal restores it."""
    nothing = await note.declare(**WEB).inverse(run.ctx)
    run.file().write_text('["you", ["old"]]')
    something = await note.declare(**WEB, password="hunter22").inverse(run.ctx)

    assert nothing == ("notes.note", {**WEB, "ensure": "absent"}, "")
    assert something == ("notes.note", {"name": "web", "owner": "you", "lines": [{"text": "old"}]}, "")


def test_the_reversal_of_a_state_works_on_the_resource_of_that_state(note):
    """Both have the same name in the records."""
    key = note.remote.key

    assert key("notes.note[web]") == "web"
    assert key("notes.note[undo notes.note[web]]") == "web"
    assert key("notes.note[undo notes.note[a[0]] (web)]") == "a[0]"
