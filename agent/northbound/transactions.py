"""Transactions: several writes, computed from a view, with the conditions under which the result is still right.

Hooks run here. If a condition no longer holds, the transaction is computed again from a newer view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from holdfast.agent.northbound.delivery import targets
from holdfast.agent.northbound.drivers.base import DbTransaction, Delete, Expect, Put, Unchanged
from holdfast.agent.northbound.errors import AlreadyExists, Conflict, Invalid, NotFound, Referenced, RefMissing
from holdfast.agent.northbound.mixins import Counter, UniqueKey
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.ref import OnDelete, Ref
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.store.base import Stored, StoreView

T = TypeVar("T", bound=Model)
Record = tuple[type[Model], str]

NAMED = 3
"""Most records that an error names."""
ABSENT = Stored(None, 0, 0)


class WriteStep(NamedTuple):
    """One requested write."""

    model: type[Model]
    id: str
    compute: Callable[[Model | None], Model | None]
    """Returns the record from its present state; None deletes it."""
    expected: int | None = None
    """Revision that the record must have; None: any."""


@dataclass
class Computed:
    """A computed transaction."""

    transaction: DbTransaction
    records: dict[Record, Model | None] = field(default_factory=dict)
    """The written records; None: deleted."""
    changed: frozenset[str] = frozenset()
    """Names of the fields that the last step changed."""
    last: Model | None = None
    """The record of the last step, after the transaction."""
    error: Exception | None = None
    """The error of a step. Nothing is written then; the error is right if the conditions hold."""


class Writing:
    """A transaction that is being put together.

    Nothing happens before the end of the block: `async with api.transaction() as writing: writing.create(...)`.
    """

    def __init__(self, *, lease: int = 0, require: int = 0) -> None:
        self._lease, self._require = lease, require
        self._steps: list[WriteStep] = []
        self._expected: list[tuple[Record, int]] = []
        self._counters: set[Record] = set()
        """Records with the last allocated numbers of the tables in which a record gets one."""

    def create(self, record: Model) -> None:
        """Create a record; the commit raises `AlreadyExists` if there is one with its ID."""
        _demand_table(record)

        def compute(present: Model | None) -> Model:
            if present is not None:
                raise AlreadyExists(f"cannot create {name_of(record)}: it exists")
            return record.on_create_pre()

        self._steps.append(WriteStep(type(record), record.id, compute))
        self._count(record)

    def update(self, change: Model, *, expected: int | None = None) -> None:
        """Change the fields that are set in `change`; the commit raises `NotFound` or `Conflict`.

        Nothing is written if the record has these values already.
        """
        _demand_table(change)

        def compute(present: Model | None) -> Model:
            if present is None:
                raise NotFound(f"cannot update {name_of(change)}: it does not exist")
            return updated(present, present.merged(change))

        self._steps.append(WriteStep(type(change), change.id, compute, expected))

    def put(self, record: Model) -> None:
        """Create a record, or change the fields that are set in `record` if there is one with its ID."""
        _demand_table(record)

        def compute(present: Model | None) -> Model:
            return record.on_create_pre() if present is None else updated(present, present.merged(record))

        self._steps.append(WriteStep(type(record), record.id, compute))
        self._count(record)

    def delete(self, record: Model, *, expected: int | None = None) -> None:
        """Delete the record with this ID; the commit raises `NotFound`, `Conflict` or `Referenced`."""
        _demand_table(record)

        def compute(present: Model | None) -> None:
            if present is None:
                raise NotFound(f"cannot delete {name_of(record)}: it does not exist")
            present.on_delete_pre()

        self._steps.append(WriteStep(type(record), record.id, compute, expected))

    def mutate(self, model: type[T], id: str, change: Callable[[T], T]) -> None:
        """Replace a record by what `change` returns for it. `change` may run several times, so it must be pure."""

        def compute(present: Any) -> Model:
            if present is None:
                raise NotFound(f"cannot change {model.table} {id!r}: it does not exist")
            return updated(present, change(present))

        self._steps.append(WriteStep(model, id, compute))

    def expect(self, model: type[Model], id: str, revision: int) -> None:
        """Write only if a record, which need not be written, has this revision; 0: does not exist; -1: exists."""
        self._expected.append(((model, id), revision))

    def asserted(self, condition: Expect | Unchanged) -> bool:
        """Return whether the caller stated this condition."""
        return any(condition == Expect(model.table, key, revision) for (model, key), revision in self._expected)

    @property
    def records(self) -> Iterator[Record]:
        """The records that the steps read first."""
        yield from ((step.model, step.id) for step in self._steps)
        yield from self._counters

    def _count(self, record: Model) -> None:
        """Note that a record may get a number."""
        if isinstance(record, UniqueKey):
            self._counters.add((Counter, record.table))

    def compute(
        self,
        view: StoreView,
        fetched: Mapping[Record, Stored | None] = MappingProxyType({}),
        complete: Callable[[type[Model]], bool] = lambda _: True,
    ) -> Computed:
        """Return the writes and their conditions, or the error of a step, of a hook or of a reference.

        `fetched`: records of the database that the view does not hold. `complete`: whether it holds all of a model.
        """
        state = _State(view, fetched, complete)
        changed: frozenset[str] = frozenset()
        try:
            for step in self._steps:
                changed = state.make(step)
        except Exception as error:  # noqa: BLE001 - hooks may raise anything
            return Computed(DbTransaction((), [*state.conditions()], self._require), error=error)
        conditions = [Expect(model.table, key, revision) for (model, key), revision in self._expected]
        writes = [_write(record, value, self._lease) for record, value in state.written.items()]
        return Computed(
            DbTransaction(writes, [*state.conditions(), *conditions], self._require),
            state.written,
            changed,
            state.present((step.model, step.id)) if self._steps else None,
        )


class _State:
    """A view with the writes of a transaction so far."""

    def __init__(
        self, view: StoreView, fetched: Mapping[Record, Stored | None], complete: Callable[[type[Model]], bool]
    ) -> None:
        self._view, self._fetched, self._complete = view, fetched, complete
        self.written: dict[Record, Model | None] = {}
        self._read: dict[Record, int] = {}
        """Records that were read -> their revisions."""
        self._needed: set[Record] = set()
        """Records that must exist because a written record refers to them."""
        self._unchanged: set[type[Model]] = set()
        """Models whose tables must not have changed, because others of their records would have to be deleted, too."""

    def make(self, step: WriteStep) -> frozenset[str]:
        """Make a step; returns the names of the changed fields."""
        record = (step.model, step.id)
        stored = self._stored(record)
        if step.expected is not None and stored.revision != step.expected:
            current = stored.revision
            raise Conflict(f"{step.model.table} {step.id!r} has revision {current}, not {step.expected}", current)
        before = self.present(record)
        after = step.compute(before)
        if after is None:
            self._delete(record)
            return frozenset()
        if before is None and isinstance(after, UniqueKey):
            after = self._numbered(after)
        changed = frozenset(step.model.model_fields) if before is None else after.changed_from(before)
        if changed:
            self.written[record] = after
            self._demand_targets(record, before, after)
        return changed

    def conditions(self) -> Iterator[Expect | Unchanged]:
        """Yield the conditions under which the writes are right."""
        for (model, key), revision in self._read.items():
            yield Expect(model.table, key, revision)
        for model, key in self._needed:
            if (model, key) not in self.written and (model, key) not in self._read:
                yield Expect(model.table, key, -1)
        for model in self._unchanged:
            yield Unchanged(model.table, self._view.revision)

    def _numbered(self, record: UniqueKey) -> Model:
        """Return a new record with the next number of its table."""
        if "unique_key" in record.given():
            raise Invalid(f"cannot create {name_of(record)}: its unique_key is allocated, it cannot be chosen")
        counter = (Counter, record.table)
        self._stored(counter)
        last = self.present(counter)
        number = last.last + 1 if isinstance(last, Counter) else 1
        self.written[counter] = Counter(id=record.table, last=number)
        return record.replace(unique_key=number)

    def _stored(self, record: Record) -> Stored:
        stored = self._found(record) or ABSENT
        self._read[record] = stored.revision
        return stored

    def present(self, record: Record) -> Model | None:
        """Return a record as it is after the writes so far."""
        if record in self.written:
            return self.written[record]
        found = self._found(record)
        return found.record if found else None

    def _found(self, record: Record) -> Stored | None:
        return self._fetched[record] if record in self._fetched else self._view.own(*record)

    def _demand_targets(self, record: Record, before: Model | None, after: Model) -> None:
        """Raise `RefMissing` if a new reference leads nowhere."""
        known = targets(before) if before else {}
        for model, keys in targets(after).items():
            for key in sorted(keys - known.get(model, set())):
                if self.present((model, key)) is None:
                    self._stored((model, key))
                    table = record[0].table
                    what = f"it refers to {model.table} {key!r}, which does not exist"
                    raise RefMissing(f"cannot write {table} {record[1]!r}: {what}", model.table, key)
                self._needed.add((model, key))

    def _delete(self, record: Record) -> None:
        """Delete a record and those that are deleted with it. Raises `Referenced`."""
        self.written[record] = None
        for (model, key), policy in self._referrers(record):
            if policy is OnDelete.CASCADE and self.present((model, key)) is not None:
                self._stored((model, key))
                present = self.present((model, key))
                if present is not None:
                    present.on_delete_pre()
                self._delete((model, key))
        kept = [each for each, policy in self._referrers(record) if policy is OnDelete.RESTRICT]
        if kept := [each for each in kept if self.present(each) is not None]:
            self._stored(kept[0])
            names = ", ".join(f"{model.table} {key!r}" for model, key in kept[:NAMED])
            more = f" and {len(kept) - NAMED} more" if len(kept) > NAMED else ""
            raise Referenced(f"cannot delete {record[0].table} {record[1]!r}: {names}{more} refer to it")

    def _referrers(self, record: Record) -> Iterator[tuple[Record, OnDelete]]:
        """Yield the records that refer to one, in the view and in the writes so far."""
        target, target_id = record
        for model in registry.tables().values():
            for use, index in model.reference_indexes():
                if use.on_delete is OnDelete.DANGLE or registry.find(use.target) is not target:
                    continue
                if not self._complete(model):
                    what = f"the cache does not hold all {model.table}, and some of them may refer to it"
                    raise Invalid(f"cannot delete {target.table} {target_id!r}: {what}")
                self._unchanged.add(model)
                found = [*self._view.keys(model, index.name, **{index.parts[0]: target_id})]
                found += [key for (each, key), value in self.written.items() if each is model and value]
                for key in dict.fromkeys(found):
                    present = self.present((model, key))
                    if present is not None and (target_id,) in index.keys(present):
                        yield (model, key), use.on_delete


def updated(present: Model, wanted: Model) -> Model:
    """Return what replaces a record; the record itself if nothing changes. Runs the hook, and refuses another ID."""
    if type(wanted) is not type(present) or wanted.id != present.id:
        raise Invalid(f"cannot change {name_of(present)} into {name_of(wanted)}")
    if not wanted.changed_from(present):
        return present
    return wanted.on_update_pre(present)


def name_of(record: Model) -> str:
    """Return the table and the ID of a record, for messages."""
    return f"{record.table} {record.id!r}"


def ref_model(ref: Ref[T]) -> type[T]:
    """Return the class of a reference's target."""
    return registry.find(type(ref).model)


def _demand_table(record: Model) -> None:
    if not record.table:
        raise Invalid(f"{type(record).__name__} has no table; it can only be embedded")
    if not isinstance(record.id, str) or not record.id:
        raise Invalid(f"a record of {record.table} needs an ID")


def _write(record: Record, value: Model | None, lease: int) -> Put | Delete:
    model, key = record
    return Delete(model.table, key) if value is None else Put(model.table, key, value.encode(), lease)
