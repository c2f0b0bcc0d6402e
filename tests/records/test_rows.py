"""The rows that are written without their models can be read by these, and so can rows of earlier versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent.engine.model.events import PassRecord
from holdfast.agent.engine.model.outcome import Cause, Outcome, Reason
from holdfast.agent.engine.model.tally import Tally
from holdfast.agent.northbound.drivers.base import Put
from holdfast.agent.northbound.model import VERSION, Model
from holdfast.agent.northbound.registry import registry
from holdfast.agent.records import models, rows, world_records
from holdfast.agent.records.ids import TimeIds
from holdfast.agent.records.models import Actor, Change
from holdfast.agent.records.rows import ORIGINS, ChangeEntry
from holdfast.resources.author import Author
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.replaced import ReplacedFile

GOLDEN = Path(__file__).parent / "golden"
TABLES = {
    model.table: model
    for module in (models, world_records)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, Model) and model.table
}
TEXT = st.text(st.characters(), max_size=20)
"""Any text, also with bytes of file names that are no Unicode text."""
TIME = st.floats(0, 4e9)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3) | st.tuples(inner),
    max_leaves=8,
)
CHANGES = st.dictionaries(TEXT, VALUES | st.fixed_dictionaries({"old": VALUES, "new": VALUES}), max_size=4)
AUTHORS = st.builds(
    Author,
    pid=st.integers(0, 1 << 22),
    name=TEXT,
    command=TEXT,
    uid=st.none() | st.integers(0, (1 << 32) - 1),
    user=TEXT,
    login=TEXT,
    unit=TEXT,
)
REPLACED = st.builds(
    ReplacedFile,
    path=TEXT,
    sha256=TEXT,
    size=st.integers(0, 1 << 40),
    mode=st.integers(0, 0o7777),
    link=TEXT,
    lost=TEXT,
)
OUTCOMES = st.builds(
    Outcome,
    identity=st.builds("{}[{}]".format, TEXT, TEXT),
    position=st.just(0),
    result=st.sampled_from([True, False, None]),
    changes=CHANGES,
    comment=TEXT,
    diff=TEXT,
    effect=st.none() | st.builds(Effect, st.tuples(st.sampled_from(get_args(EffectVerb))), TEXT),
    duration=st.floats(0, 1e6),
    ran=st.booleans(),
    reason=st.sampled_from(get_args(Reason)),
    cause=st.sampled_from(get_args(Cause)),
    refreshed=st.booleans(),
    undone=TEXT,
    by=st.none() | AUTHORS,
    ended=TEXT,
    undecided=st.booleans(),
    public=st.booleans(),
    replaced=st.lists(REPLACED, max_size=2).map(tuple),
    before=CHANGES,
)


def read_whole(put: Put) -> Model:
    """Return the record of a row, which must have all required fields and no unknown ones."""
    record = TABLES[put.table].decode(put.data)
    record.demand_whole()
    assert not _strange(record)
    assert record.id == put.id
    return record


def _strange(value: Any) -> Sequence[str]:
    """Return the unknown fields of a record and of what it embeds."""
    if isinstance(value, (list, tuple)):
        return [name for each in value for name in _strange(each)]
    if not hasattr(type(value), "model_fields"):
        return []
    inner = [name for field in type(value).model_fields for name in _strange(getattr(value, field))]
    return [*(value.__pydantic_extra__ or {}), *inner]


@settings(max_examples=50)
@given(OUTCOMES, st.none() | OUTCOMES, TIME, st.booleans())
def test_the_row_of_every_outcome_can_be_read(
    outcome: Outcome, before: Outcome | None, at: float, in_pass: bool
) -> None:
    """Takes over a second: draws large outcomes. The words for what happened and why are those of the model."""
    first, by = at / 2, {"pid": 1, "uid": 0, "name": "x", "login": "y", "way": "socket"} if in_pass else None
    ids = TimeIds(agent=True)
    last = before and ChangeEntry(ids.new(first), before, "failed", first, first, 1, "", "states")
    what = rows.what_happened(outcome, last)
    origin = rows.origin(outcome.cause, last)
    run = ids.new(first) if in_pass else ""
    entry = ChangeEntry(ids.new(at), outcome, what, at, first, 3, run, origin, by)
    change, finder = rows.change("web1", entry)

    found = read_whole(change)
    assert isinstance(found, Change)
    assert read_whole(finder).id == f"{found.resource} {found.id}"
    assert found.by is None or found.by.way in ("host", "socket")
    assert read_whole(rows.status("web1", outcome.identity, rows.Wrong.of(outcome, at))).id == found.resource


@settings(max_examples=20)
@given(st.lists(OUTCOMES, max_size=3), TIME, st.floats(0, 1e6), st.booleans(), st.sampled_from(get_args(Cause)))
def test_the_row_of_every_pass_can_be_read(
    outcomes: list[Outcome], at: float, duration: float, converged: bool, cause: Cause
) -> None:
    """Its counts are those of its outcomes."""
    record = PassRecord(3, cause, at, duration, converged=converged, broken_off=not converged, counted=Tally(outcomes))
    found = read_whole(rows.passed("web1", TimeIds(agent=True).new(at), record, {"pid": 1, "way": "apply"}))

    assert isinstance(found, models.Pass)
    assert found.counts.get("changed", 0) == len(record.tally.changed)


def test_each_cause_has_an_origin_or_that_of_the_failure_before() -> None:
    """All origins are those of the model."""
    assert set(ORIGINS.values()) == set(get_args(models.Origin))
    assert set(get_args(Cause)) - set(ORIGINS) == {"retry", "recovery"}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_a_record_of_each_schema_version_can_be_read(path: Path) -> None:
    """A file that a release has written is never changed: a new version of a schema needs an upgrade."""
    table, _, version = path.stem.partition(".")
    model, data = TABLES[table], path.read_bytes()
    assert json.loads(data)[VERSION] == int(version)
    record = model.decode(data)
    record.demand_whole()

    assert not _strange(record)
    if int(version) == model.schema_version:
        assert json.loads(record.encode()) == json.loads(data)


def test_each_table_has_such_a_record_with_all_of_its_fields() -> None:
    """Of its present schema version. A field that is added needs a default, and is added to the file."""
    for table, model in TABLES.items():
        values = json.loads((GOLDEN / f"{table}.{model.schema_version}.json").read_text())
        assert values.keys() - {VERSION} == model.model_fields.keys(), table


def test_the_tables_of_the_agent_are_registered() -> None:
    """The registry knows each of them by its name."""
    assert {table: registry.find(table) for table in TABLES} == TABLES


def test_an_actor_has_the_fields_of_an_author_and_the_way() -> None:
    """Kinds know nothing of the store, so the class that they use is another one; a new field is added to both."""
    assert [*Actor.model_fields] == [*Author._fields, "way"]
