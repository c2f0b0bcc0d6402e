"""What a rule is, a function that is handed a tree and yields what it finds; and what that tree looks like to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from holdfast.states.check import Checked
from holdfast.states.data import Call, Request
from holdfast.states.errors import Problem
from holdfast.states.lint.template import Template, read_template
from holdfast.states.requisites import ResolvedTarget
from holdfast.states.source import Text, Tree


@dataclass(frozen=True)
class Subject:
    """One tree, as far as it compiled."""

    request: Request
    texts: Sequence[Text] = ()
    """The files that were read: state files, and what they import."""
    calls: Sequence[Checked] = ()
    """Every call, sorted by number; none when the tree does not compile."""
    edges: Sequence[Sequence[ResolvedTarget]] = field(default=(), repr=False)
    """What each of them requires; the groups are positions in `calls`."""
    ordered: Sequence[Call] = field(default=(), repr=False)
    """What is handed out, in order of execution: the same, and the parts of composites."""

    @property
    def root(self) -> Path:
        """The states directory."""
        return self.request.states

    @property
    def disabled(self) -> frozenset[str]:
        """Requisites that the settings turn off."""
        given = self.request.options.get("disabled_requisites") or ()
        return frozenset([given] if isinstance(given, str) else given)

    @cached_property
    def templates(self) -> list[Template]:
        """Every file that was read and has Jinja in it which can be read."""
        return [template for text in self.texts if (template := read_template(text)) is not None]

    def with_edges(self) -> Iterator[tuple[Checked, Sequence[ResolvedTarget]]]:
        """Each call that has requisites, with them."""
        return ((call, edges) for call, edges in zip(self.calls, self.edges, strict=True) if edges)

    def all_files(self) -> Tree:
        """The whole directory, to be read anew."""
        return Tree(self.root, self.request.trusted_uids)


Rule = Callable[[Subject], Iterable[Problem]]
RULES: list[Rule] = []
"""Every rule there is."""


def rule(function: Rule) -> Rule:
    """Enter a rule."""
    RULES.append(function)
    return function
