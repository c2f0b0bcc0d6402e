"""The contract of the cache: views that never change, each at one revision.

Reads are synchronous and never touch the database. All writes of one batch appear in the next view together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from holdfast.agent.northbound.model import Model

T = TypeVar("T", bound=Model)


class Stored(NamedTuple):
    """A record with its revisions."""

    record: Any
    revision: int
    """Revision of the last write."""
    created: int
    """Revision of the first write."""


class StoreChange(NamedTuple):
    """The write of one record."""

    model: type[Model]
    id: str
    stored: Stored | None
    """None: the record was deleted."""


class StoreView(ABC):
    """All records at one revision. In queries, `values` are parts of an index (see `Index.query`)."""

    revision: int

    @abstractmethod
    def stored(self, model: type[T], id: str) -> Stored | None:
        """Return a record with its revisions."""

    def get(self, model: type[T], id: str) -> T | None:
        """Return a record."""
        found = self.stored(model, id)
        return found.record if found else None

    def has(self, model: type[Model], id: str) -> bool:
        """Return whether there is a record with this ID."""
        return self.stored(model, id) is not None

    @abstractmethod
    def own(self, model: type[T], id: str) -> Stored | None:
        """Return a record of its own, not an embedded one, as it was written; only the present view has these."""

    @abstractmethod
    def own_keys(self, model: type[Model]) -> Iterable[str]:
        """Return the IDs of records of their own, in any order; only the present view has these."""

    def touched(self, model: type[Model], later: StoreView) -> Iterable[str]:
        """Return the IDs of all records that may differ in a later view."""
        return {*self.keys(model), *later.keys(model)}

    @abstractmethod
    def keys(self, model: type[Model], index: str = "", **values: Any) -> Sequence[str]:
        """Return the IDs of the records that match, or of all. Raises `Invalid`."""

    @abstractmethod
    def get_all(self, model: type[T], index: str = "", **values: Any) -> Sequence[T]:
        """Return the records that match, or all. Raises `Invalid`."""

    @abstractmethod
    def get_one(self, model: type[T], index: str = "", **values: Any) -> T | None:
        """Return the record that matches, or None. Raises `Invalid` if several do."""

    @abstractmethod
    def count(self, model: type[Model]) -> int:
        """Return the number of records."""


class DbStore(ABC):
    """The present view, and the only way to the next one."""

    view: StoreView

    @abstractmethod
    def apply(self, revision: int, changes: Sequence[StoreChange]) -> StoreView:
        """Make the view at a revision: all changes appear, or none if an error is raised."""
