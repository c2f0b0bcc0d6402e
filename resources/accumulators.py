"""Accumulators: texts that several states contribute to one file, as Salt's `file.accumulated`.

The compiler hands the texts on (`states/compile/accumulate.py`): they follow from the states alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self


class Contribution(NamedTuple):
    """Texts that one state contributes."""

    path: str
    """The file that is meant."""
    accumulator: str
    texts: tuple[Any, ...]
    """Texts, or other data that a template reads."""


class Contributing:
    """Contributes to a file that another state manages."""

    @abstractmethod
    def contribution(self) -> Contribution:
        """Return the contribution. Pure and cheap."""


class Collecting:
    """Manages a file of which other states contribute parts; its name is the path."""

    of_required: ClassVar[bool] = False
    """Whether only the accumulators of states that it requires count, if there are any."""

    @abstractmethod
    def with_texts(self, texts: Mapping[str, Sequence[Any]]) -> Self:
        """Return a copy of the resource with these texts, by accumulator. Pure and cheap."""
