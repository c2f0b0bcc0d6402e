"""The store of the agent: dictionaries that change in place, and views that remember what they would lose.

The present view reads the dictionaries. Before a batch changes a record, each older view that somebody still holds
notes what the record was. So a read costs one or two lookups, a write does not depend on the number of records, and an
old view costs only what differs from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakSet

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.indexing import Key
from holdfast.agent.northbound.model import Model, Struct
from holdfast.agent.northbound.ref import within
from holdfast.agent.northbound.store.base import DbStore, StoreChange, Stored, View
from holdfast.agent.northbound.values import ANY

T = TypeVar("T", bound=Model)
Record = tuple[type[Model], str]
Level = dict[Any, Any]
"""Value of one part of an index -> the level of the next part or, for the last part, the IDs."""


class _Table:
    """The records of one model, with their indexes."""

    def __init__(self, model: type[Model]) -> None:
        self.records: dict[str, Stored] = {}
        """What is to be seen."""
        self.own = self.records
        """Records that stand by themselves; another dictionary than `records` once others contain such records."""
        self.containers: dict[str, dict[Record, Stored]] = {}
        """ID -> the records that contain one with this ID, and what they contain."""
        self.indexes = [(index, Level()) for index in model.all_indexes().values()]
        self.levels = {index.name: level for index, level in self.indexes}
        self.contains = any(_contains(field.annotation) for field in model.model_fields.values())


class IndexedView(View):
    """All records at one revision."""

    def __init__(self, revision: int, tables: Mapping[type[Model], _Table]) -> None:
        self.revision, self._tables = revision, tables
        self.lost: dict[type[Model], dict[str, Stored | None]] = {}
        """What records were before they were changed after this view; None: absent."""

    def stored(self, model: type[T], id: str) -> Stored | None:
        """Return a record with its revisions."""
        if self.lost and (lost := self.lost.get(model)) and id in lost:
            return lost[id]
        table = self._tables.get(model)
        return table.records.get(id) if table else None

    def keys(self, model: type[Model], index: str = "", **values: Any) -> Sequence[str]:
        """Return the IDs, in order."""
        table = self._tables.get(model)
        query: Sequence[Any] = ()
        if index:
            query = model.index(index).query(values)
        elif values:
            raise Invalid(f"cannot look for {', '.join(values)} in {model.__name__} without an index")
        present: Iterable[str] = ()
        if table:
            present = set(_found(table.levels[index], query)) if index else table.records
        if lost := self.lost.get(model):
            before = (key for key, stored in lost.items() if stored and self._matches(stored, model, index, query))
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

    @staticmethod
    def _matches(stored: Stored, model: type[Model], index: str, query: Sequence[Any]) -> bool:
        return not index or any(
            all(part is ANY or value in part for value, part in zip(row, query, strict=True))
            for row in model.index(index).keys(stored.record)
        )


class IndexedStore(DbStore):
    """The records, and the views that are in use."""

    def __init__(self) -> None:
        self._tables: dict[type[Model], _Table] = {}
        self._views: WeakSet[IndexedView] = WeakSet()
        """Views that somebody may hold, without the present one."""
        self._view = IndexedView(0, self._tables)

    @property
    def view(self) -> IndexedView:  # type: ignore[override]
        """The present view."""
        return self._view

    def apply(self, revision: int, changes: Sequence[StoreChange]) -> View:
        """Compute everything that may fail, then change the dictionaries."""
        plan = _Plan(self._tables)
        for change in changes:
            plan.add(change)
        steps = [step for record in plan.touched for step in plan.steps(record)]
        before, self._view = self._view, IndexedView(revision, self._tables)
        self._views.add(before)
        del before  # unless others hold it, it has nothing to remember
        views = list(self._views)
        plan.place()
        for table, model, key, old, new, added, removed in steps:
            for each in views:
                each.lost.setdefault(model, {}).setdefault(key, old)
            if new is None:
                table.records.pop(key, None)
            else:
                table.records[key] = new
            for level, keys in removed:
                _remove(level, keys, key)
            for level, keys in added:
                _add(level, keys, key)
        return self._view


class _Plan:
    """The changes of one batch, before anything is changed."""

    def __init__(self, tables: dict[type[Model], _Table]) -> None:
        self._tables = tables
        self.touched: dict[Record, None] = {}
        """Records that may be seen differently afterwards."""
        self._own: dict[Record, Stored | None] = {}
        self._inner: dict[Record, dict[Record, Stored]] = {}
        """Container -> what it contains afterwards."""

    def add(self, change: StoreChange) -> None:
        """Take in the write of one record, unless a newer one is there."""
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
        """Change what stands by itself and what is contained. Cannot fail."""
        for (model, key), stored in self._own.items():
            own = self._table(model).own
            old = own.pop(key, None)
            for inner_model, inner_key in contents(old) if self._table(model).contains else ():
                holders = self._table(inner_model).containers
                holders.get(inner_key, {}).pop((model, key), None)
                if not holders.get(inner_key):
                    holders.pop(inner_key, None)
            if stored:
                own[key] = stored
        for container, inner in self._inner.items():
            for (model, key), content in inner.items():
                table = self._table(model)
                if table.own is table.records:
                    table.own = dict(table.records)
                table.containers.setdefault(key, {})[container] = content

    def steps(self, record: Record) -> Iterator[Any]:
        """Yield the change of a record as it is seen, with the keys of its indexes that come and go."""
        model, key = record
        table = self._table(model)
        old, new = table.records.get(key), self._after(record)
        if old is new:
            return
        added: list[tuple[Level, frozenset[Key]]] = []
        removed: list[tuple[Level, frozenset[Key]]] = []
        for index, level in table.indexes:
            before = index.keys(old.record) if old else frozenset()
            after = index.keys(new.record) if new else frozenset()
            if before != after:
                removed.append((level, before - after))
                added.append((level, after - before))
        yield table, model, key, old, new, added, removed

    def _after(self, record: Record) -> Stored | None:
        """Return what is to be seen of a record afterwards."""
        model, key = record
        table = self._table(model)
        own = self._own[record] if record in self._own else table.own.get(key)
        held = {each: stored for each, stored in table.containers.get(key, {}).items() if each not in self._own}
        held |= {each: inner[record] for each, inner in self._inner.items() if record in inner}
        return newest(own, held)

    def _table(self, model: type[Model]) -> _Table:
        table = self._tables.get(model)
        if table is None:
            table = self._tables[model] = _Table(model)
        return table


def contents(stored: Stored | None) -> dict[Record, Stored]:
    """Return the records with a table that a record contains, with its revisions."""
    if stored is None:
        return {}
    return {(type(each), each.id): Stored(each, *stored[1:]) for each in inside(stored.record)}


def newest(own: Stored | None, held: Mapping[Record, Stored]) -> Stored | None:
    """Return what was written last of a record: by itself (`own`), or in a container (`held`).

    Of what was written together, the record itself counts, then the container with the last table and ID.
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


