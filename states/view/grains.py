"""Grains that record which of them are read, so that a change of other grains has no effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

ALL = "*"
"""Stands for all grains: they were read as a whole."""
CALLS = "salt."
"""Prefix of the name of a module: a template called functions of it, which may read the machine."""


class Grains(dict[str, Any]):
    """The grains of a host. `read` has the names of those that were read or tested for."""

    def __init__(self, values: Mapping[str, Any], read: set[str] | None = None) -> None:
        super().__init__(dict.items(values) if isinstance(values, dict) else values)
        self.read: set[str] = set() if read is None else read

    def _note(self, name: object) -> None:
        self.read.add(name if isinstance(name, str) else ALL)

    def __getitem__(self, name: str) -> Any:
        """Return the value of a grain. Raises `KeyError`."""
        self._note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a grain, or the default."""
        self._note(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a grain of that name."""
        self._note(name)
        return super().__contains__(name)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the value of a grain, which is added if it is missing."""
        self._note(name)
        return super().setdefault(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a grain and return its value."""
        self._note(name)
        return super().pop(name, *default)

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names."""
        self._note(ALL)
        return super().__iter__()

    def __len__(self) -> int:
        """Return the number of grains."""
        self._note(ALL)
        return super().__len__()

    def keys(self) -> Any:
        """Return the names."""
        self._note(ALL)
        return super().keys()

    def values(self) -> Any:
        """Return the values."""
        self._note(ALL)
        return super().values()

    def items(self) -> Any:
        """Return the names and values."""
        self._note(ALL)
        return super().items()

    def copy(self) -> dict[str, Any]:
        """Return a plain copy."""
        self._note(ALL)
        return super().copy()

    def __eq__(self, other: object) -> bool:
        """Return whether the grains are equal to another mapping."""
        self._note(ALL)
        return super().__eq__(other)

    __hash__ = None  # as for every dict

    def __or__(self, other: Any) -> Any:
        """Return a plain dict of these grains and another mapping."""
        self._note(ALL)
        return super().__or__(other)

    def __ror__(self, other: Any) -> Any:
        """Return a plain dict of another mapping and these grains."""
        self._note(ALL)
        return super().__ror__(other)

    def __str__(self) -> str:
        """Return the grains as a dict is printed."""
        self._note(ALL)
        return super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to a plain dict, so that copies and pickles are plain dicts."""
        self._note(ALL)
        return dict, (unnoted(self),)


def unnoted(grains: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain copy of grains; making it does not count as reading."""
    return dict(dict.items(grains) if isinstance(grains, dict) else grains)


def seen(grains: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return the present values of grains that were read, for a later comparison.

    Missing grains are included. `ALL` stands for all grains.
    """
    plain = unnoted(grains)
    return {name: repr(plain) if name == ALL else repr(plain[name]) if name in plain else "" for name in names}
