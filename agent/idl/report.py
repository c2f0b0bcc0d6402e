"""The problems of a package: they are collected from all steps, each with its location in the sources."""

from __future__ import annotations

import ast

from holdfast.agent.idl.sources import IdlSource
from holdfast.states.errors import CompileError, Location, Problem

Node = ast.expr | ast.stmt | ast.keyword | ast.alias


class SourceReport:
    """All problems that were found so far."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, source: IdlSource, node: Node, code: str, message: str, hint: str = "") -> None:
        """Record a problem at a node of a source."""
        self.problems.append(self.at(source, node, code, message, hint))

    @staticmethod
    def at(source: IdlSource, node: Node, code: str, message: str, hint: str = "") -> Problem:
        """Return a problem at a node of a source."""
        place = source.location(node.lineno, node.col_offset)
        return Problem(place, code, message, hint, source.line(node.lineno))

    def add_line(self, source: IdlSource, line: int, code: str, message: str, hint: str = "") -> None:
        """Record a problem at a line of a source; line 0 is the source as a whole."""
        self.problems.append(Problem(Location(source.file, line), code, message, hint, source.line(line)))

    def demand_none(self) -> None:
        """Raise `CompileError` if there is a problem."""
        if self.problems:
            raise CompileError(self.problems)
