"""What is wrong with a tree, collected stage by stage: all that is certain, nothing that only follows from something else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.states.errors import CompileError, Problem
from holdfast.states.low import Chunk

CONSEQUENCES = frozenset({"argument-missing", "contradiction", "extend-missing", "function-missing"})
"""What may be wrong only because something else is: an `extend` or an `onchanges_in` that was not read could have put it right."""
WHOLE = frozenset({"requisite-ambiguous", "requisite-missing", "source-absent", "source-syntax"})
"""Mistakes for which no state is missing that a requisite could name."""


@dataclass(slots=True)
class Wrong:
    """The problems of one compilation; `waived` ones become warnings."""

    warnings: list[Problem]
    problems: list[Problem] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.problems)

    @property
    def lost(self) -> bool:
        """Whether states may be missing that somebody wrote."""
        return any(problem.code not in WHOLE for problem in self.problems)

    def demand_none(self) -> None:
        """Raise `CompileError` with all of them, if there are any."""
        if self.problems:
            raise CompileError(self.problems)

    def apart(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks from files in which nothing is wrong."""
        files = {problem.place.file for problem in self.problems}
        return [chunk for chunk in chunks if chunk.spot.document.file not in files] if files else chunks

    def add(self, problems: Iterable[Problem]) -> None:
        """Take in what one stage has found; what the stages before it may account for is left out."""
        hidden = CONSEQUENCES if self.problems else frozenset()
        if self.lost:
            hidden |= {"requisite-missing"}
        for problem in problems:
            if problem.waived:
                self.warnings.append(problem)
            elif problem.code not in hidden:
                self.problems.append(problem)