def _found(level: Level, query: Sequence[Any]) -> Iterator[str]:
    """Yield the IDs below a level that match the parts of a query."""
    part, *rest = query
    followers = level.values() if part is ANY else (level[value] for value in part if value in level)
    for each in followers:
        if rest:
            yield from _found(each, rest)
        elif isinstance(each, str):
            yield each
        else:
            yield from each


def _add(level: Level, keys: Iterable[Key], id: str) -> None:
    """Add an ID to the leaves of keys; a leaf with one ID is the ID itself, which saves memory."""
    for *path, last in keys:
        here = level
        for value in path:
            here = here.setdefault(value, {})
        leaf = here.get(last)
        if leaf is None:
            here[last] = id
        elif isinstance(leaf, str):
            if leaf != id:
                here[last] = {leaf, id}
        else:
            leaf.add(id)


def _remove(level: Level, keys: Iterable[Key], id: str) -> None:
    """Remove an ID from the leaves of keys, and what is empty then."""
    for key in keys:
        places = [level]
        for value in key[:-1]:
            places.append(places[-1][value])
        leaf = places[-1][key[-1]]
        if isinstance(leaf, str):
            del places[-1][key[-1]]
        else:
            leaf.discard(id)
            if len(leaf) == 1:
                places[-1][key[-1]] = leaf.pop()
        for number in range(len(places) - 1, 0, -1):
            if not places[number]:
                del places[number - 1][key[number - 1]]
