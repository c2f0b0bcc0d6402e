"""Errors of records and of their database. Each kind of failure has its own class."""

from __future__ import annotations

from holdfast.resources.errors import HoldfastError


class NorthboundError(HoldfastError):
    """Base of the errors of this package."""


class NotFound(NorthboundError):
    """There is no record with this ID."""


class AlreadyExists(NorthboundError):
    """A record with this ID exists."""


class Conflict(NorthboundError):
    """Another writer has changed a record since it was read. `current` is its present revision; 0: it is deleted."""

    def __init__(self, text: str, current: int) -> None:
        super().__init__(text)
        self.current = current


class Invalid(NorthboundError):
    """A record, a model or a query breaks a rule; the text names all of them. Nothing was written."""


class RefMissing(NorthboundError):
    """A reference leads to a record that does not exist."""

    def __init__(self, text: str, table: str, id: str) -> None:
        super().__init__(text)
        self.table, self.id = table, id


class Referenced(NorthboundError):
    """A record cannot be deleted, because others refer to it."""


class Unavailable(NorthboundError):
    """The database does not answer, or cannot write. Whether a write was made is unknown if `unsure`."""

    def __init__(self, text: str, *, unsure: bool = False) -> None:
        super().__init__(text)
        self.unsure = unsure


class Compacted(NorthboundError):
    """The changes since a revision are no longer kept; list the records instead.

    `kept`: the first revision after which a watch finds all changes.
    """

    def __init__(self, after: int, kept: int) -> None:
        super().__init__(f"the changes since revision {after} are no longer kept")
        self.after, self.kept = after, kept
