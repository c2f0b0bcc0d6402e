"""What states hand on to others when the states are compiled (`states/compile/hand_on.py`).

Texts for a file (Salt's `file.accumulated`) and variables for commands (`environ.setenv`) follow from the states alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple


class Contribution(NamedTuple):
    """Texts that one state contributes to a file."""

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
