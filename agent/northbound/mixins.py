"""Mixins for models: versions, names, unique numbers, topics. A mixin comes before `Model` in the bases of a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.values import UNSET


class Versioned(Model):
    """Counts the writes of a record: 1, 2, 3 ... A greater number that the caller sets is kept."""

    version: int = 0

    def on_create_pre(self) -> Self:
        """Begin with 1."""
        record = super().on_create_pre()
        return record if record.version > 0 else record.replace(version=1)

    def on_update_pre(self, original: Self) -> Self:
        """Add 1."""
        record = super().on_update_pre(original)
        return record if record.version > original.version else record.replace(version=original.version + 1)


class Named(Model):
    """Has a name, which several records may share."""

    indexes: ClassVar[Mapping[str, str | tuple[str, ...]]] = {"name": "name"}
    name: str


class UniqueKey(Model):
    """Has a number that no other record of its table has or ever had; it is allocated when the record is created."""

    indexes: ClassVar[Mapping[str, str | tuple[str, ...]]] = {"unique_key": "unique_key"}
    unique_key: int = UNSET  # type: ignore[assignment]

    def on_update_pre(self, original: Self) -> Self:
        """Raise `Invalid` for a changed number: it may be that of another record."""
        if self.unique_key != original.unique_key:
            raise Invalid(f"cannot change {self.table} {self.id!r}: its unique_key is allocated, it cannot be chosen")
        return super().on_update_pre(original)


class Topic(Model):
    """Belongs to a topic, for example a tenant. A cache may be limited to some topics."""

    indexes: ClassVar[Mapping[str, str | tuple[str, ...]]] = {"topic": "topic"}
    topic: str


class Counter(Model, table="counters"):
    """The numbers of one table that are allocated; the ID is the table."""

    internal: ClassVar[bool] = True

    last: int = 0
