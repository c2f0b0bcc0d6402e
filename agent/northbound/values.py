"""Four kinds of absent values.

`UNSET`: a field that was not given, so an update does not change it. `None`: a field that was explicitly given no
value. `MISSING`: a path of an index on which an object has no value. `ANY`: a part of a query that every value matches.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal


class Absence(Enum):
    """The values that stand for no value, apart from None."""

    UNSET = "UNSET"
    MISSING = "MISSING"
    ANY = "ANY"

    def __repr__(self) -> str:
        """Return the name."""
        return self.value

    def __bool__(self) -> bool:
        """Return False, as for None."""
        return False


UNSET: Final = Absence.UNSET
MISSING: Final = Absence.MISSING
ANY: Final = Absence.ANY

Unset = Literal[Absence.UNSET]
