"""`plugin.Trial`, with which authors test their providers, behaves as the agent does."""

from __future__ import annotations

import importlib
import sys

import pytest

from holdfast import plugin
from notes_package import HOME, SCHEMA


@pytest.fixture
def stub(notes_module):
    """The stub that the provider uses."""
    return sys.modules["notes_stub"]


@pytest.fixture
async def trial(notes_module, tmp_path):
    """The provider of the tests, configured."""
    notes = notes_module.Notes()
    trial = plugin.Trial(SCHEMA, notes, notes_module.Counting(notes), configure=notes.configure)
    await trial.configure(directory=str(tmp_path))
    return trial


async def test_a_resource_is_created_read_changed_and_deleted(trial, stub):
    """Arguments and results are dataclasses."""
    made = await trial.create(stub.Note(name="a", owner="me", lines=[stub.Line(text="x")]))
    changed = await trial.update(made, stub.Note(name="a", owner="me"))

    assert made.state.lines == [stub.Line(text="x")]
    assert await trial.read(stub.Note(name="a", owner="me")) == changed
    await trial.delete(changed)
    assert await trial.read(stub.Note(owner="me"), "a") is None


async def test_a_read_names_the_write_only_fields_that_differ(trial, stub, notes_module, monkeypatch):
    """The names are those that the agent gets."""
    made = await trial.create(stub.Note(name="a", owner="me"))

    async def other_password(self, key, inputs):
        return plugin.Found("a", self.found("a").state, differs=("password",))

    monkeypatch.setattr(notes_module.Notes, "read", other_password)
    found = await trial.read(stub.Note(name="a", owner="me", password=plugin.Secret("x")))

    assert made.differs == ()
    assert found.differs == ("password",)


async def test_inputs_are_checked_and_completed(trial, stub):
    """A name is generated, defaults are filled in, and wrong values have all their violations."""
    checked = await trial.check(stub.Note(owner="me"))
    with pytest.raises(plugin.Invalid) as raised:
        await trial.check(stub.Note(name="", owner="me", lines=[stub.Line(text="x", number="5x")]))

    assert checked.name.startswith("note-")
    assert checked.lines == []
    assert [each.path for each in raised.value.violations] == ["name", "lines[0].number"]
    with pytest.raises(plugin.Invalid, match="nobody may own a note"):
        await trial.check(stub.Note(owner="nobody"))


@pytest.mark.parametrize(
    ("name", "raised", "told"),
    [
        ("create-waits", plugin.Temporary, "the note is locked"),
        ("create-fails", plugin.Permanent, "locked for ever"),
        ("create-raises", plugin.Permanent, "KeyError"),
        ("partial", plugin.Partial, "the disk was full"),
    ],
)
async def test_failures_are_raised(trial, stub, name, raised, told):
    """They are raised as in the provider; a bug is a permanent failure."""
    with pytest.raises(raised, match=told) as error:
        await trial.create(stub.Note(name=name, owner="me"))

    assert not isinstance(error.value, plugin.Partial) or error.value.found.id == "partial"


async def test_a_conflict_is_raised(trial, stub):
    """The note has a revision other than the known one."""
    made = await trial.create(stub.Note(name="a", owner="me"))
    with pytest.raises(plugin.Conflict, match="has changed the note"):
        await trial.update(plugin.Found(made.id, made.state, "1"), stub.Note(name="a", owner="me"))


async def test_a_wrong_configuration_is_refused(notes_module):
    """The error has the violations."""
    notes = notes_module.Notes()
    trial = plugin.Trial(SCHEMA, notes, notes_module.Counting(notes), configure=notes.configure)
    with pytest.raises(plugin.Invalid, match="directory: it must be an absolute path"):
        await trial.configure(directory="notes")


async def test_events_are_identifiers(trial, stub):
    """The first, empty one says that changes are reported from now on."""
    events = trial.watch(stub.Note)
    trial_notes = importlib.import_module("provider")
    assert trial_notes.__file__ == str(HOME / "provider.py")
    assert await anext(events) == ""
    await events.aclose()
