"""Grains that note which of them are read, so that a change of others concerns nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

ALL = "*"
"""Stands for every grain: they were gone through as a whole."""
CALLS = "salt."
"""With the name of a module behind it: a template has made calls of that, which may look at the machine."""


class Grains(dict[str, Any]):
    """A host's grains. `read` has the names of those that somebody has looked at, or for."""

    def __init__(self, values: Mapping[str, Any], read: set[str] | None = None) -> None:
        super().__init__(dict.items(values) if isinstance(values, dict) else values)
        self.read: set[str] = set() if read is None else read

    def _note(self, name: object) -> None:
        self.read.add(name if isinstance(name, str) else ALL)

    def __getitem__(self, name: str) -> Any:
        """One of them. Raises `KeyError`."""
        self._note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """One of them, or something else."""
        self._note(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        """Whether there is one of that name."""
        self._note(name)
        return super().__contains__(name)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """One of them, made if there is none."""
        self._note(name)
        return super().setdefault(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """Take one out."""
        self._note(name)
        return super().pop(name, *default)

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        self._note(ALL)
        return super().__iter__()

    def __len__(self) -> int:
        """How many they are."""
        self._note(ALL)
        return super().__len__()

    def keys(self) -> Any:
        """Their names."""
        self._note(ALL)
        return super().keys()

    def values(self) -> Any:
        """What they are."""
        self._note(ALL)
        return super().values()

    def items(self) -> Any:
        """All of them."""
        self._note(ALL)
        return super().items()

    def copy(self) -> dict[str, Any]:
        """A plain copy."""
        self._note(ALL)
        return super().copy()

    def __eq__(self, other: object) -> bool:
        """Whether they are the same as another mapping."""
        self._note(ALL)
        return super().__eq__(other)

    __hash__ = None  # as for every dict

    def __or__(self, other: Any) -> Any:
        """A plain dict of both."""
        self._note(ALL)
        return super().__or__(other)

    def __ror__(self, other: Any) -> Any:
        """The same."""
        self._note(ALL)
        return super().__ror__(other)

    def __str__(self) -> str:
        """As a dict is printed."""
        self._note(ALL)
        return super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, pickled or not, are plain."""
        self._note(ALL)
        return dict, (unnoted(self),)


def unnoted(grains: Mapping[str, Any]) -> dict[str, Any]:
    """A plain copy of grains, the making of which is not noted."""
    return dict(dict.items(grains) if isinstance(grains, dict) else grains)


def seen(grains: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """What these grains, which somebody has read, look like now: by that it can be told later whether one of them has changed.

    Those that are not there belong to it. `ALL` stands for all of them.
    """
    plain = unnoted(grains)
    return {name: repr(plain) if name == ALL else repr(plain[name]) if name in plain else "" for name in names}
