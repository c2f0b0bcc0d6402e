"""Collects the problems of one compilation, stage by stage, and leaves out mere consequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.states.compile.low import Chunk
from holdfast.states.errors import CompileError, Problem

CONSEQUENCES = frozenset({"argument-missing", "contradiction", "extend-missing", "function-missing"})
"""Codes of problems that may be consequences.

An `extend` or an `onchanges_in` in a file that was not read could prevent them.
"""
WHOLE = frozenset({"requisite-ambiguous", "requisite-missing", "source-absent", "source-syntax"})
"""Codes of problems that do not remove a state.

A requisite that matches nothing is an error of its own in spite of them.
"""


@dataclass(slots=True, eq=False, repr=False)
class ProblemCollector:
    """The problems of one compilation; `waived` problems become warnings."""

    warnings: list[Problem]
    problems: list[Problem] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Return whether there are any problems."""
        return bool(self.problems)

    @property
    def states_missing(self) -> bool:
        """Whether states that a file declares may be missing because of a problem."""
        return any(problem.code not in WHOLE for problem in self.problems)

    def raise_any(self) -> None:
        """Raise `CompileError` with all problems, if there are any."""
        if self.problems:
            raise CompileError(self.problems)

    def without_problems(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Return the chunks from files without problems."""
        files = {problem.location.file for problem in self.problems}
        return [chunk for chunk in chunks if chunk.spot.document.file not in files] if files else chunks

    def add(self, problems: Iterable[Problem]) -> None:
        """Add the problems of one stage, except those that may be consequences of earlier problems."""
        hidden = CONSEQUENCES if self.problems else frozenset()
        if self.states_missing:
            hidden |= {"requisite-missing"}
        for problem in problems:
            if problem.waived:
                self.warnings.append(problem)
            elif problem.code not in hidden:
                self.problems.append(problem)
