"""The store of the agent: dictionaries that change in place, and views that keep what a later batch changes.

The present view reads the dictionaries. Before a batch changes a record, each older view that is still in use keeps the
old record. So a read costs one or two lookups, the cost of a write does not depend on the number of records, and an old
view costs only the records that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.indexing import Key, Query
from holdfast.agent.northbound.model import Model, Struct
from holdfast.agent.northbound.ref import within
from holdfast.agent.northbound.store.base import DbStore, StoreChange, Stored, StoreView
from holdfast.agent.northbound.values import ANY

T = TypeVar("T", bound=Model)
Record = tuple[type[Model], str]
NO_KEYS: Collection[Key] = ()
Level = dict[Any, Any]
"""Value of one part of an index -> the level of the next part or, for the last part, the IDs."""


class _Table:
    """The records of one model, with their indexes."""

    def __init__(self, model: type[Model]) -> None:
        self.records: dict[str, Stored] = {}
        """The visible records."""
        self.own = self.records
        """Records of their own, not embedded ones; a separate dictionary once other records contain records of this
        table."""
        self.containers: dict[str, dict[Record, Stored]] = {}
        """ID -> the containers of a record with this ID, and the embedded record in each."""
        self.indexes = [(index, Level()) for index in model.all_indexes().values()]
        self.levels = {index.name: level for index, level in self.indexes}
        self.contains = any(_contains(field.annotation) for field in model.model_fields.values())

    def part(self) -> None:
        """Separate the records of their own from the visible ones, when another record first contains one."""
        if self.own is self.records:
            self.own = dict(self.records)


class _Step(NamedTuple):
    """A record as it is visible before and after a batch."""

    table: _Table
    model: type[Model]
    id: str
    old: Stored | None
    new: Stored | None
    moves: list[tuple[Level, Collection[Key], Collection[Key]]]
    """The keys that the record loses and gains, for each index in which they differ."""


class IndexedView(StoreView):
    """All records at one revision."""

    def __init__(self, revision: int, tables: Mapping[type[Model], _Table]) -> None:
        self.revision, self._tables = revision, tables
        self.lost: dict[type[Model], dict[str, Stored | None]] = {}
        """Records as they were before a later batch changed them; None: absent."""

    def stored(self, model: type[T], id: str) -> Stored | None:
        """Return a record with its revisions."""
        if self.lost and (lost := self.lost.get(model)) and id in lost:
            return lost[id]
        table = self._tables.get(model)
        return table.records.get(id) if table else None

    def own(self, model: type[T], id: str) -> Stored | None:
        """Return a record of its own, not an embedded one."""
        table = self._tables.get(model)
        return table.own.get(id) if table else None

    def own_keys(self, model: type[Model]) -> Iterable[str]:
        """Return the IDs of these."""
        table = self._tables.get(model)
        return table.own if table else ()

    def touched(self, model: type[Model], later: StoreView) -> Iterable[str]:
        """Return the records that were changed after this view, if the other view is of the same store."""
        if isinstance(later, IndexedView) and later._tables is self._tables:  # noqa: SLF001 - of the same class
            return self.lost.get(model, ())
        return super().touched(model, later)

    def keys(self, model: type[Model], index: str = "", **values: Any) -> Sequence[str]:
        """Return the IDs, in order."""
        table = self._tables.get(model)
        query: Query = ()
        if index:
            query = model.index(index).query(values)
        elif values:
            raise Invalid(f"cannot look for {', '.join(values)} in {model.__name__} without an index")
        present: Collection[str] = ()
        if table:
            present = _found(table.levels[index], query) if index else table.records
        if lost := self.lost.get(model):
            before = (
                key
                for key, stored in lost.items()
                if stored and (not index or model.index(index).matches(stored.record, query))
            )
            present = [*(key for key in present if key not in lost), *before]
        return sorted(present)

    def get_all(self, model: type[T], index: str = "", **values: Any) -> Sequence[T]:
        """Return the records, ordered by ID."""
        return [self.stored(model, key).record for key in self.keys(model, index, **values)]  # type: ignore[union-attr]

    def get_one(self, model: type[T], index: str = "", **values: Any) -> T | None:
        """Return the only one."""
        found = self.keys(model, index, **values)
        if len(found) > 1:
            raise Invalid(f"{len(found)} records of {model.__name__} match, not one")
        return self.get(model, found[0]) if found else None

    def count(self, model: type[Model]) -> int:
        """Return the number of records."""
        if self.lost.get(model):
            return len(self.keys(model))
        table = self._tables.get(model)
        return len(table.records) if table else 0


class IndexedStore(DbStore):
    """The records, and the views that are in use."""

    def __init__(self) -> None:
        self._tables: dict[type[Model], _Table] = {}
        self._views: WeakSet[IndexedView] = WeakSet()
        """Views that may be in use, without the present one."""
        self._view = IndexedView(0, self._tables)

    @property
    def view(self) -> IndexedView:  # type: ignore[override]
        """The present view."""
        return self._view

    def apply(self, revision: int, changes: Sequence[StoreChange]) -> StoreView:
        """Compute everything that may fail, then change the dictionaries."""
        plan = _Plan(self._tables)
        for change in changes:
            plan.add(change)
        steps = [step for record in plan.touched if (step := plan.step(record))]
        before, self._view = self._view, IndexedView(revision, self._tables)
        self._views.add(before)
        del before  # if nothing else uses the view, it need not keep records
        views = list(self._views)
        plan.place()
        for table, model, key, old, new, moves in steps:
            for each in views:
                each.lost.setdefault(model, {}).setdefault(key, old)
            if new is None:
                del table.records[key]
            else:
                table.records[key] = new
            for level, gone, come in moves:
                _remove(level, gone, key)
                _add(level, come, key)
        return self._view


class _Plan:
    """The changes of one batch, before anything is changed."""

    def __init__(self, tables: dict[type[Model], _Table]) -> None:
        self._tables = tables
        self.touched: dict[Record, None] = {}
        """Records that may look different afterwards."""
        self._own: dict[Record, Stored | None] = {}
        self._inner: dict[Record, dict[Record, Stored]] = {}
        """Container -> its embedded records afterwards."""

    def add(self, change: StoreChange) -> None:
        """Add the write of one record, unless the store has a newer one."""
        model, key, stored = change
        record = (model, key)
        table = self._table(model)
        known = self._own.get(record, table.own.get(key))
        if stored is not None and known is not None and known.revision > stored.revision:
            return
        self._own[record] = stored
        self.touched[record] = None
        if table.contains:
            before = self._inner.get(record, {})
            inner = contents(stored)
            for each in (*before, *inner, *contents(table.own.get(key))):
                self.touched[each] = None
            self._inner[record] = inner

    def place(self) -> None:
        """Change the records of their own and the containers. Cannot fail."""
        for inner_model in {model for inner in self._inner.values() for model, _ in inner}:
            self._table(inner_model).part()
        for (model, key), stored in self._own.items():
            table = self._table(model)
            for inner_model, inner_key in contents(table.own.get(key)) if table.contains else ():
                holders = self._table(inner_model).containers
                holders[inner_key].pop((model, key))
                if not holders[inner_key]:
                    del holders[inner_key]
            if table.own is table.records:
                continue  # its step does the rest
            if stored:
                table.own[key] = stored
            else:
                table.own.pop(key, None)
        for container, inner in self._inner.items():
            for (model, key), content in inner.items():
                self._table(model).containers.setdefault(key, {})[container] = content

    def step(self, record: Record) -> _Step | None:
        """Return the visible change of a record; None if there is none."""
        model, key = record
        table = self._table(model)
        old, new = table.records.get(key), self._after(table, record)
        if old is new:
            return None
        moves = []
        for index, level in table.indexes:
            gone = index.keys(old.record) if old else NO_KEYS
            come = index.keys(new.record) if new else NO_KEYS
            if gone != come:
                moves.append((level, _without(gone, come), _without(come, gone)))
        return _Step(table, model, key, old, new, moves)

    def _after(self, table: _Table, record: Record) -> Stored | None:
        """Return the visible form of a record afterwards."""
        own = self._own[record] if record in self._own else table.own.get(record[1])
        if not self._inner and not table.containers:
            return own
        held = {each: stored for each, stored in table.containers.get(record[1], {}).items() if each not in self._own}
        held |= {each: inner[record] for each, inner in self._inner.items() if record in inner}
        return newest(own, held)

    def _table(self, model: type[Model]) -> _Table:
        table = self._tables.get(model)
        if table is None:
            table = self._tables[model] = _Table(model)
        return table


def _without(keys: Collection[Key], others: Collection[Key]) -> Collection[Key]:
    """Return the keys that are not among the others."""
    return [key for key in keys if key not in others] if len(keys) > 1 or len(others) > 1 else keys


def contents(stored: Stored | None) -> dict[Record, Stored]:
    """Return the records with a table that a record contains, with its revisions."""
    if stored is None:
        return {}
    return {(type(each), each.id): Stored(each, *stored[1:]) for each in inside(stored.record)}


def newest(own: Stored | None, held: Mapping[Record, Stored]) -> Stored | None:
    """Return the last written form of a record: its own (`own`), or one in a container (`held`).

    Of forms written together, its own counts, else that in the container with the last table and ID.
    """
    last = max(held, key=lambda each: (held[each].revision, each[0].table, each[1]), default=None)
    if last is None or (own and own.revision >= held[last].revision):
        return own
    return held[last]


def inside(value: Any) -> Iterator[Model]:
    """Yield the records with a table that a record contains."""
    if isinstance(value, Struct):
        inner: Any = [getattr(value, name) for name in type(value).model_fields]
    else:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set)) else ()
    for each in inner:
        if isinstance(each, Model) and each.table:
            yield each
        yield from inside(each)


def _contains(annotation: Any) -> bool:
    """Return whether a value of this type can contain a record with a table."""
    return any(
        (issubclass(inner, Model) and inner.table)
        or any(_contains(field.annotation) for field in inner.model_fields.values())
        for inner, _, _ in within(Struct, annotation)
    )


def _found(level: Level, query: Query) -> Collection[str]:
    """Return the IDs below a level that match the parts of a query, each once."""
    places: list[Any] = [level]
    for part in query:
        if part is ANY:
            places = [below for place in places for below in place.values()]
        else:
            places = [place[value] for place in places for value in part if value in place]
    if len(places) == 1:
        return (places[0],) if isinstance(places[0], str) else places[0]
    return {key for leaf in places for key in ((leaf,) if isinstance(leaf, str) else leaf)}


def _add(level: Level, keys: Iterable[Key], id: str) -> None:
    """Add an ID to the leaves of keys; a leaf with one ID is the ID itself, which saves memory."""
    for key in keys:
        here = level
        for value in key[:-1]:
            here = here.setdefault(value, {})
        last = key[-1]
        leaf = here.get(last)
        if leaf is None:
            here[last] = id
        elif type(leaf) is set:
            leaf.add(id)
        else:
            here[last] = {leaf, id}


def _remove(level: Level, keys: Iterable[Key], id: str) -> None:
    """Remove an ID from the leaves of keys, and the levels that are empty then."""
    for key in keys:
        if len(key) > 1:
            below = level[key[0]]
            _remove(below, (key[1:],), id)
            if not below:
                del level[key[0]]
            continue
        leaf = level[key[0]]
        if type(leaf) is not set:
            del level[key[0]]
        elif len(leaf) == 2:
            leaf.discard(id)
            level[key[0]] = leaf.pop()
        else:
            leaf.discard(id)
