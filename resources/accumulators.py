"""What a state passes on to other states at compile time (`states/compile/hand_on.py`).

Texts for a file (Salt's `file.accumulated`) and variables for commands (`environ.setenv`) depend on the states alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple


class Contribution(NamedTuple):
    """Texts that one state contributes to a file."""

    path: str
    """The file that receives the texts."""
    accumulator: str
    texts: tuple[Any, ...]
    """Texts, or other data that a template reads."""


class Contributing:
    """Contributes to a file that another state manages."""

    @abstractmethod
    def contribution(self) -> Contribution:
        """Return the contribution. Pure and cheap."""


class Collecting:
    """Manages a file to which other states contribute texts; the name of the resource is the path."""

    of_required: ClassVar[bool] = False
    """Whether, if the state requires accumulators, only the texts of these are used."""

    @abstractmethod
    def with_texts(self, texts: Mapping[str, Sequence[Any]]) -> Mapping[str, Any]:
        """Return the arguments that differ with these texts, given by accumulator. Pure and cheap."""


class SettingVariables:
    """Sets variables for the commands of later states."""

    @abstractmethod
    def variables(self) -> Mapping[str, str | None]:
        """Return the variables; None for one that is not to be set. Pure and cheap."""


class TakingVariables:
    """Runs commands, which have the variables of earlier states."""

    @abstractmethod
    def with_variables(self, variables: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the arguments that differ with these variables. Pure and cheap."""
