"""The simplest correct store, for tests: every view is a copy, and every query examines every record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.store.base import DbStore, StoreChange, Stored, StoreView
from holdfast.agent.northbound.store.indexed import contents, inside, newest

T = TypeVar("T", bound=Model)
Table = dict[str, Stored]


class CopyingView(StoreView):
    """One copy of everything."""

    def __init__(self, revision: int, tables: dict[type[Model], Table]) -> None:
        self.revision, self.tables = revision, tables

    def stored(self, model: type[T], id: str) -> Stored | None:
        """Return a record; an embedded one comes from the container that was written last."""
        held = {
            (outer, key): contents(stored)[model, id]
            for outer, table in self.tables.items()
            for key, stored in table.items()
            if (model, id) in contents(stored)
        }
        return newest(self.tables.get(model, {}).get(id), held)

    def own(self, model: type[T], id: str) -> Stored | None:
        """Return a record of its own, not an embedded one."""
        return self.tables.get(model, {}).get(id)

    def own_keys(self, model: type[Model]) -> Iterable[str]:
        """Return the IDs of these."""
        return self.tables.get(model, {}).keys()

    def keys(self, model: type[Model], index: str = "", **values: Any) -> Sequence[str]:
        """Return the IDs, in order."""
        known = set(self.tables.get(model, {})) | {
            each.id
            for table in self.tables.values()
            for outer in table.values()
            for each in inside(outer.record)
            if type(each) is model
        }
        if not index:
            if values:
                raise Invalid(f"cannot look for {', '.join(values)} in {model.__name__} without an index")
            return sorted(known)
        query = model.index(index).query(values)
        return [key for key in sorted(known) if model.index(index).matches(self.get(model, key), query)]

    def get_all(self, model: type[T], index: str = "", **values: Any) -> Sequence[T]:
        """Return the records, ordered by ID."""
        found = [self.get(model, key) for key in self.keys(model, index, **values)]
        return [each for each in found if each is not None]

    def get_one(self, model: type[T], index: str = "", **values: Any) -> T | None:
        """Return the only one."""
        found = self.get_all(model, index, **values)
        if len(found) > 1:
            raise Invalid(f"{len(found)} records of {model.__name__} match, not one")
        return found[0] if found else None

    def count(self, model: type[Model]) -> int:
        """Return the number of records."""
        return len(self.keys(model))


class CopyingStore(DbStore):
    """A store of `CopyingView`s."""

    view: CopyingView

    def __init__(self) -> None:
        self.view = CopyingView(0, {})

    def apply(self, revision: int, changes: Sequence[StoreChange]) -> StoreView:
        """Copy, change, and compute all keys once so that a wrong record changes nothing."""
        tables = {model: dict(table) for model, table in self.view.tables.items()}
        for model, key, stored in changes:
            table = tables.setdefault(model, {})
            if stored is None:
                table.pop(key, None)
                continue
            if key in table and table[key].revision > stored.revision:
                continue
            for record in (stored.record, *inside(stored.record)):
                for index in type(record).all_indexes().values():
                    index.keys(record)
            table[key] = stored
        self.view = CopyingView(revision, tables)
        return self.view
