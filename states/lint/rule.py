"""The lint rules, which are functions that yield problems of a `Subject`: the states and their compiled calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from holdfast.states.compile.check import Checked
from holdfast.states.compile.requisites import ResolvedTarget
from holdfast.states.data import Call, CompilerInputs
from holdfast.states.errors import Problem
from holdfast.states.source.files import Text, Tree
from holdfast.states.template.analysis import Template, read_template


@dataclass(frozen=True)
class Subject:
    """The states, with the results of the stages that were compiled."""

    inputs: CompilerInputs
    texts: Sequence[Text] = ()
    """The files that were read: state files, and what they import."""
    calls: Sequence[Checked] = ()
    """Every call, sorted by number; empty if the states do not compile."""
    edges: Sequence[Sequence[ResolvedTarget]] = field(default=(), repr=False)
    """The requisites of each call; the groups are positions in `calls`."""
    ordered: Sequence[Call] = field(default=(), repr=False)
    """The compiled calls in order of execution, including parts of composites."""

    @property
    def root(self) -> Path:
        """The states directory."""
        return self.inputs.states

    @property
    def disabled(self) -> frozenset[str]:
        """Requisites that the settings disable."""
        given = self.inputs.options.get("disabled_requisites") or ()
        return frozenset([given] if isinstance(given, str) else given)

    @cached_property
    def templates(self) -> list[Template]:
        """Every file with Jinja that was read and can be parsed."""
        return [template for text in self.texts if (template := read_template(text)) is not None]

    def with_edges(self) -> Iterator[tuple[Checked, Sequence[ResolvedTarget]]]:
        """Return each call with requisites, and its requisites."""
        return ((call, edges) for call, edges in zip(self.calls, self.edges, strict=True) if edges)

    def all_files(self) -> Tree:
        """Return a new object for the states directory, which has not read any file."""
        return Tree(self.root, self.inputs.trusted_uids)


Rule = Callable[[Subject], Iterable[Problem]]
RULES: list[Rule] = []
"""All rules."""


def rule(function: Rule) -> Rule:
    """Register a rule."""
    RULES.append(function)
    return function
